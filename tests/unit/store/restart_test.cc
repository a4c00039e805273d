// Two lives of one directory: what was durable is there, what was erased is not.
#include <algorithm>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

StoreOptions With(bool flash, bool disk) {
  StoreOptions o = SmallStore();
  if (!flash) o.flash_bytes = 0;
  if (!disk) o.disk_bytes = 0;
  return o;
}

TEST(RestartTest, AfterDrainEveryGrantedBlockHitsUntilItsDeadline) {
  for (const auto& [flash, disk] : {std::pair{true, true}, {true, false}, {false, true}}) {
    TestStore t(With(flash, disk));
    ASSERT_TRUE(t.Open().ok());
    const Blocks hour = t.Prompt(1, 20);
    const Blocks minutes = t.Prompt(2, 20);
    ASSERT_EQ(t.Put(hour, kPayload, k1h), All(Item::kDone, 20));
    t.hold().Advance(1min);
    ASSERT_EQ(t.Put(minutes, 5001, k5m), All(Item::kDone, 20));
    const Status drained = t->Drain(t.Now() + 60s);
    ASSERT_TRUE(drained.ok()) << drained.ToString();
    EXPECT_EQ(t.Tier(flash ? Where::kFlash : Where::kDisk).undurable_bytes, 0u);
    ASSERT_TRUE(t.Reopen().ok());
    EXPECT_EQ(t.Resident(hour), 20u);
    EXPECT_EQ(t->FindPrefix(minutes, 0, 1s).count, 20u);
    EXPECT_EQ(t.Fetch(hour, kPayload), All(Item::kDone, 20));
    t.hold().Advance(k5m - 1ms);
    EXPECT_EQ(t.Resident(minutes), 20u) << "nothing refreshed it";
    EXPECT_EQ(t->Stats().holds[0].granted_bytes, 20 * (4096u + 8192u)) << "charged again";
    t.hold().Advance(1ms);
    EXPECT_EQ(t.Resident(minutes), 0u);
    EXPECT_EQ(t.Resident(hour), 20u);
    t.hold().Advance(k1h);
    EXPECT_EQ(t.Resident(hour), 0u);
  }
}

TEST(RestartTest, AfterDrainAndPowerLossEverythingGrantedIsThere) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 30);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 30));
  ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
  t.PowerLoss();
  ASSERT_TRUE(t.Open().ok());
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 30));
}

TEST(RestartTest, WithoutDrainASubsetIsThereAndAllOfItRight) {
  for (int step = 0; step < 25; ++step) {
    TestStore t(SmallStore());
    ASSERT_TRUE(t.Open().ok());
    std::vector<Blocks> all;
    for (uint32_t p = 1; p <= 6; ++p) {
      all.push_back(t.Prompt(p, 20));
      t.Put(all.back(), kPayload, p % 2 == 0 ? k1h : k5m);
    }
    for (int i = 0; i < step; ++i) t.Pass(100us);
    t.PowerLoss();
    const Status opened = t.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    for (const Blocks& chain : all) {
      // A frame that was torn is found at its first read.
      const std::vector<Item> items = t.Fetch(chain, kPayload, {.prefix = false});
      EXPECT_EQ(std::count(items.begin(), items.end(), Item::kDone),
                static_cast<ptrdiff_t>(t.Resident(chain)));
    }
    EXPECT_EQ(t.Put(t.Prompt(9, 20), kPayload, k1h), All(Item::kDone, 20)) << "and it goes on";
  }
}

TEST(RestartTest, WhatWasErasedDoesNotComeBack) {
  for (const bool power_loss : {false, true}) {
    for (const auto& [flash, disk] : {std::pair{true, true}, {false, true}}) {
      TestStore t(With(flash, disk));
      ASSERT_TRUE(t.Open().ok());
      const Blocks chain = t.Prompt(1, 20);
      ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 20));
      ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
      ASSERT_TRUE(t->Erase(chain.Slice(10, 10)).ok());
      power_loss ? t.PowerLoss() : t.Close();
      for (int lives = 0; lives < 3; ++lives) {
        ASSERT_TRUE(t.Open().ok());
        EXPECT_EQ(t.Resident(chain), 10u);
        EXPECT_EQ(t.Fetch(chain, kPayload), First(10, Item::kDone, 20, Item::kMiss));
        t.Close();
      }
      // Put again, it lives again, also after the next start.
      ASSERT_TRUE(t.Open().ok());
      t.Put(chain, kPayload, k1h);
      ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
      ASSERT_TRUE(t.Reopen().ok());
      EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 20));
    }
  }
}

TEST(RestartTest, AReleaseOutlivesARestart) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 10);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 10));
  ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
  ASSERT_TRUE(t->Release(chain).ok());
  t.PowerLoss();
  ASSERT_TRUE(t.Open().ok());
  EXPECT_EQ(t->Stats().holds[1].granted_bytes, 0u);
  EXPECT_EQ(t.Resident(chain), 10u);
  t->Touch(chain, 3);
  t.hold().Advance(k1h);
  EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(RestartTest, ARefreshedDeadlineOutlivesARestart) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 10);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 10));
  ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
  t.hold().Advance(50min);
  t->Touch(chain, 3);
  t.Settle();  // persisted in steps of an eighth of the ttl
  t.PowerLoss();
  ASSERT_TRUE(t.Open().ok());
  t.hold().Advance(50min);
  EXPECT_EQ(t.Resident(chain), 10u);
  t.hold().Advance(10min);
  EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(RestartTest, AnEpochEndsForGood) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks old = t.Prompt(1, 10);
  ASSERT_EQ(t.Put(old, kPayload, k1h), All(Item::kDone, 10));
  ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
  ASSERT_TRUE(t->NewEpoch(t.space()).ok());
  const Blocks fresh = t.Prompt(1, 10);
  ASSERT_EQ(t.Put(fresh, kPayload, k1h), All(Item::kDone, 10));
  ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
  t.PowerLoss();
  for (int lives = 0; lives < 2; ++lives) {
    ASSERT_TRUE(t.Open().ok());
    EXPECT_EQ(t.Prompt(1, 1).key(0), fresh.key(0)) << "the epoch goes on from where it was";
    EXPECT_EQ(t.Fetch(t.Prompt(1, 10), kPayload), All(Item::kDone, 10));
    EXPECT_EQ(t.Resident(old), 0u);
    EXPECT_EQ(t->Stats().entries, 10u);
    if (lives == 0) t.Close();
  }
}

TEST(RestartTest, TheNewestWriteOfAKeyWins) {
  TestStore t(With(true, false));
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 5);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 5));
  ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
  ASSERT_TRUE(t->Erase(chain).ok());
  ASSERT_EQ(t.Put(chain, 3 * kPayload, k1h), All(Item::kDone, 5));  // now with another length
  ASSERT_TRUE(t->Drain(t.Now() + 60s).ok());
  t.PowerLoss();
  ASSERT_TRUE(t.Open().ok());
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kMiss, 5));
  EXPECT_EQ(t.Fetch(chain, 3 * kPayload), All(Item::kDone, 5));
  EXPECT_EQ(t->Stats().entries, 5u);
}

TEST(RestartTest, DrainSaysWhatItCouldNotWrite) {
  TestStore t(With(true, false));
  ASSERT_TRUE(t.Open().ok());
  t.Put(t.Prompt(1, 30), kPayload, k5m);
  const Status status = t->Drain(t.Now());
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("30 blocks"), std::string::npos) << status.ToString();
  EXPECT_TRUE(t->Drain(t.Now() + 60s).ok());
}

TEST(RestartTest, ADirectoryHasOneOwner) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  StoreOptions o = DdrOnly();
  o.disk_bytes = 16 << 20;
  o.directory = t.directory();
  const auto second = Store::Open(o);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(second.error().message().find(t.directory()), std::string::npos);
  EXPECT_EQ(t.Put(t.Prompt(1, 3), kPayload), All(Item::kDone, 3)) << "the first goes on";
}

TEST(RestartTest, NoVerbWorksInAForkedChildAndTheParentGoesOn) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  const Blocks chain = t.Prompt(1, 3);
  ASSERT_EQ(t.Put(chain, kPayload, k1h), All(Item::kDone, 3));
  Match match = t->FindPrefix(chain, 0, 10s);
  const pid_t child = fork();
  if (child == 0) {
    Pages pages(3, kPayload);
    std::vector<Item> items(3);
    std::vector<Where> where(3);
    const auto refused = [](const auto& result) {
      return !result.has_value() && result.error().code() == StatusCode::kFailedPrecondition;
    };
    bool good = refused(t->Put(chain, pages.memory(), {}, items));
    good = good && refused(t->Fetch(chain, pages.memory(), {}, items));
    good = good && refused(t->Reserve(kPayload)) && !t->Erase(chain).ok();
    good = good && !t->NewEpoch(t.space()).ok() && !t->Drain(t.Now()).ok();
    t->Find(chain, where);
    good = good && where == std::vector<Where>(3, Where::kAbsent);
    good = good && t->FindPrefix(chain, 0, 1s).count == 0;
    match.lease = Lease();
    good = good && !t->Step() && t->Stats().entries == 0;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(t->Stats().leases, 1u);
  match.lease = Lease();
  EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 3));
}

TEST(RestartTest, OpeningRefusesAnIdentityThatCannotBeRead) {
  TestStore t(SmallStore());
  ASSERT_TRUE(t.Open().ok());
  t.AbandonChecks();
  t.Close();
  ASSERT_EQ(truncate((t.directory() + "/IDENTITY").c_str(), 10), 0);
  EXPECT_EQ(t.Open().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast::testing
