// Looking: Find, FindPrefix, leases, Want.
#include <algorithm>
#include <array>

#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

TEST(LookTest, AMatchIsTheLongestRunFromWhereItWasAskedFor) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 10);
  EXPECT_EQ(t->FindPrefix(chain, 0, 1s).count, 0u);
  t.Put(chain, kPayload);
  ASSERT_TRUE(t->Erase(chain.Slice(6, 1)).ok());
  EXPECT_EQ(t->FindPrefix(chain, 0, 1s).count, 6u);
  EXPECT_EQ(t->FindPrefix(chain, 2, 1s).count, 4u);
  EXPECT_EQ(t->FindPrefix(chain, 6, 1s).count, 0u);
  EXPECT_EQ(t->FindPrefix(chain, 7, 1s).count, 3u);
  EXPECT_EQ(t->FindPrefix(chain, 10, 1s).count, 0u);
  EXPECT_EQ(t->FindPrefix(chain, 99, 1s).count, 0u);
  EXPECT_EQ(t->Stats().leases, 0u) << "each ended with its match";
}

TEST(LookTest, ALeaseKeepsItsBlocksUntilItEnds) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks leased = t.Prompt(1, 10);
  t.Put(leased, kPayload);
  Match match = t->FindPrefix(leased, 0, 10s);
  ASSERT_EQ(match.count, 10u);
  EXPECT_TRUE(match.lease.valid());
  EXPECT_EQ(t.Tier(Where::kDdr).leased_bytes, 10 * kFrame);
  for (uint32_t p = 2; p < 8; ++p)
    EXPECT_EQ(t.Put(t.Prompt(p, 20), kPayload), All(Item::kDone, 20));
  EXPECT_EQ(t.Fetch(leased, kPayload), All(Item::kDone, 10));
  match.lease = Lease();
  EXPECT_EQ(t.Tier(Where::kDdr).leased_bytes, 0u);
  for (uint32_t p = 8; p < 12; ++p) t.Put(t.Prompt(p, 20), kPayload);
  EXPECT_EQ(t.Resident(leased), 0u);
}

TEST(LookTest, ALeaseRunsOutByItself) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks leased = t.Prompt(1, 10);
  t.Put(leased, kPayload);
  const Match match = t->FindPrefix(leased, 0, 10s);
  t.Pass(9999ms);
  EXPECT_TRUE(match.lease.valid());
  EXPECT_EQ(t->Stats().leases, 1u);
  t.Pass(2ms);
  EXPECT_FALSE(match.lease.valid());
  EXPECT_EQ(t->Stats().leases, 0u);
  EXPECT_EQ(t->Stats().leases_expired, 1u);
  for (uint32_t p = 2; p < 8; ++p) t.Put(t.Prompt(p, 20), kPayload);
  EXPECT_EQ(t.Resident(leased), 0u);
}

TEST(LookTest, LeasesHoldAtMostTheirShareOfATierAndShortenMatchesBeyond) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 50);
  ASSERT_EQ(t.Put(chain, kPayload), All(Item::kDone, 50));
  const Match first = t->FindPrefix(chain, 0, 10s);
  EXPECT_EQ(first.count, 25u) << "half of 51 frames, less what does not fit";
  EXPECT_GE(t->Stats().matches_cut, 1u);
  const Match again = t->FindPrefix(chain, 0, 10s);
  EXPECT_EQ(again.count, 25u) << "a block is counted once";
  EXPECT_EQ(t->FindPrefix(chain, 0, 0s).count, 50u) << "a look without a lease pins nothing";
  EXPECT_EQ(t.Put(t.Prompt(2, 20), kPayload), All(Item::kDone, 20)) << "the other half goes on";
}

TEST(LookTest, AHundredThousandLooksThatNobodyFollowsLeaveEverythingEvictable) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 50);
  t.Put(chain, kPayload);
  for (int i = 0; i < 100'000; ++i) {
    const Match match = t->FindPrefix(chain, static_cast<size_t>(i % 50), 30s);
    ASSERT_GT(match.count, 0u);
  }
  EXPECT_EQ(t->Stats().leases, 0u);
  EXPECT_EQ(t.Put(t.Prompt(2, 50), kPayload), All(Item::kDone, 50));
  EXPECT_EQ(t.Resident(chain), 1u) << "51 frames in all";
}

TEST(LookTest, LooksRenewNothing) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks cold = t.Prompt(1, 20);
  const Blocks warm = t.Prompt(2, 30);
  t.Put(cold, kPayload);
  t.Put(warm, kPayload);
  for (int i = 0; i < 1000; ++i) {
    t.Find(cold);
    t->FindPrefix(cold, 0, 0s);
  }
  EXPECT_EQ(t.Put(t.Prompt(3, 20), kPayload), All(Item::kDone, 20));
  EXPECT_EQ(t.Resident(warm), 30u);
  EXPECT_LE(t.Resident(cold), 1u) << "what was only looked at goes first";
}

TEST(LookTest, ATouchRenews) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks first = t.Prompt(1, 20);
  const Blocks second = t.Prompt(2, 30);
  t.Put(first, kPayload);
  t.Put(second, kPayload);
  t->Touch(first, 77);
  t.Put(t.Prompt(3, 20), kPayload);
  EXPECT_EQ(t.Resident(first), 20u);
  EXPECT_LE(t.Resident(second), 12u);
}

TEST(LookTest, AnErasedBlockIsHiddenThoughLeased) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  t.Put(chain, kPayload);
  const Match match = t->FindPrefix(chain, 0, 10s);
  ASSERT_TRUE(t->Erase(chain).ok());
  EXPECT_EQ(t.Resident(chain), 0u);
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kMiss, 4));
  EXPECT_EQ(t.Put(chain, kPayload), All(Item::kDone, 4)) << "the keys are free again";
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 4));
}

TEST(LookTest, TheLastCopyOfAParentOutlivesItsChildren) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks trunk = t.Branch(1, 5, 1, 5);
  t.Put(trunk, kPayload);
  const Blocks branch = t.Branch(1, 5, 9, 15);
  t.Put(branch, kPayload);
  // Whatever goes, goes from the ends: what is resident of a chain is a prefix of it.
  for (uint32_t p = 20; p < 40; ++p) {
    t.Put(t.Prompt(p, 3), kPayload);
    const std::vector<Where> where = t.Find(branch);
    const auto gap = std::find(where.begin(), where.end(), Where::kAbsent);
    EXPECT_TRUE(std::all_of(gap, where.end(), [](Where w) { return w == Where::kAbsent; })) << p;
  }
  EXPECT_EQ(t.Tier(Where::kDdr).orphaned, 0u);
}

TEST(LookTest, WantSaysWhatAPutWouldKeep) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  t.Put(chain.Slice(0, 2), kPayload);
  std::array<bool, 4> wanted{};
  t->Want(chain, {k5m}, 1, wanted);
  EXPECT_EQ(wanted, (std::array<bool, 4>{false, false, true, true}));
  t->Want(chain, {3h}, 1, wanted);
  EXPECT_EQ(wanted, (std::array<bool, 4>{})) << "no class is that long";
}

TEST(LookTest, BlocksOfAnotherSpaceOrEpochAreStrangers) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 4);
  t.Put(chain, kPayload);
  SpaceSpec other = t.spec();
  other.tenant = "another";
  const SpaceId space = *t->OpenSpace(other);
  EXPECT_NE(space, t.space());
  EXPECT_EQ(*t->OpenSpace(t.spec()), t.space()) << "the same facts are the same space";
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 4; ++i) tokens.insert(tokens.end(), {1, i});
  const Blocks strangers = *Blocks::FromTokens(*t, space, tokens);
  EXPECT_EQ(t.Resident(strangers), 0u);
  EXPECT_EQ(t.Fetch(strangers, kPayload), All(Item::kMiss, 4));
  ASSERT_TRUE(t->NewEpoch(t.space()).ok());
  EXPECT_EQ(t.Resident(chain), 0u);
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kMiss, 4));
  EXPECT_EQ(t.Put(chain, kPayload), All(Item::kDeclined, 4)) << "keys of the epoch before";
  t.Settle();
  EXPECT_EQ(t->Stats().entries, 0u);
  const Blocks fresh = t.Prompt(1, 4);
  EXPECT_NE(fresh.key(0), chain.key(0));
  EXPECT_EQ(t.Put(fresh, kPayload), All(Item::kDone, 4));
}

TEST(LookTest, AClosedStoreHasNothing) {
  TestStore t(DdrOnly());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 2);
  t.Put(chain, kPayload);
  EXPECT_EQ(t.Resident(chain), 2u);
  t.AbandonChecks();
  ASSERT_TRUE(t->Close(t.Now() + 1s).ok());
  EXPECT_EQ(t.Resident(chain), 0u);
  EXPECT_EQ(t->FindPrefix(chain, 0, 0s).count, 0u);
}

}  // namespace
}  // namespace holdfast::testing
