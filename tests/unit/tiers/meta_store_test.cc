// The promises of MetaStore, over RocksDB and in memory.
#include <atomic>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "tests/testing/disk_directory.h"
#include "tests/testing/virtual_clock.h"
#include "tiers/rocksdb_meta.h"
#include "tiers/sim_disk.h"

namespace holdfast::testing {
namespace {

class MetaStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    disk_ = {};
    if (GetParam()) {
      Result<DiskTier> opened = directory_.Open(directory_.Options(0));
      ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
      disk_ = *std::move(opened);
    } else {
      disk_ = OpenSimDisk(clock_, {}, medium_);
    }
    ASSERT_EQ(disk_.tier, nullptr);
  }
  MetaSnapshot Load() {
    Result<MetaSnapshot> loaded = disk_.meta->Load();
    EXPECT_TRUE(loaded.has_value());
    return *std::move(loaded);
  }
  void Sync(MetaBatch batch) {
    Submit(std::move(batch));
    WaitFor(submitted_);
  }
  void Submit(MetaBatch batch) {
    disk_.meta->SubmitSync(std::move(batch), [this, number = ++submitted_](const Status& status) {
      MutexLock lock(mutex_);
      EXPECT_TRUE(status.ok()) << status.ToString();
      order_.push_back(number);
      changed_.NotifyAll();
    });
  }
  void WaitFor(int count) {
    for (;;) {
      disk_.meta->Poll();
      MutexLock lock(mutex_);
      if (static_cast<int>(order_.size()) >= count) return;
      changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
    }
  }

  DiskDirectory directory_;
  VirtualClock clock_;
  std::shared_ptr<SimDiskMedium> medium_ = std::make_shared<SimDiskMedium>();
  DiskTier disk_;
  int submitted_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::vector<int> order_ HF_GUARDED_BY(mutex_);
};

TEST_P(MetaStoreTest, ANewOneIsEmpty) {
  const MetaSnapshot snapshot = Load();
  EXPECT_TRUE(snapshot.deadlines.empty());
  EXPECT_TRUE(snapshot.tombstones.empty());
  EXPECT_TRUE(snapshot.epochs.empty());
  EXPECT_EQ(snapshot.hold_now, 0);
  EXPECT_EQ(snapshot.write_id_next, 1u);
}

TEST_P(MetaStoreTest, EveryKindComesBackAfterReopen) {
  MetaBatch batch;
  batch.deadlines.push_back({{1, 2}, 3, 1'764'000'000'000, 300'000, true});
  batch.deadlines.push_back({{1, 3}, 4, kNoDeadline, 0, false});
  batch.tombstones.push_back({{5, 6}, 7});
  batch.epochs.push_back({{8, 9}, 2, {{10, 11}, {12, 13}}});
  batch.epochs.push_back({{8, 10}, 1, {}});
  batch.hold_now = 1'764'000'000'001;
  batch.write_id_next = 4712;
  Sync(batch);
  Reopen();
  const MetaSnapshot got = Load();
  ASSERT_EQ(got.deadlines.size(), 2u);
  EXPECT_EQ(got.deadlines[0].key, (BlockKey{1, 2}));
  EXPECT_EQ(got.deadlines[0].write_id, 3u);
  EXPECT_EQ(got.deadlines[0].deadline, 1'764'000'000'000);
  EXPECT_EQ(got.deadlines[0].hold_ttl_ms, 300'000u);
  EXPECT_TRUE(got.deadlines[0].granted);
  EXPECT_EQ(got.deadlines[1].deadline, kNoDeadline);
  EXPECT_FALSE(got.deadlines[1].granted);
  ASSERT_EQ(got.tombstones.size(), 1u);
  EXPECT_EQ(got.tombstones[0].key, (BlockKey{5, 6}));
  EXPECT_EQ(got.tombstones[0].write_id, 7u);
  ASSERT_EQ(got.epochs.size(), 2u);
  EXPECT_EQ(got.epochs[0].space, (BlockKey{8, 9}));
  EXPECT_EQ(got.epochs[0].epoch, 2u);
  EXPECT_EQ(got.epochs[0].dead_roots, (std::vector<RootKey>{{10, 11}, {12, 13}}));
  EXPECT_TRUE(got.epochs[1].dead_roots.empty());
  EXPECT_EQ(got.hold_now, 1'764'000'000'001);
  EXPECT_EQ(got.write_id_next, 4712u);
}

TEST_P(MetaStoreTest, ForgottenRecordsStayForgotten) {
  MetaBatch batch;
  batch.deadlines.push_back({{1, 1}, 1, 10, 10, true});
  batch.deadlines.push_back({{1, 2}, 1, 10, 10, true});
  batch.tombstones.push_back({{2, 1}, 1});
  batch.tombstones.push_back({{2, 2}, 1});
  Sync(batch);
  MetaBatch forget;
  forget.forget_deadlines.push_back({1, 1});
  forget.forget_tombstones.push_back({2, 2});
  Sync(forget);
  Reopen();
  const MetaSnapshot got = Load();
  ASSERT_EQ(got.deadlines.size(), 1u);
  EXPECT_EQ(got.deadlines[0].key, (BlockKey{1, 2}));
  ASSERT_EQ(got.tombstones.size(), 1u);
  EXPECT_EQ(got.tombstones[0].key, (BlockKey{2, 1}));
}

TEST_P(MetaStoreTest, BatchesApplyAndAnswerInOrder) {
  for (uint64_t i = 1; i <= 200; ++i) {
    MetaBatch batch;
    batch.tombstones.push_back({{1, 1}, i});
    Submit(std::move(batch));
  }
  Submit({});  // an empty batch still waits for its turn
  WaitFor(201);
  {
    MutexLock lock(mutex_);
    for (int i = 0; i < 201; ++i) EXPECT_EQ(order_[i], i + 1);
  }
  const MetaSnapshot got = Load();
  ASSERT_EQ(got.tombstones.size(), 1u);
  EXPECT_EQ(got.tombstones[0].write_id, 200u);
}

INSTANTIATE_TEST_SUITE_P(Disk, MetaStoreTest, ::testing::Values(true, false),
                         [](const auto& each) { return each.param ? "Rocks" : "Sim"; });

TEST(RocksMetaTest, QueuedBatchesShareOneSync) {
  DiskDirectory directory;
  auto database = directory.OpenDatabase();
  ASSERT_TRUE(database.has_value());
  RocksMeta meta(*database);
  ASSERT_TRUE(meta.Start(StartThread).ok());
  Bell bell;
  std::atomic<int> done{0};
  // The first answer holds the thread up while the others queue.
  Mutex gate;
  gate.lock();
  meta.SubmitSync({.hold_now = 1}, [&](const Status& status) {
    EXPECT_TRUE(status.ok());
    MutexLock wait(gate);
  });
  while (meta.syncs() == 0) bell.Wait();
  for (int i = 0; i < 100; ++i) {
    MetaBatch batch;
    batch.write_id_next = 10 + i;
    meta.SubmitSync(std::move(batch), [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      done.fetch_add(1);
      bell.Ring();
    });
  }
  gate.unlock();
  while (done.load() < 100) bell.Wait();
  EXPECT_EQ(meta.syncs(), 2u);
  EXPECT_EQ(meta.Load()->write_id_next, 109u);
}

TEST(RocksMetaTest, UnreadableRecordsAreSkippedAndCounted) {
  DiskDirectory directory;
  auto database = directory.OpenDatabase();
  ASSERT_TRUE(database.has_value());
  rocksdb::DB& db = (*database)->db();
  ASSERT_TRUE(db.Put({}, (*database)->meta(), "t234567890123456x", "bad").ok());
  ASSERT_TRUE(db.Put({}, (*database)->meta(), "z", "unknown").ok());
  RocksMeta meta(*database);
  ASSERT_TRUE(meta.Start(StartThread).ok());
  const Result<MetaSnapshot> loaded = meta.Load();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(loaded->tombstones.empty());
  EXPECT_EQ(meta.bad_records(), 2u);
}

}  // namespace
}  // namespace holdfast::testing
