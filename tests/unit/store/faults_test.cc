// Single flight, media that fail or are slow, cancel and deadline at every step.
#include <algorithm>
#include <cerrno>

#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

// A chain that lies on flash alone.
Blocks OnFlash(TestStore& t, uint32_t prompt, size_t blocks) {
  const Blocks chain = t.Prompt(prompt, blocks);
  EXPECT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, blocks));
  t.Settle();
  for (uint32_t other = 0; other < 2; ++other) t.Put(t.Prompt(prompt + 9000 + other, 45), kPayload);
  t.Settle();
  EXPECT_EQ(t.Find(chain), std::vector<Where>(blocks, Where::kFlash));
  return chain;
}

StoreOptions FlashOnly() {
  StoreOptions o = SmallStore();
  o.disk_bytes = 0;
  return o;
}

TEST(SharedReadTest, AThousandFetchesOfOneColdBlockReadItOnce) {
  TestStore t(FlashOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = OnFlash(t, 1, 1);
  const uint64_t reads = t.io().operations(IoKind::kRead);
  std::vector<std::unique_ptr<Fetching>> fetches;
  for (uint64_t i = 0; i < 1000; ++i) fetches.push_back(t.StartFetch(chain, kPayload, {}, i));
  t->Cancel(fetches[0]->op);  // the first does not end the others
  t.Settle();
  EXPECT_EQ(t.io().operations(IoKind::kRead), reads + 1);
  EXPECT_EQ(t->Stats().shared_reads, 999u);
  EXPECT_EQ(fetches[0]->items[0], Item::kCancelled);
  for (size_t i = 1; i < 1000; ++i) EXPECT_EQ(fetches[i]->Done(), 1u) << i;
  EXPECT_EQ(t.Completions().size(), 1000u);
}

TEST(SharedReadTest, AReadThatFailsIsTriedOnceOnAnotherCopyForAllOrIsAMissForAll) {
  for (const bool other_copy : {true, false}) {
    TestStore t(SmallStore());
    ASSERT_TRUE(t.Open().ok());
    const Blocks chain = OnFlash(t, 1, 1);
    if (other_copy) {
      // Out to disk, and the flash copy again by way of ddr.
      for (uint32_t p = 100; p < 160 && t.Find(chain)[0] == Where::kFlash; ++p) {
        t.Put(t.Prompt(p, 20), kPayload);
        t.Settle();
      }
      if (t.Find(chain)[0] != Where::kDisk) continue;  // it was rewritten within flash
    }
    const uint64_t reads = t.io().operations(IoKind::kRead);
    t.io().Plan({.kind = IoKind::kRead, .nth = 1, .error = EIO});
    std::vector<std::unique_ptr<Fetching>> fetches;
    for (uint64_t i = 0; i < 50; ++i) fetches.push_back(t.StartFetch(chain, kPayload, {}, i));
    t.Settle();
    EXPECT_LE(t.io().operations(IoKind::kRead), reads + 1);
    for (const auto& f : fetches) {
      if (other_copy) {
        EXPECT_EQ(f->Done(), 1u);
      } else {
        EXPECT_EQ(f->items[0], Item::kFailed);
      }
    }
    EXPECT_EQ(t.Completions().size(), 50u);
  }
}

TEST(FaultTest, ADamagedReadIsNeverDoneAndTheKeyIsAbsentAfterwards) {
  struct Case {
    SimFault fault;
    Item item;
  };
  const Case cases[] = {
      {{.kind = IoKind::kRead, .nth = 1, .error = EIO}, Item::kFailed},
      {{.kind = IoKind::kRead, .nth = 1, .times = 100, .short_bytes = 0}, Item::kFailed},
      {{.kind = IoKind::kRead, .nth = 1, .misdirect_bytes = 20480}, Item::kCorrupt},
  };
  for (const Case& c : cases) {
    for (const bool keep : {false, true}) {
      TestStore t(FlashOnly());
      ASSERT_TRUE(t.Open().ok());
      const Blocks chain = OnFlash(t, 1, 3);
      t.io().Plan(c.fault);
      const std::vector<Item> items = t.Fetch(chain.Slice(0, 1), kPayload, {.keep = keep});
      EXPECT_EQ(items[0], c.item);
      EXPECT_EQ(t.Find(chain)[0], Where::kAbsent);
      EXPECT_EQ(t.Tier(Where::kFlash).corrupt + t.Tier(Where::kFlash).failed, 1u);
      EXPECT_EQ(t->Stats().holds[1].broken, 1u);
    }
  }
}

TEST(FaultTest, OneFlippedBitIsFoundWhereverItIs) {
  TestStore t(FlashOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = OnFlash(t, 1, 6);
  // Where a frame lies is the tier's: find its payload on the image.
  for (size_t i = 0; i < 6; ++i) {
    std::vector<std::byte> begin(64);
    FillPayload(chain.key(i), 0, begin);
    const auto bytes = t.image().bytes();
    const auto at = std::search(bytes.begin(), bytes.end(), begin.begin(), begin.end());
    ASSERT_NE(at, bytes.end());
    const auto offset = static_cast<uint64_t>(at - bytes.begin());
    const uint64_t where[] = {
        offset,      offset + kPayload - 1, offset + 8000, offset - 4096 + 9, offset - 4096 + 600,
        offset - 200};
    t.image().FlipBit(where[i], static_cast<int>(i));
  }
  const std::vector<Item> items = t.Fetch(chain, kPayload, {.prefix = false});
  EXPECT_EQ(items, All(Item::kCorrupt, 6));
  EXPECT_EQ(t.Resident(chain), 0u);
  EXPECT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 6));
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 6));
}

TEST(FaultTest, ADiskThatFailsOrLiesIsAMiss) {
  StoreOptions o = SmallStore();
  o.flash_bytes = 0;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 4));
  t.Settle();
  for (uint32_t p = 2; p < 4; ++p) t.Put(t.Prompt(p, 45), kPayload);
  t.Settle();
  ASSERT_EQ(t.Find(chain), std::vector<Where>(4, Where::kDisk));
  t.medium().FailOperation(0, EIO);
  EXPECT_EQ(t.Fetch(chain.Slice(3, 1), kPayload), All(Item::kFailed, 1));
  ASSERT_TRUE(t.medium().CorruptPayload(chain.key(2)));
  EXPECT_EQ(t.Fetch(chain, kPayload),
            (std::vector<Item>{Item::kDone, Item::kDone, Item::kCorrupt, Item::kMiss}));
  EXPECT_EQ(t.Resident(chain), 2u);
}

TEST(FaultTest, AFetchEndsOnceWhateverStepItIsCancelledAt) {
  for (int step = 0; step < 60; ++step) {
    TestStore t(FlashOnly());
    ASSERT_TRUE(t.Open().ok());
    static constexpr size_t kBlocks = 30;
    const Blocks chain = OnFlash(t, 1, kBlocks);
    const auto cancelled = t.StartFetch(chain, kPayload, {.keep = step % 2 == 0}, 1);
    const auto other = t.StartFetch(chain, kPayload, {}, 2);
    for (int i = 0; i < step; ++i) t.Pass(20us);
    t->Cancel(cancelled->op);
    t->Cancel(cancelled->op);
    t.Settle();
    const size_t done = cancelled->Done();
    for (const Item item : cancelled->items) {
      EXPECT_TRUE(item == Item::kDone || item == Item::kCancelled || item == Item::kMiss);
    }
    const auto first_bad = std::find_if(cancelled->items.begin(), cancelled->items.end(),
                                        [](Item item) { return item != Item::kDone; });
    EXPECT_EQ(static_cast<size_t>(first_bad - cancelled->items.begin()), done) << "a prefix";
    EXPECT_EQ(other->Done(), kBlocks);
    std::vector<uint64_t> tags;
    for (const Completion& c : t.Completions()) tags.push_back(c.tag);
    std::sort(tags.begin(), tags.end());
    EXPECT_EQ(tags, (std::vector<uint64_t>{1, 2})) << "step " << step;
  }
}

TEST(FaultTest, ADeadlineEndsWaitingAndIsLate) {
  TestStore t(FlashOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = OnFlash(t, 1, 20);
  t.io().Plan({.kind = IoKind::kRead, .nth = 1, .times = 1, .stall = 1s});
  const auto stuck = t.StartFetch(chain, kPayload);
  const auto late = t.StartFetch(chain, kPayload, {.deadline = t.Now() + 10ms}, 7);
  t.Pass(11ms);
  const std::vector<Completion> done = t.Completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 7u);
  EXPECT_EQ(late->items[0], Item::kLate);
  EXPECT_EQ(late->Done(), 0u) << "the first is missing, so none counts";
  t.Settle();
  t.Pass(1s);
  EXPECT_EQ(stuck->Done(), 20u);
  EXPECT_GT(t->Stats().late, 0u);
}

TEST(FaultTest, ANewEpochWhileAFetchRunsIsBeforeOrAfterIt) {
  for (int step = 0; step < 20; ++step) {
    TestStore t(FlashOnly());
    ASSERT_TRUE(t.Open().ok());
    const Blocks chain = OnFlash(t, 1, 20);
    const auto f = t.StartFetch(chain, kPayload);
    for (int i = 0; i < step; ++i) t.Pass(30us);
    ASSERT_TRUE(t->NewEpoch(t.space()).ok());
    EXPECT_EQ(t.Resident(chain), 0u);
    t.Settle();
    f->Done();  // with the right bytes
    EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kMiss, 20));
  }
}

TEST(FaultTest, AFlashThatRefusesTheNthWriteWedgesNothing) {
  for (uint64_t n = 1; n < 40; ++n) {
    TestStore t(FlashOnly());
    ASSERT_TRUE(t.Open().ok());
    t.io().Plan(
        {.kind = IoKind::kWrite, .nth = n, .times = n % 3 == 0 ? 1u : 30u, .error = ENOSPC});
    for (uint32_t p = 1; p <= 12; ++p) {
      const Instant before = t.Now();
      t.Put(t.Prompt(p, 25), kPayload, p % 2 == 0 ? k1h : Duration{}, 500ms);
      EXPECT_LE(t.Now() - before, 600ms) << "write " << n << ", put " << p;
    }
    t.Settle();
    for (uint32_t p = 1; p <= 12; ++p) t.Fetch(t.Prompt(p, 25), kPayload, {.prefix = false});
    EXPECT_GT(t.Tier(Where::kFlash).last_errno + static_cast<int>(n > 30), 0);
  }
}

TEST(FaultTest, ASyncThatFailsWedgesNothing) {
  for (uint64_t n = 1; n < 6; ++n) {
    TestStore t(FlashOnly());
    ASSERT_TRUE(t.Open().ok());
    t.io().Plan({.kind = IoKind::kSync, .nth = n, .times = 3, .error = EIO});
    for (uint32_t p = 1; p <= 20; ++p) t.Put(t.Prompt(p, 25), kPayload, Duration{}, 500ms);
    t.Settle();
    for (uint32_t p = 1; p <= 20; ++p) t.Fetch(t.Prompt(p, 25), kPayload, {.prefix = false});
  }
}

TEST(FaultTest, AVerySlowFlashDropsOrDeclinesAndIsLeftBehind) {
  TestStore t(FlashOnly());
  ASSERT_TRUE(t.Open().ok());
  t.io().Plan({.kind = IoKind::kWrite, .nth = 1, .times = UINT64_MAX / 2, .stall = 20ms});
  for (uint32_t p = 1; p <= 40; ++p) {
    const Instant before = t.Now();
    t.Put(t.Prompt(p, 25), kPayload, Duration{}, 100ms);
    EXPECT_LE(t.Now() - before, 150ms) << p;
  }
  EXPECT_EQ(t->Stats().operations_in_flight, 0u);
}

TEST(FaultTest, CloseEndsWithinItsBoundWithFullQueues) {
  TestStore t(FlashOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = OnFlash(t, 1, 30);
  t.io().Plan({.kind = IoKind::kRead, .nth = 1, .times = 4, .stall = 1s});
  std::vector<std::unique_ptr<Fetching>> fetches;
  for (uint64_t i = 0; i < 20; ++i) fetches.push_back(t.StartFetch(chain, kPayload, {}, i));
  std::vector<std::vector<Item>> items(10, std::vector<Item>(25));
  std::vector<Blocks> blocks;
  Pages pages(25, kPayload);
  for (uint32_t p = 0; p < 10; ++p) {
    blocks.push_back(t.Prompt(100 + p, 25));
    ASSERT_TRUE(
        t->SubmitPut(blocks[p], pages.memory(), {}, &t.queue(), 100 + p, items[p]).has_value());
  }
  const Instant before = t.Now();
  t.AbandonChecks();
  const Status closed = t->Close(t.Now() + 2s);
  EXPECT_LE(t.Now() - before, 3s) << closed.ToString();
  EXPECT_EQ(t.Completions().size(), 30u) << "each ended, with its failure";
  for (const auto& f : fetches) {
    f->Done();
    EXPECT_EQ(std::count(f->items.begin(), f->items.end(), Item::kPending), 0);
  }
  EXPECT_EQ(t->Erase(chain).code(), StatusCode::kFailedPrecondition);
  std::vector<Item> none(30);
  EXPECT_EQ(t->Fetch(chain, fetches[0]->pages.memory(), {}, none).error().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(t->FindPrefix(chain, 0, 1s).count, 0u);
}

TEST(FaultTest, RemovingARegionWaitsForWhatTouchesIt) {
  TestStore t(FlashOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = OnFlash(t, 1, 4);
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, 4 * kPayload)), std::free);
  const RegionId region = *t->AddRegion({memory.get(), 4 * kPayload});
  const Stripe stripe{region, 0, kPayload, kPayload};
  const LayoutId layout = *t->AddLayout({&stripe, 1});
  const std::vector<int64_t> slots = {0, 1, 2, 3};
  const Memory target{.kind = Memory::Kind::kSlots, .layout = layout, .slots = slots};
  t.io().Plan({.kind = IoKind::kRead, .nth = 1, .stall = 100ms});
  std::vector<Item> items(4);
  ASSERT_TRUE(t->SubmitFetch(chain, target, {}, &t.queue(), 0, items).has_value());
  EXPECT_EQ(t->RemoveRegion(region, t.Now() + 10ms).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(t->RemoveRegion(region, t.Now() + 1s).ok());
  EXPECT_EQ(items, All(Item::kDone, 4));
  EXPECT_EQ(t->SubmitFetch(chain, target, {}, &t.queue(), 0, items).error().code(),
            StatusCode::kInvalidArgument)
      << "layouts over it end";
  EXPECT_EQ(t->RemoveRegion(region, t.Now()).code(), StatusCode::kInvalidArgument);
}

TEST(FaultTest, AFetchOfBlocksThatAreErasedUnderItIsRightOrAMiss) {
  for (int step = 0; step < 30; ++step) {
    for (const bool keep : {false, true}) {
      TestStore t(FlashOnly());
      ASSERT_TRUE(t.Open().ok());
      const Blocks chain = OnFlash(t, 1, 20);
      const auto f = t.StartFetch(chain, kPayload, {.keep = keep});
      for (int i = 0; i < step; ++i) t.Pass(20us);
      ASSERT_TRUE(t->Erase(chain).ok());
      // The same keys again with another length, and others in their places.
      EXPECT_EQ(t.Put(chain, 5001, k1h), All(Item::kDone, 20));
      t.Put(t.Prompt(2, 40), kPayload, k1h);
      t.Settle();
      f->Done();
      EXPECT_EQ(std::count(f->items.begin(), f->items.end(), Item::kPending), 0);
      EXPECT_EQ(t.Completions().size(), 1u);
      EXPECT_EQ(t.Fetch(chain, 5001), All(Item::kDone, 20));
    }
  }
}

TEST(FaultTest, APutThatWaitsForRoomIsCancelledOrDeclinedOnce) {
  for (const bool cancel : {true, false}) {
    TestStore t(FlashOnly());
    ASSERT_TRUE(t.Open().ok());
    t.io().Plan({.kind = IoKind::kWrite, .nth = 1, .times = 4, .stall = 10s});
    t.Put(t.Prompt(1, 50), kPayload, k5m);
    const Blocks chain = t.Prompt(2, 20);
    Pages pages(20, kPayload);
    pages.Fill(chain);
    std::vector<Item> items(20);
    const Result<OpId> op = t->SubmitPut(chain, pages.memory(), {.hold = {k5m}, .wait_max = 100ms},
                                         &t.queue(), 5, items);
    ASSERT_TRUE(op.has_value());
    t.Pass(50ms);
    ASSERT_EQ(items.back(), Item::kPending);
    if (cancel) t->Cancel(*op);
    t.Pass(51ms);
    EXPECT_EQ(t.Completions().size(), 1u);
    const auto bad =
        std::find_if(items.begin(), items.end(), [](Item i) { return i > Item::kSkipped; });
    EXPECT_TRUE(std::all_of(bad, items.end(), [&](Item i) {
      return i == (cancel ? Item::kCancelled : Item::kDeclined);
    }));
    EXPECT_EQ(t.Resident(chain), static_cast<size_t>(bad - items.begin()));
    t.Pass(20s);
    EXPECT_TRUE(t->Erase(chain).ok());
  }
}

TEST(FaultTest, EraseWhileAPutOrASpillIsUnderWayLeavesNothing) {
  for (int step = 0; step < 30; ++step) {
    TestStore t(FlashOnly());
    ASSERT_TRUE(t.Open().ok());
    const Blocks chain = t.Prompt(1, 20);
    ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 20));  // being written through
    for (int i = 0; i < step; ++i) t.Pass(40us);
    ASSERT_TRUE(t->Erase(chain).ok());
    t.Settle();
    EXPECT_EQ(t->Stats().entries, 0u);
    EXPECT_EQ(t.Tier(Where::kFlash).copies, 0u);
  }
}

}  // namespace
}  // namespace holdfast::testing
