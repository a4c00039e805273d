// Holds: deadlines to the millisecond, classes and budgets, ancestors.
#include <algorithm>

#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

HoldStats Class(TestStore& t, size_t c) { return t->Stats().holds[c]; }

TEST(HoldTest, ABlockIsServedUntilItsDeadlineAndNotFromItOn) {
  for (const auto& [asked, ttl] :
       {std::pair{Duration(1ms), k5m}, {k5m, k5m}, {k5m + 1ms, k1h}, {k1h, k1h}}) {
    TestStore t(SmallStore());
    ASSERT_TRUE(t.Open().ok());
    const Blocks chain = t.Prompt(1, 3);
    ASSERT_EQ(t.Put(chain, kPayload, asked), All(Item::kDone, 3));
    t.hold().Advance(ttl - 1ms);
    EXPECT_EQ(t.Resident(chain), 3u);
    EXPECT_EQ(t->FindPrefix(chain, 0, 0s).count, 3u);
    t.hold().Advance(1ms);
    EXPECT_EQ(t.Resident(chain), 0u) << "a ttl is rounded up to a class";
    EXPECT_EQ(t->FindPrefix(chain, 0, 0s).count, 0u);
    EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kMiss, 3));
    t.Pass(1ms);
    EXPECT_EQ(t->Stats().entries, 0u) << "what is expired frees its space";
    EXPECT_EQ(Class(t, ttl == k5m ? 0 : 1).expired, 3u);
    EXPECT_EQ(Class(t, 0).broken + Class(t, 1).broken, 0u);
  }
}

TEST(HoldTest, AHoldLongerThanAllIsAnInvalidArgument) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 1);
  t.Put(chain, kPayload);
  EXPECT_EQ(t->SetHold(chain, {k1h + 1ms}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(t.SetHold(chain, k1h));
}

TEST(HoldTest, ATouchRefreshesTheWholeChainWhereThatIsOn) {
  for (const bool refresh : {true, false}) {
    StoreOptions o = SmallStore();
    o.refresh_on_touch = refresh;
    TestStore t(o);
    ASSERT_TRUE(t.Open().ok());
    const Blocks chain = t.Prompt(1, 4);
    t.Put(chain, kPayload, k5m);
    t.hold().Advance(4min);
    t->Touch(chain.Slice(3, 1), 5);  // the leaf; its ancestors follow
    t.hold().Advance(2min);
    EXPECT_EQ(t.Resident(chain), refresh ? 4u : 0u);
    t.hold().Advance(3min);
    EXPECT_EQ(t.Resident(chain), 0u);
  }
}

TEST(HoldTest, OneRequestRefreshesOnce) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 1);
  t.Put(chain, kPayload, {.hold = {k5m}, .request = 9});
  t.hold().Advance(2min);
  for (int i = 0; i < 100; ++i) t->Touch(chain, 9);
  t.hold().Advance(3min);
  EXPECT_EQ(t.Resident(chain), 0u) << "the request that put it is the one that touched it";
}

TEST(HoldTest, AHoldUpgradesAndNeverShortens) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 2);
  t.Put(chain, kPayload, k5m);
  EXPECT_TRUE(t.SetHold(chain, k1h));
  EXPECT_TRUE(t.SetHold(chain, k5m));
  EXPECT_EQ(t.Put(chain, kPayload), All(Item::kPresent, 2)) << "without a hold: takes nothing away";
  EXPECT_EQ(Class(t, 0).granted_bytes, 0u) << "charged once, to the highest";
  EXPECT_EQ(Class(t, 1).granted_bytes, 2 * kFrame);
  t.hold().Advance(1h - 1ms);
  EXPECT_EQ(t.Resident(chain), 2u);
  t.hold().Advance(1ms);
  EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(HoldTest, WhatHasNoBudgetIsStoredAndDowngradedRootFirst) {
  StoreOptions o = SmallStore();
  o.hold_classes[0].budget_share = 10.5 * kFrame / static_cast<double>(o.flash_bytes);
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 15);
  EXPECT_EQ(t.Put(chain, kPayload, k5m), First(10, Item::kDone, 15, Item::kDowngraded));
  EXPECT_EQ(Class(t, 0).granted_bytes, 10 * kFrame);
  EXPECT_EQ(Class(t, 0).granted, 10u);
  EXPECT_EQ(Class(t, 0).downgraded, 5u);
  EXPECT_FALSE(t.SetHold(chain.Slice(14, 1), k5m));
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 15));
  t.hold().Advance(k5m);
  EXPECT_EQ(t.Resident(chain), 0u) << "a downgraded block keeps its deadline";
  t.Settle();
  EXPECT_EQ(Class(t, 0).granted_bytes, 0u);
  EXPECT_EQ(t.Put(t.Prompt(2, 10), kPayload, k5m), All(Item::kDone, 10)) << "the budget is free";
}

TEST(HoldTest, ClassesTogetherStayBelowTheirCommonBudget) {
  StoreOptions o = SmallStore();
  o.hold_share_max = 8.5 * kFrame / static_cast<double>(o.flash_bytes);
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  EXPECT_EQ(t.Put(t.Prompt(1, 6), kPayload, k5m), All(Item::kDone, 6));
  EXPECT_EQ(t.Put(t.Prompt(2, 4), kPayload, k1h), First(2, Item::kDone, 4, Item::kDowngraded));
}

TEST(HoldTest, ReleaseTakesTheChargeAndLetsTheDeadlineRun) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 3);
  t.Put(chain, kPayload, k5m);
  ASSERT_TRUE(t->Release(chain).ok());
  EXPECT_EQ(t->Stats().released, 3u);
  EXPECT_EQ(Class(t, 0).granted_bytes, 0u);
  t.hold().Advance(4min);
  t->Touch(chain, 5);
  EXPECT_EQ(t.Resident(chain), 3u);
  t.hold().Advance(1min);
  EXPECT_EQ(t.Resident(chain), 0u) << "a touch does not refresh what was released";
}

TEST(HoldTest, AChildWithoutAHoldInheritsItsParents) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 6);
  t.Put(chain.Slice(0, 3), kPayload, k5m);
  t.hold().Advance(1min);
  EXPECT_EQ(t.Put(chain, kPayload), First(3, Item::kPresent, 6, Item::kDone));
  EXPECT_EQ(Class(t, 0).granted_bytes, 6 * kFrame);
  t.hold().Advance(10min);
  EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(HoldTest, NoChildOutlivesItsParent) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 6);
  t.Put(chain.Slice(0, 3), kPayload, k5m);
  t.hold().Advance(1min);
  t.Put(chain.Slice(3, 3), kPayload, k1h);  // its ancestors are held as long
  t.hold().Advance(30min);
  EXPECT_EQ(t.Resident(chain), 6u);
  t.hold().Advance(30min);
  EXPECT_EQ(t.Resident(chain), 0u);
  // And holds that differ per block of one put.
  const Blocks other = t.Prompt(2, 4);
  const std::vector<Hold> holds = {{k5m}, {0ms}, {k1h}, {k5m}};
  t.Put(other, kPayload, {.holds = holds});
  for (Duration passed{}; passed <= k1h; passed += 1min, t.hold().Advance(1min)) {
    const std::vector<Where> where = t.Find(other);
    const auto gap = std::find(where.begin(), where.end(), Where::kAbsent);
    EXPECT_TRUE(std::all_of(gap, where.end(), [](Where w) { return w == Where::kAbsent; }));
  }
}

TEST(HoldTest, AGrantedBlockThatIsLostBeforeItsDeadlineIsBroken) {
  StoreOptions o = DdrOnly();
  o.hold_classes[0].budget_share = 1;
  o.hold_share_max = 1;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  ASSERT_EQ(t.Put(t.Prompt(1, 50), kPayload, k5m), All(Item::kDone, 50));
  EXPECT_EQ(Class(t, 0).broken, 0u);
  ASSERT_EQ(t.Put(t.Prompt(2, 10), kPayload), All(Item::kDone, 10));
  EXPECT_EQ(Class(t, 0).broken, 9u) << "51 frames in all";
  ASSERT_TRUE(t->Erase(t.Prompt(1, 50)).ok());
  EXPECT_EQ(Class(t, 0).broken, 9u) << "what is erased is not broken";
}

TEST(HoldTest, AfterMassExpiryEveryTierIsEmpty) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  for (uint32_t p = 1; p <= 12; ++p) t.Put(t.Prompt(p, 25), kPayload, p % 2 == 0 ? k5m : k1h);
  t.Settle();
  EXPECT_GT(t.Tier(Where::kFlash).copies, 100u);
  t.hold().Advance(k1h);
  t.Pass(10s);
  const StoreStats s = t->Stats();
  for (const TierStats& tier : s.tiers) EXPECT_EQ(tier.used_bytes, 0u) << ToString(tier.where);
  EXPECT_EQ(s.entries, 0u);
  for (uint32_t p = 20; p < 32; ++p) {
    const std::vector<Item> items = t.Put(t.Prompt(p, 25), kPayload, k1h);
    EXPECT_EQ(std::count(items.begin(), items.end(), Item::kDeclined), 0) << "room again";
  }
}

TEST(HoldTest, AWallClockThatJumpsChangesNothing) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 3);
  t.Put(chain, kPayload, k5m);
  t.hold().JumpWall(1h);
  EXPECT_EQ(t.Resident(chain), 3u);
  t.hold().JumpWall(-3h);
  t.hold().Advance(k5m - 1ms);
  EXPECT_EQ(t.Resident(chain), 3u);
  t.hold().Advance(1ms);
  EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(HoldTest, AWallClockThatJumpsBetweenTwoLivesMakesNothingImmortal) {
  for (const Duration jump : {Duration(-2h), Duration(2h)}) {
    TestStore t(SmallStore());
    ASSERT_TRUE(t.Open().ok());
    const Blocks chain = t.Prompt(1, 3);
    t.Put(chain, kPayload, k1h);
    ASSERT_TRUE(t->Drain(t.Now() + 10s).ok());
    t.Close();
    t.hold().JumpWall(jump);
    ASSERT_TRUE(t.Open().ok());
    EXPECT_EQ(t.Resident(chain), jump > 0s ? 0u : 3u) << "time never goes back on media";
    t.hold().Advance(k1h);
    EXPECT_EQ(t.Resident(chain), 0u);
  }
}

// The tiers below have little more room than those above: what is written must not take the place
// of what was written before.
TEST(HoldTest, DrainWritesEachBlockOnceAndEnds) {
  struct {
    uint64_t hbm, flash, disk;
  } const cases[] = {
      {0, 4 << 20, 0}, {0, 0, 8 << 20}, {1 << 20, 4 << 20, 0}, {1 << 20, 0, 8 << 20}};
  for (const auto& c : cases) {
    SCOPED_TRACE(std::to_string(c.hbm) + " + " + std::to_string(c.flash) + " + " +
                 std::to_string(c.disk));
    StoreOptions o = SmallStore();
    o.hbm_bytes = c.hbm;
    o.ddr_bytes = 2 << 20;
    o.flash_bytes = c.flash;
    o.disk_bytes = c.disk;
    TestStore t(o);
    ASSERT_TRUE(t.Open().ok());
    for (uint32_t p = 1; p < 20; ++p) t.Put(t.Prompt(p, 30), kPayload, k5m);
    t.Settle();
    const auto written = [&] {
      return t.Tier(Where::kFlash).payload_written_bytes +
             t.Tier(Where::kDisk).payload_written_bytes;
    };
    const uint64_t before = written();
    EXPECT_TRUE(t->Drain(t.Now() + 20s).ok());
    EXPECT_LE(written() - before, t->Stats().holds[0].granted_bytes);
    const uint64_t drained = written();
    EXPECT_TRUE(t->Drain(t.Now() + 20s).ok());
    EXPECT_EQ(written(), drained);
  }
}

// Granted holds that flash cannot take: an answer, not a circle.
TEST(HoldTest, ADrainWithoutRoomBelowSaysWhatIsLeft) {
  StoreOptions o = SmallStore();
  o.ddr_bytes = 8 << 20;
  o.flash_bytes = 2 << 20;
  o.disk_bytes = 0;
  o.hold_classes[0].budget_share = 1.0;
  o.hold_share_max = 1.0;
  TestStore t(o);
  ASSERT_TRUE(t.Open().ok());
  for (uint32_t p = 1; p < 11; ++p) t.Put(t.Prompt(p, 30), kPayload, k5m);
  t.Settle();
  const Status drained = t->Drain(t.Now() + 20s);
  EXPECT_EQ(drained.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(drained.message().find("blocks under a granted hold were not written"),
            std::string::npos);
  EXPECT_LT(t.Tier(Where::kFlash).payload_written_bytes, 40u << 20);
}

}  // namespace
}  // namespace holdfast::testing
