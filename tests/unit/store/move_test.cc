// Put and fetch: what goes in comes out, item by item.
#include <array>
#include <numeric>

#include <poll.h>

#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

bool Readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

TEST(MoveTest, PayloadsOfAnyLengthComeBackAsTheyWere) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  uint32_t prompt = 1;
  for (uint64_t bytes : {1ull, 7ull, 4095ull, 4096ull, 4097ull, 20'000ull, 65'536ull, 262'144ull}) {
    const Blocks chain = t.Prompt(prompt++, 2);
    EXPECT_EQ(t.Put(chain, bytes), All(Item::kDone, 2)) << bytes;
    EXPECT_EQ(t.Fetch(chain, bytes), All(Item::kDone, 2)) << bytes;
    EXPECT_EQ(t.Fetch(chain, bytes + 1), All(Item::kMiss, 2)) << "another length is a miss";
  }
}

TEST(MoveTest, PiecesOfMemoryThatIsNotAlignedGatherAndScatter) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 3);
  constexpr uint64_t kBytes = 10'001;
  Pages source(3, kBytes, 13);
  source.Fill(chain);
  Pages target(3, kBytes, 29);
  // Three pieces a block, cut at odd places.
  const auto pieces = [&](Pages& pages) {
    std::vector<Extent> extents;
    for (size_t i = 0; i < 3; ++i) {
      std::byte* p = pages.of(i).data();
      extents.insert(extents.end(), {{p, 1}, {p + 1, 4999}, {p + 5000, kBytes - 5000}});
    }
    return extents;
  };
  const std::vector<Extent> from = pieces(source);
  const std::vector<Extent> to = pieces(target);
  const std::vector<uint32_t> begin = {0, 3, 6, 9};
  std::array<Item, 3> items{};
  Memory memory{.kind = Memory::Kind::kExtents, .extents = from, .extent_begin = begin};
  EXPECT_EQ(*t->Put(chain, memory, {}, items), 3u);
  memory.extents = to;
  EXPECT_EQ(*t->Fetch(chain, memory, {}, items), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(target.Holds(chain, i)) << i;
  EXPECT_EQ(t->Erase(chain).code(), StatusCode::kOk);
}

TEST(MoveTest, SlotsOfALayoutAreReadAndWrittenAndSkippedOnesLeftAlone) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  // Two stripes, as of K and V, each with a stride of its own.
  constexpr uint64_t kHalf = 6000;
  std::vector<std::byte> pool(16 * 2 * 8192, std::byte{0xee});
  const RegionId region = *t->AddRegion(pool);
  const std::array<Stripe, 2> stripes = {Stripe{region, 0, 8192, kHalf},
                                         Stripe{region, 16 * 8192, 7000, kHalf}};
  const LayoutId layout = *t->AddLayout(stripes);
  const Blocks chain = t.Prompt(1, 4);
  const auto k = [&](int64_t slot) {
    return std::span(pool).subspan(static_cast<size_t>(slot) * 8192, kHalf);
  };
  const auto v = [&](int64_t slot) {
    return std::span(pool).subspan(16 * 8192 + static_cast<size_t>(slot) * 7000, kHalf);
  };
  const std::array<int64_t, 4> from = {3, 1, 7, 0};
  for (size_t i = 0; i < 4; ++i) {
    FillPayload(chain.key(i), 0, k(from[i]));
    FillPayload(chain.key(i), kHalf, v(from[i]));
  }
  std::array<Item, 4> items{};
  Memory memory{.kind = Memory::Kind::kSlots, .layout = layout, .slots = from};
  EXPECT_EQ(*t->Put(chain, memory, {}, items), 4u);
  const std::array<int64_t, 4> to = {8, -1, 9, 10};
  memory.slots = to;
  EXPECT_EQ(*t->Fetch(chain, memory, {}, items), 4u) << "a skipped block ends no prefix";
  EXPECT_EQ(items[1], Item::kSkipped);
  for (size_t i : {0, 2, 3}) {
    EXPECT_EQ(items[i], Item::kDone);
    EXPECT_TRUE(PayloadIs(chain.key(i), 0, k(to[i]))) << i;
    EXPECT_TRUE(PayloadIs(chain.key(i), kHalf, v(to[i]))) << i;
  }
  EXPECT_EQ(k(11)[0], std::byte{0xee});
  const std::array<int64_t, 4> outside = {0, 1, 2, 18};
  memory.slots = outside;
  EXPECT_EQ(t->Fetch(chain, memory, {}, items).error().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(t->Erase(chain).ok());
}

TEST(MoveTest, APartOfWholeGranulesComesAloneFromEveryTier) {
  StoreOptions o = SmallStore();
  o.payload_bytes_max = 1 << 20;
  o.payload_bytes_typical = 640 << 10;
  o.ddr_bytes = 4 << 20;
  o.page_bytes = 4 << 20;
  o.segment_bytes = o.segment_bytes_min = 2 << 20;
  o.flash_bytes = 16 << 20;
  o.disk_bytes = 0;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  constexpr uint64_t kBytes = 640 << 10;
  constexpr uint64_t kGranule = 256 << 10;
  const Blocks chain = t.Prompt(1, 1);
  ASSERT_EQ(t.Put(chain, kBytes, k1h), All(Item::kDone, 1));
  const auto part = [&](uint64_t offset, uint64_t bytes) {
    Pages pages(1, bytes);
    std::array<Item, 1> items{};
    FetchOptions options{.payload_bytes = kBytes, .offset = offset, .bytes = bytes};
    const Result<size_t> got = t->Fetch(chain, pages.memory(), options, items);
    if (!got.has_value()) return got.error().code();
    EXPECT_EQ(items[0], Item::kDone);
    EXPECT_TRUE(pages.Holds(chain, 0, offset));
    return StatusCode::kOk;
  };
  for (const bool from_flash : {false, true}) {
    if (from_flash) {
      t.Settle();
      ASSERT_EQ(t.Put(t.Prompt(2, 6), kBytes), All(Item::kDone, 6));
      ASSERT_EQ(t.Find(chain)[0], Where::kFlash);
    }
    EXPECT_EQ(part(0, kGranule), StatusCode::kOk);
    EXPECT_EQ(part(kGranule, kGranule), StatusCode::kOk);
    EXPECT_EQ(part(2 * kGranule, kBytes - 2 * kGranule), StatusCode::kOk);
    EXPECT_EQ(part(1, kGranule), StatusCode::kInvalidArgument);
    EXPECT_EQ(part(0, kGranule + 4096), StatusCode::kInvalidArgument);
    EXPECT_EQ(part(kGranule, kBytes), StatusCode::kInvalidArgument);
  }
}

TEST(MoveTest, AViewShowsTheFrameAndOutlivesEraseAndStore) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  ASSERT_EQ(t.Put(chain, kPayload), All(Item::kDone, 4));
  std::vector<Item> items(4);
  ASSERT_TRUE(t->SubmitFetch(chain, Memory{}, {.payload_bytes = kPayload}, &t.queue(), 9, items)
                  .has_value());
  std::vector<Completion> done = t.Completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 9u);
  EXPECT_EQ(done[0].done, 4u);
  EXPECT_EQ(t->Stats().views, 4u);
  const Lease views = std::move(done[0].views);
  done.clear();
  ASSERT_TRUE(t->Erase(chain).ok());
  EXPECT_EQ(t.Resident(chain), 0u);
  ASSERT_EQ(t.Put(t.Prompt(2, 40), kPayload), All(Item::kDone, 40)) << "others go on around it";
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(PayloadIs(chain.key(i), 0, views.view(i))) << i;
  t.AbandonChecks();
  t.Close();
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(PayloadIs(chain.key(i), 0, views.view(i))) << i;
  EXPECT_TRUE(views.view(4).empty());
}

TEST(MoveTest, ViewsAreBoundedAndGivenBack) {
  StoreOptions o = DdrOnly();
  o.views_max = 3;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  ASSERT_EQ(t.Put(chain, kPayload), All(Item::kDone, 4));
  std::vector<Item> items(4);
  FetchOptions options{.payload_bytes = kPayload};
  ASSERT_TRUE(t->SubmitFetch(chain, Memory{}, options, &t.queue(), 1, items).has_value());
  EXPECT_EQ(items, First(3, Item::kDone, 4, Item::kMiss));
  EXPECT_EQ(t->Reserve(kPayload).error().code(), StatusCode::kResourceExhausted);
  t.Pass(31s);
  EXPECT_EQ(t->Stats().views_old, 3u);
  t.Completions();  // ends the lease
  EXPECT_EQ(t->Stats().views, 0u);
  const Lease reserved = *t->Reserve(kPayload);
  EXPECT_EQ(t->Stats().views_old, 0u);
  t.Pass(31s);
  EXPECT_EQ(t->Stats().views_old, 1u);
}

TEST(MoveTest, AReservedFrameIsCommittedWithoutACopy) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks one = t.Prompt(1, 1);
  Lease frame = *t->Reserve(kPayload);
  ASSERT_EQ(frame.writable().size(), kPayload);
  FillPayload(one.key(0), 0, frame.writable());
  EXPECT_EQ(t->Stats().views, 1u);
  std::array<Item, 1> item{};
  ASSERT_TRUE(
      t->SubmitCommit(std::move(frame), one, {.hold = {k5m}}, &t.queue(), 3, item).has_value());
  EXPECT_EQ(item[0], Item::kDone);
  EXPECT_EQ(t.Completions().size(), 1u);
  EXPECT_EQ(t->Stats().views, 0u);
  EXPECT_EQ(t.Fetch(one, kPayload), All(Item::kDone, 1));
  // A second commit of the key: what is there stays, the frame goes back.
  Lease again = *t->Reserve(kPayload);
  ASSERT_TRUE(t->SubmitCommit(std::move(again), one, {}, nullptr, 0, item).has_value());
  EXPECT_EQ(item[0], Item::kPresent);
  EXPECT_EQ(t.Tier(Where::kDdr).copies, 1u);
  { const Lease given_up = *t->Reserve(kPayload); }
  EXPECT_TRUE(t->Erase(one).ok());
  EXPECT_EQ(t.Tier(Where::kDdr).used_bytes, 0u);
}

TEST(MoveTest, AKeyPutAgainIsPresentAndKeptOnce) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 3);
  EXPECT_EQ(t.Put(chain.Slice(0, 2), kPayload), All(Item::kDone, 2));
  EXPECT_EQ(t.Put(chain, kPayload), First(2, Item::kPresent, 3, Item::kDone));
  EXPECT_EQ(t.Tier(Where::kDdr).copies, 3u);
  EXPECT_EQ(t->Stats().present, 2u);
  EXPECT_EQ(t->Stats().put, 3u);
}

TEST(MoveTest, DuplicatesWithinABatchAreOneBlock) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  SpaceSpec spec;
  spec.model = "external";
  spec.key_bytes = 16;
  const SpaceId space = *t->OpenSpace(spec);
  std::vector<std::byte> keys(4 * 16);
  for (size_t i : {0, 1, 3}) keys[i * 16] = std::byte{static_cast<uint8_t>(i + 1)};
  keys[2 * 16] = std::byte{1};  // block 2 is block 0 again
  const Blocks blocks = *Blocks::FromKeys(*t, space, keys);
  const std::vector<Item> items = t.Put(blocks, kPayload);
  EXPECT_EQ(items, (std::vector<Item>{Item::kDone, Item::kDone, Item::kPresent, Item::kDone}));
  EXPECT_EQ(t.Tier(Where::kDdr).copies, 3u);
  EXPECT_EQ(t.Fetch(blocks, kPayload), All(Item::kDone, 4));
}

TEST(MoveTest, WhatFollowsABadMemberIsDeclinedAndWhatPrecedesItIsStored) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 6);
  // Block 2 is here with another length.
  ASSERT_EQ(t.Put(chain.Slice(2, 1), 2 * kPayload), All(Item::kDone, 1));
  EXPECT_EQ(t.Put(chain, kPayload), First(2, Item::kDone, 6, Item::kDeclined));
  EXPECT_EQ(t->Stats().declined_orphan, 3u);
  EXPECT_EQ(t.Resident(chain), 3u);
  EXPECT_EQ(t.Fetch(chain, kPayload), First(2, Item::kDone, 6, Item::kMiss));
  // Without the prefix rule every good block counts for itself.
  EXPECT_EQ(t.Fetch(chain.Slice(1, 3), 0 + kPayload, {.prefix = false}),
            (std::vector<Item>{Item::kDone, Item::kMiss, Item::kMiss}));
}

TEST(MoveTest, KeysThatAreNotLinkedStandAndFallEachForItself) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  SpaceSpec spec;
  spec.model = "external";
  spec.key_bytes = 16;
  const SpaceId space = *t->OpenSpace(spec);
  std::vector<std::byte> keys(4 * 16);
  for (size_t i = 0; i < 4; ++i) keys[i * 16] = std::byte{static_cast<uint8_t>(i + 1)};
  const Blocks blocks = *Blocks::FromKeys(*t, space, keys);
  ASSERT_EQ(t.Put(blocks.Slice(1, 1), 2 * kPayload), All(Item::kDone, 1));
  EXPECT_EQ(t.Put(blocks, kPayload),
            (std::vector<Item>{Item::kDone, Item::kDeclined, Item::kDone, Item::kDone}));
}

TEST(MoveTest, FromTheFirstMissOnAFetchIsAMiss) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 5);
  ASSERT_EQ(t.Put(chain, kPayload), All(Item::kDone, 5));
  ASSERT_TRUE(t->Erase(chain.Slice(2, 1)).ok());
  EXPECT_EQ(t.Fetch(chain, kPayload), First(2, Item::kDone, 5, Item::kMiss));
  std::vector<Item> expected = All(Item::kDone, 5);
  expected[2] = Item::kMiss;
  EXPECT_EQ(t.Fetch(chain, kPayload, {.prefix = false}), expected);
}

TEST(MoveTest, EachGivesOneCompletionPerBlock) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 5);
  ASSERT_EQ(t.Put(chain.Slice(0, 4), kPayload), All(Item::kDone, 4));
  const auto f = t.StartFetch(chain, kPayload, {.each = true}, 11);
  ASSERT_TRUE(t->Wait(f->op, t.Now() + 1s).ok());
  EXPECT_EQ(f->Done(), 4u);
  std::vector<uint32_t> blocks;
  for (const Completion& c : t.Completions()) {
    EXPECT_EQ(c.tag, 11u);
    EXPECT_EQ(c.op, f->op);
    EXPECT_EQ(c.done, c.block < 4 ? 1u : 0u);
    blocks.push_back(c.block);
  }
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(blocks, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
}

TEST(MoveTest, AFullQueueRefusesTheSubmitAndNothingHappens) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  const auto small = *CompletionQueue::Create(2, t.run());
  Pages pages(4, kPayload);
  pages.Fill(chain);
  std::vector<Item> items(4);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(t->SubmitPut(chain, pages.memory(), {}, small.get(), 0, items).has_value());
  }
  const uint64_t present = t->Stats().present;
  EXPECT_EQ(t->SubmitPut(chain, pages.memory(), {}, small.get(), 0, items).error().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(
      t->SubmitFetch(chain, pages.memory(), {.each = true}, small.get(), 0, items).error().code(),
      StatusCode::kResourceExhausted);
  EXPECT_EQ(t->Stats().present, present);
  EXPECT_EQ(t->Stats().operations_in_flight, 0u);
  EXPECT_TRUE(Readable(small->event_fd()));
  std::array<Completion, 4> done;
  EXPECT_EQ(small->Poll(done, Instant::min()), 2u);
  EXPECT_FALSE(Readable(small->event_fd()));
  EXPECT_TRUE(t->SubmitPut(chain, pages.memory(), {}, small.get(), 0, items).has_value());
  EXPECT_TRUE(Readable(small->event_fd()));
  EXPECT_TRUE(t->Erase(chain).ok());
}

TEST(MoveTest, APutWaitsForItsFenceAndReadsTheSourceOnlyThen) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 2);
  Pages pages(2, kPayload);
  int state = 0;
  PutOptions options;
  options.fence = {[](void* context) { return *static_cast<int*>(context); }, &state};
  std::vector<Item> items(2);
  const OpId op = *t->SubmitPut(chain, pages.memory(), options, &t.queue(), 0, items);
  t.Pass(5ms);
  EXPECT_EQ(items, All(Item::kPending, 2));
  EXPECT_EQ(t.Resident(chain), 0u);
  EXPECT_EQ(t->Wait(op, t.Now() + 2ms).code(), StatusCode::kDeadlineExceeded);
  pages.Fill(chain);  // the producer is done
  state = 1;
  ASSERT_TRUE(t->Wait(op, t.Now() + 10ms).ok());
  EXPECT_EQ(items, All(Item::kDone, 2));
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 2));
  EXPECT_TRUE(t->Erase(chain).ok());
}

TEST(MoveTest, AFenceThatFailsFailsItsOperation) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 2);
  Pages pages(2, kPayload);
  int state = 0;
  const Fence fence = {[](void* context) { return *static_cast<int*>(context); }, &state};
  std::vector<Item> put(2);
  std::vector<Item> got(2);
  ASSERT_TRUE(
      t->SubmitPut(chain, pages.memory(), {.fence = fence}, &t.queue(), 1, put).has_value());
  ASSERT_TRUE(
      t->SubmitFetch(chain, pages.memory(), {.fence = fence}, &t.queue(), 2, got).has_value());
  state = -1;
  t.Pass(2ms);
  EXPECT_EQ(put, All(Item::kFailed, 2));
  EXPECT_NE(got[0], Item::kDone);
  EXPECT_EQ(t.Completions().size(), 2u);
  EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(MoveTest, APutOfAKeyThatIsArrivingAttachesToIt) {
  StoreOptions o = SmallStore();
  o.ddr_bytes = 0;  // straight to flash, so that a put takes time
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  ASSERT_EQ(t.Put(t.Prompt(2, 1), kPayload), All(Item::kDone, 1));  // there is an open segment
  const Blocks chain = t.Prompt(1, 2);
  Pages pages(2, kPayload);
  pages.Fill(chain);
  std::vector<Item> first(2);
  std::vector<Item> second(2);
  ASSERT_TRUE(t->SubmitPut(chain, pages.memory(), {}, &t.queue(), 1, first).has_value());
  EXPECT_EQ(t.Find(chain), std::vector<Where>(2, Where::kArriving));
  EXPECT_EQ(t->FindPrefix(chain, 0, 1s).count, 0u) << "not visible before it is complete";
  ASSERT_TRUE(
      t->SubmitPut(chain, pages.memory(), {.hold = {k5m}}, &t.queue(), 2, second).has_value());
  EXPECT_EQ(second, All(Item::kPending, 2));
  t.Pass(50ms);
  EXPECT_EQ(first, All(Item::kDone, 2));
  EXPECT_EQ(second, All(Item::kPresent, 2));
  EXPECT_EQ(t.Tier(Where::kFlash).copies, 3u);
  EXPECT_EQ(t.Completions().size(), 2u);
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 2));
  EXPECT_TRUE(t->Erase(chain).ok());
}

TEST(MoveTest, PrefetchBringsCopiesUpToDdrAndHbm) {
  StoreOptions o = SmallStore();
  o.hbm_bytes = 1 << 20;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 4));
  t.Settle();
  for (uint32_t other = 2; other < 6; ++other) t.Put(t.Prompt(other, 25), kPayload, k1h);
  t.Settle();
  ASSERT_EQ(t.Find(chain), std::vector<Where>(4, Where::kFlash));
  EXPECT_EQ(t.Prefetch(chain, Where::kDdr), All(Item::kDone, 4));
  EXPECT_EQ(t.Find(chain), std::vector<Where>(4, Where::kDdr));
  EXPECT_EQ(t.Prefetch(chain, Where::kHbm), All(Item::kDone, 4));
  t.Settle();
  EXPECT_EQ(t.Find(chain), std::vector<Where>(4, Where::kHbm));
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 4));
  EXPECT_EQ(t.Prefetch(t.Prompt(99, 2), Where::kDdr), All(Item::kMiss, 2));
}

TEST(MoveTest, ArgumentsThatCannotBeMeantAreRefused) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 2);
  Pages pages(2, kPayload);
  std::vector<Item> items(2);
  const auto code = [](const auto& result) { return result.error().code(); };
  const StatusCode invalid = StatusCode::kInvalidArgument;
  EXPECT_EQ(code(t->Put(chain, pages.memory(), {}, std::span(items).first(1))), invalid);
  EXPECT_EQ(code(t->Put(chain, Memory{}, {}, items)), invalid);
  EXPECT_EQ(code(t->Put(chain, pages.memory(), {.hold = {2h}}, items)), invalid);
  EXPECT_EQ(code(t->Put(chain, pages.memory(), {.hold = {-1s}}, items)), invalid);
  Memory strange = pages.memory();
  strange.kind = static_cast<Memory::Kind>(99);
  EXPECT_EQ(code(t->Put(chain, strange, {}, items)), invalid);
  const std::array<uint32_t, 3> begin = {0, 1, 3};
  // The second would add up to four bytes.
  for (const Extent& bad : {Extent{nullptr, kPayload}, Extent{pages.of(1).data(), UINT64_MAX}}) {
    const std::array<Extent, 3> extents = {
        {{pages.of(0).data(), kPayload}, bad, {pages.of(1).data(), 5}}};
    const Memory memory = {
        .kind = Memory::Kind::kExtents, .extents = extents, .extent_begin = begin};
    EXPECT_EQ(code(t->Put(chain, memory, {}, items)), invalid);
    EXPECT_EQ(code(t->Fetch(chain, memory, {}, items)), invalid);
  }
  EXPECT_EQ(code(t->Put(chain, pages.memory(), {.payload_bytes = kPayload + 1}, items)), invalid);
  EXPECT_EQ(code(t->Fetch(chain, Memory{}, {.payload_bytes = kPayload}, items)), invalid);
  EXPECT_EQ(code(t->SubmitPrefetch(chain, Where::kDisk, {}, nullptr, 0, items)), invalid);
  EXPECT_EQ(code(t->Reserve(0)), invalid);
  EXPECT_EQ(code(t->AddRegion({})), invalid);
  EXPECT_EQ(t->SetHold(chain, {0ms}, {}).code(), invalid);
  EXPECT_EQ(t->NewEpoch(77).code(), invalid);
  Pages huge(1, 300 << 10);
  std::array<Item, 1> one{};
  EXPECT_EQ(code(t->Put(chain.Slice(0, 1), huge.memory(), {}, one)), invalid);
  EXPECT_EQ(t->Stats().operations_in_flight, 0u);
}

TEST(MoveTest, WithoutDdrPutsAndFetchesGoStraightToTheTierBelow) {
  for (const int tier : {1, 2, 3}) {
    StoreOptions o = SmallStore();
    o.ddr_bytes = 0;
    o.hbm_bytes = tier == 1 ? 4 << 20 : 0;
    if (tier != 2) o.flash_bytes = 0;
    if (tier != 3) o.disk_bytes = 0;
    TestStore t(o);
    ASSERT_TRUE(t.Open().ok()) << tier;
    const Blocks chain = t.Prompt(1, 5);
    EXPECT_EQ(t.Put(chain, kPayload, k5m), All(Item::kDone, 5)) << tier;
    const Blocks odd = t.Prompt(2, 3);
    EXPECT_EQ(t.Put(odd, 5001, k5m), All(Item::kDone, 3)) << tier;
    EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 5)) << tier;
    EXPECT_EQ(t.Fetch(odd, 5001), All(Item::kDone, 3)) << tier;
    EXPECT_EQ(t.Fetch(chain, kPayload, {.keep = true}), All(Item::kDone, 5)) << tier;
    EXPECT_EQ(t->Reserve(kPayload).error().code(), StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace holdfast::testing
