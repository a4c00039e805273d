// Spills, promotions, victims, reclaim: what happens when tiers are full.
#include <algorithm>
#include <set>

#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

size_t Count(const std::vector<Item>& items, Item item) {
  return static_cast<size_t>(std::count(items.begin(), items.end(), item));
}

TEST(TiersTest, AOneHourHoldIsWrittenThroughAndAFiveMinuteOneOnlyWhenItLeaves) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  t.Put(t.Prompt(1, 10), kPayload, k1h);
  t.Put(t.Prompt(2, 10), kPayload, k5m);
  t.Put(t.Prompt(3, 10), kPayload);
  t.Settle();
  EXPECT_EQ(t.Tier(Where::kFlash).copies, 10u);
  EXPECT_EQ(t.Tier(Where::kFlash).put_in, 10u);
  EXPECT_EQ(t.Tier(Where::kDdr).copies, 30u);
}

TEST(TiersTest, WhatLeavesDdrIsOnFlashAndComesBackClean) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 10);
  const Blocks other = t.Prompt(2, 50);
  ASSERT_EQ(t.Put(chain, kPayload, k5m), All(Item::kDone, 10));
  ASSERT_EQ(t.Put(other, kPayload, k5m), All(Item::kDone, 50));
  ASSERT_EQ(t.Put(t.Prompt(3, 20), kPayload, k5m), All(Item::kDone, 20));
  t.Settle();
  EXPECT_EQ(t.Find(chain), std::vector<Where>(10, Where::kFlash));
  EXPECT_EQ(t.Prefetch(chain, Where::kDdr).size(), 10u);
  t.Settle();
  EXPECT_EQ(t.Fetch(chain, kPayload, {.keep = true}), All(Item::kDone, 10));
  const std::vector<Where> where = t.Find(chain);
  EXPECT_GT(std::count(where.begin(), where.end(), Where::kDdr), 5);
  EXPECT_EQ(t.Tier(Where::kFlash).copies, t.Tier(Where::kFlash).spilled_in)
      << "promotion left the copies below, and nothing was written twice";
  EXPECT_EQ(t.Fetch(other, kPayload), All(Item::kDone, 50));
}

TEST(TiersTest, AFetchIntoAlignedMemoryLeavesNoCopyInDdr) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 10);
  t.Put(chain, kPayload, k1h);
  t.Settle();
  t.Put(t.Prompt(2, 60), kPayload);
  ASSERT_EQ(t.Find(chain), std::vector<Where>(10, Where::kFlash));
  const StoreStats before = t->Stats();
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 10));
  const StoreStats after = t->Stats();
  EXPECT_EQ(after.bounced, before.bounced);
  EXPECT_EQ(after.tiers[2].hits, before.tiers[2].hits + 10);
  EXPECT_EQ(t.Find(chain), std::vector<Where>(10, Where::kFlash));
  // What is not aligned goes through a frame and is counted.
  Pages odd(10, kPayload, 8);
  std::vector<Item> items(10);
  EXPECT_EQ(*t->Fetch(chain, odd.memory(), {}, items), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(odd.Holds(chain, i));
  EXPECT_EQ(t->Stats().bounced, after.bounced + 10);
}

TEST(TiersTest, VictimsAreCleanThenNotGrantedThenGrantedByDeadline) {
  TestStore t(DdrOnly());
  t.options().hold_classes[0].budget_share = t.options().hold_classes[1].budget_share = 1;
  t.options().hold_share_max = 1;
  ASSERT_TRUE(t.Open().ok());
  const Blocks hour = t.Prompt(1, 15);
  const Blocks minutes = t.Prompt(2, 15);
  const Blocks loose = t.Prompt(3, 20);
  t.Put(hour, kPayload, k1h);
  t.Put(minutes, kPayload, k5m);
  t.Put(loose, kPayload);
  t.Put(t.Prompt(4, 15), kPayload, k1h);
  EXPECT_EQ(t.Resident(hour), 15u);
  EXPECT_EQ(t.Resident(minutes), 15u);
  EXPECT_LE(t.Resident(loose), 6u) << "not granted goes first, though touched last";
  t.Put(t.Prompt(5, 15), kPayload, k1h);
  EXPECT_EQ(t.Resident(hour), 15u);
  EXPECT_LE(t.Resident(minutes), 6u) << "then the earliest deadline";
}

TEST(TiersTest, ACleanCopyGoesBeforeADirtyOneThatIsColder) {
  StoreOptions o = SmallStore();
  o.spill_ahead_share = 0;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks dirty = t.Prompt(1, 15);
  const Blocks clean = t.Prompt(2, 25);
  t.Put(dirty, kPayload, k5m);
  t.Put(clean, kPayload, k1h);
  t.Settle();
  t.Put(t.Prompt(3, 25), kPayload, k5m);
  EXPECT_EQ(t.Find(dirty), std::vector<Where>(15, Where::kDdr));
  EXPECT_EQ(t.Resident(clean), 25u);
}

TEST(TiersTest, TenTimesTheCapacityGoesDownOrIsDroppedAndNothingBreaks) {
  for (const int tiers : {1, 2, 3}) {
    StoreOptions o = SmallStore();
    if (tiers < 3) o.disk_bytes = 0;
    if (tiers < 2) o.flash_bytes = 0;
    TestStore t(o);
    ASSERT_TRUE(t.Open().ok());
    const uint64_t capacity = o.ddr_bytes + o.flash_bytes + o.disk_bytes;
    const auto prompts = static_cast<uint32_t>(4 * capacity / (25 * kFrame));
    std::vector<Blocks> all;
    for (uint32_t p = 1; p <= prompts; ++p) {
      all.push_back(t.Prompt(p, 25));
      const std::vector<Item> items = t.Put(all.back(), kPayload, p % 3 == 0 ? k5m : Duration{});
      ASSERT_EQ(Count(items, Item::kDeclined), 0u) << p << " of " << prompts << ", tiers " << tiers;
    }
    t.Settle();
    size_t resident = 0;
    for (const Blocks& chain : all) {
      const size_t here = t.Resident(chain);
      const std::vector<Item> items = t.Fetch(chain, kPayload, {.prefix = false});
      EXPECT_EQ(Count(items, Item::kDone), here);
      resident += here;
    }
    EXPECT_EQ(resident, t->Stats().entries);
    EXPECT_GT(resident * kFrame, (o.ddr_bytes + o.flash_bytes) / 2);
  }
}

TEST(TiersTest, WithoutATierBelowDdrDropsAndCountsIt) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  for (uint32_t p = 1; p <= 5; ++p)
    EXPECT_EQ(t.Put(t.Prompt(p, 20), kPayload), All(Item::kDone, 20));
  EXPECT_EQ(t.Tier(Where::kDdr).copies, 51u);
  EXPECT_EQ(t.Tier(Where::kDdr).dropped, 49u);
  EXPECT_EQ(t.Tier(Where::kDdr).used_bytes, 51 * kFrame);
}

TEST(TiersTest, ReclaimRewritesGrantedAndTouchedBlocksAndDropsTheRest) {
  StoreOptions o = SmallStore();
  o.disk_bytes = 0;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks granted = t.Prompt(1, 10);
  const Blocks used = t.Prompt(2, 10);
  ASSERT_EQ(t.Put(granted, kPayload, k1h), All(Item::kDone, 10));
  t.Put(used, kPayload);
  uint32_t p = 10;
  for (int rounds = 0; rounds < 30; ++rounds) {
    for (int i = 0; i < 3; ++i) t.Put(t.Prompt(p++, 20), kPayload);
    t.Settle();
    ASSERT_EQ(t.Fetch(used, kPayload), All(Item::kDone, 10)) << rounds;
  }
  EXPECT_GT(t.Tier(Where::kFlash).dropped, 100u) << "flash was full several times";
  EXPECT_GT(t.Tier(Where::kFlash).rewritten, 10u);
  EXPECT_EQ(t.Fetch(granted, kPayload), All(Item::kDone, 10));
  EXPECT_EQ(t->Stats().holds[1].broken, 0u);
}

TEST(TiersTest, WhatLeavesFlashUnderAnHourIsOnDisk) {
  StoreOptions o = SmallStore();
  o.hold_classes[1].budget_share = o.hold_share_max = 1.0;  // more than flash takes
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  std::vector<Blocks> held;
  for (uint32_t p = 1; p <= 18; ++p) {
    held.push_back(t.Prompt(p, 20));
    ASSERT_EQ(t.Put(held.back(), kPayload, k1h), All(Item::kDone, 20));
  }
  for (uint32_t p = 100; p < 160; ++p) t.Put(t.Prompt(p, 20), kPayload);
  t.Settle();
  EXPECT_GT(t.Tier(Where::kDisk).spilled_in, 0u);
  for (const Blocks& chain : held) EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 20));
  EXPECT_EQ(t->Stats().holds[1].broken, 0u);
}

TEST(TiersTest, ARefreshedHoldOutlivesTheBucketItsCopyLiesIn) {
  StoreOptions o = SmallStore();
  o.flash_bytes = 0;  // ddr and disk
  o.hold_classes[1].budget_share = 0.5;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 10);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 10));
  for (uint32_t p = 2; p < 6; ++p) t.Put(t.Prompt(p, 20), kPayload);
  t.Settle();
  for (int touches = 0; touches < 12; ++touches) {
    t.hold().Advance(30min);
    t->Touch(chain, static_cast<uint64_t>(touches) + 100);
    t.Settle();
    if (touches % 3 == 0) {
      for (uint32_t p = 2; p < 6; ++p) t.Put(t.Prompt(p + 1000, 20), kPayload);  // out of ddr
    }
    ASSERT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 10)) << touches;
  }
  EXPECT_EQ(t->Stats().holds[1].broken, 0u);
  t.hold().Advance(1h);
  EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(TiersTest, AOneTouchWorkloadHardlyWritesToFlash) {
  StoreOptions o = SmallStore();
  o.write_bytes_per_day = 1 << 20;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  uint64_t put = 0;
  for (uint32_t p = 1; p <= 60; ++p) {
    t.Put(t.Prompt(p, 20), kPayload);
    put += 20 * kPayload;
  }
  t.Settle();
  EXPECT_LT(t.Tier(Where::kFlash).payload_written_bytes * 10, put);
  EXPECT_GT(t->Stats().spills_refused, 0u);
  // What comes a second time is remembered.
  const uint64_t before = t.Tier(Where::kFlash).spilled_in;
  for (int again = 0; again < 2; ++again) {
    for (uint32_t p = 100; p < 104; ++p) t.Put(t.Prompt(p, 20), kPayload);
  }
  t.Settle();
  EXPECT_GT(t.Tier(Where::kFlash).spilled_in, before + 10);
}

// In turn, at half the room they need. Recency alone gives none of them a hit (a policy's matter);
// the store stays full, and a prefix that is asked for again at once is there.
TEST(TiersTest, LongPrefixesInTurnNeverWedgeTheStore) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  for (int round = 0; round < 10; ++round) {
    for (uint32_t p = 1; p <= 8; ++p) {
      const Blocks chain = t.Prompt(p, 13);
      const size_t found = t->FindPrefix(chain, 0, 0s).count;
      EXPECT_EQ(t.Put(chain.Slice(found, 13), kPayload), All(Item::kDone, 13 - found));
      EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 13));
    }
  }
  EXPECT_GT(t.Tier(Where::kDdr).copies, 45u);
}

TEST(TiersTest, APromptLongerThanDdrIsFetchedTwiceAtOnce) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 150);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 150));
  t.Settle();
  for (const bool keep : {false, true}) {
    const auto first = t.StartFetch(chain, kPayload, {.keep = keep});
    const auto second = t.StartFetch(chain, kPayload, {.keep = keep});
    EXPECT_TRUE(t->Wait(first->op, t.Now() + 60s).ok());
    EXPECT_TRUE(t->Wait(second->op, t.Now() + 60s).ok());
    EXPECT_EQ(first->Done(), 150u);
    EXPECT_EQ(second->Done(), 150u);
  }
  EXPECT_EQ(t.Completions().size(), 4u);
}

// A fetch waits 100 ms for its device; meanwhile ten blocks are to be written.
TEST(TiersTest, WhileAFetchRunsSpillsAreOneAtATimeOrPausedOneEachTenMilliseconds) {
  for (const bool pause : {false, true}) {
    StoreOptions o = SmallStore();
    o.disk_bytes = 0;
    o.pause_spills_for_fetches = pause;
    TestStore t(o);
    ASSERT_TRUE(t.Open().ok());
    const Blocks cold = t.Prompt(1, 1);
    ASSERT_EQ(t.Put(cold, kPayload, k1h), All(Item::kDone, 1));
    ASSERT_TRUE(t->Drain(t.Now() + 10s).ok());
    ASSERT_TRUE(t.Reopen().ok());  // cold is on flash alone
    t.io().Plan({.kind = IoKind::kRead, .stall = 100ms});
    const auto fetch = t.StartFetch(cold, kPayload);
    EXPECT_EQ(t.Put(t.Prompt(2, 10), kPayload, k1h), All(Item::kDone, 10));
    t.Pass(45ms);
    EXPECT_EQ(t.Tier(Where::kFlash).copies, pause ? 6u : 11u);
    EXPECT_EQ(fetch->items[0], Item::kPending);
    t.Settle();
    EXPECT_EQ(fetch->Done(), 1u);
    EXPECT_EQ(t.Tier(Where::kFlash).copies, 11u);
  }
}

TEST(TiersTest, FramesOfManySizesShareTheArena) {
  StoreOptions o = SmallStore();
  o.ddr_bytes = 4 << 20;
  o.flash_bytes = 16 << 20;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  uint32_t p = 1;
  for (int round = 0; round < 6; ++round) {
    for (const uint64_t bytes : {kPayload, uint64_t{3000}, uint64_t{60'000}, uint64_t{200'000}}) {
      const Blocks chain = t.Prompt(p++, 10);
      ASSERT_EQ(t.Put(chain, bytes), All(Item::kDone, 10)) << round << ", " << bytes;
      ASSERT_EQ(t.Fetch(chain, bytes), All(Item::kDone, 10)) << round << ", " << bytes;
    }
  }
}

TEST(TiersTest, ALeasedBlockStaysThroughReclaim) {
  StoreOptions o = SmallStore();
  o.disk_bytes = 0;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 10);
  t.Put(chain, kPayload);
  for (uint32_t p = 2; p < 8; ++p) t.Put(t.Prompt(p, 20), kPayload);
  t.Settle();
  const Match match = t->FindPrefix(chain, 0, 1h);
  ASSERT_EQ(match.count, 10u);
  for (uint32_t p = 10; p < 70; ++p) {
    t.Put(t.Prompt(p, 20), kPayload);
    ASSERT_EQ(t.Resident(chain), 10u) << p;
  }
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 10));
}

}  // namespace
}  // namespace holdfast::testing
