// The same store in the world it is made for: driver, rings and workers as threads, RocksDB below.
#include <atomic>
#include <random>
#include <thread>

#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

StoreOptions RealStore() {
  StoreOptions o = SmallStore();
  o.disk_bytes = 64 << 20;
  o.disk_write_buffer_bytes = 4 << 20;
  o.flash_buffered = true;  // any file system will do
  o.workers = 2;
  return o;
}

TEST(RealStoreTest, BlocksGoDownComeUpAndOutliveARestart) {
  TestStore t(RealStore(), World::kReal);
  const Status opened = t.Open();
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  std::vector<Blocks> all;
  for (uint32_t p = 1; p <= 8; ++p) {
    all.push_back(t.Prompt(p, 25));
    ASSERT_EQ(t.Put(all.back(), kPayload, k1h), All(Item::kDone, 25));
  }
  for (const Blocks& chain : all) EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 25));
  const Status drained = t->Drain(t.Now() + 60s);
  ASSERT_TRUE(drained.ok()) << drained.ToString();
  ASSERT_TRUE(t->Erase(all[0]).ok());
  ASSERT_TRUE(t.Reopen().ok());
  EXPECT_EQ(t.Fetch(all[0], kPayload), All(Item::kMiss, 25));
  for (size_t p = 1; p < 8; ++p) {
    EXPECT_EQ(t.Fetch(all[p], kPayload, {.keep = p % 2 == 0}), All(Item::kDone, 25)) << p;
  }
  t.hold().Advance(k1h);
  for (const Blocks& chain : all) EXPECT_EQ(t.Resident(chain), 0u);
}

TEST(RealStoreTest, ThreadsThatPutFetchAndEvictAHundredKeysNeverSeeWrongBytes) {
  StoreOptions o = RealStore();
  o.ddr_bytes = 512 << 10;  // 25 frames
  o.payload_bytes_max = 64 << 10;
  TestStore t(o, World::kReal);
  ASSERT_TRUE(t.Open().ok());
  constexpr int kThreads = 8;
  constexpr int kRounds = 60;
  std::vector<Blocks> keys;
  for (uint32_t p = 0; p < 20; ++p) {
    keys.push_back(t.Prompt(p, 5));
    t.Put(keys.back(), kPayload);  // so that the end of the test knows them
  }
  std::atomic<int> wrong{0};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      std::mt19937 random(static_cast<uint32_t>(n));
      for (int round = 0; round < kRounds; ++round) {
        const Blocks& chain = keys[random() % keys.size()];
        Pages pages(5, kPayload, random() % 2 == 0 ? 0 : 8);
        std::vector<Item> items(5);
        switch (random() % 8) {
          case 0:
            t->Erase(chain).IgnoreError("counted by the checks at the end");
            break;
          case 1:
          case 2:
          case 3: {
            pages.Fill(chain);
            const PutOptions options{.hold = {random() % 2 == 0 ? k5m : Duration{}}};
            if (!t->Put(chain, pages.memory(), options, items).has_value()) ++wrong;
            break;
          }
          default: {
            const Match match = t->FindPrefix(chain, 0, 1s);
            const FetchOptions options{.keep = random() % 2 == 0};
            if (!t->Fetch(chain, pages.memory(), options, items).has_value()) ++wrong;
            for (size_t i = 0; i < 5; ++i) {
              if (items[i] != Item::kDone) continue;
              ++done;
              if (!pages.Holds(chain, i)) ++wrong;
            }
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(done.load(), 100);
  const StoreStats s = t->Stats();
  for (const TierStats& tier : s.tiers) EXPECT_EQ(tier.corrupt, 0u) << ToString(tier.where);
}

TEST(RealStoreTest, CloseUnderLoadEndsAndEveryOperationCompletes) {
  TestStore t(RealStore(), World::kReal);
  ASSERT_TRUE(t.Open().ok());
  t.AbandonChecks();
  std::vector<Blocks> all;
  for (uint32_t p = 1; p <= 6; ++p) {
    all.push_back(t.Prompt(p, 25));
    t.Put(all.back(), kPayload, k1h);
  }
  std::vector<std::unique_ptr<Fetching>> fetches;
  for (int i = 0; i < 30; ++i)
    fetches.push_back(t.StartFetch(all[static_cast<size_t>(i) % 6], kPayload));
  const Instant before = t.Now();
  t->Close(t.Now() + 2s).IgnoreError("what was left is seen below");
  EXPECT_LT(t.Now() - before, 5s);
  EXPECT_EQ(t.Completions().size(), 30u);
  for (const auto& f : fetches) f->Done();
}

}  // namespace
}  // namespace holdfast::testing
