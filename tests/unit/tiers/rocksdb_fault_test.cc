// A file system that fails: nothing hangs, everything is answered, and the tier comes back.
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "tests/testing/disk_directory.h"
#include "tests/testing/test_frame.h"
#include "tests/testing/tier_driver.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kCapacity = 128u << 20;
constexpr uint64_t kPayload = 1u << 20;
constexpr HoldMillis kNow = 1'000'000'000;
constexpr HoldMillis kHour = 3'600'000;

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Counts down over appends and syncs of all files; from zero on each fails, until Heal.
class FaultPlan {
 public:
  void FailFrom(int64_t nth, bool no_space) {
    no_space_.store(no_space);
    left_.store(nth);
  }
  void Heal() { left_.store(INT64_MAX); }
  IOStatus Next() {
    if (left_.fetch_sub(1) > 0) return IOStatus::OK();
    failed_.fetch_add(1);
    return no_space_.load() ? IOStatus::NoSpace("planned") : IOStatus::IOError("planned");
  }
  int64_t failed() const { return failed_.load(); }

 private:
  std::atomic<int64_t> left_{INT64_MAX};
  std::atomic<int64_t> failed_{0};
  std::atomic<bool> no_space_{false};
};

class FailingFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FailingFile(std::unique_ptr<rocksdb::FSWritableFile> file, FaultPlan& plan)
      : FSWritableFileOwnerWrapper(std::move(file)), plan_(plan) {}
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    IOStatus fault = plan_.Next();
    return fault.ok() ? target()->Append(data, options, debug) : fault;
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    IOStatus fault = plan_.Next();
    return fault.ok() ? target()->Append(data, options, info, debug) : fault;
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* debug) override {
    IOStatus fault = plan_.Next();
    return fault.ok() ? target()->PositionedAppend(data, offset, options, debug) : fault;
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo& info,
                            IODebugContext* debug) override {
    IOStatus fault = plan_.Next();
    return fault.ok() ? target()->PositionedAppend(data, offset, options, info, debug) : fault;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus fault = plan_.Next();
    return fault.ok() ? target()->Sync(options, debug) : fault;
  }

 private:
  FaultPlan& plan_;
};

class FailingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FailingFileSystem(FaultPlan& plan)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), plan_(plan) {}
  const char* Name() const override { return "failing"; }
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* out,
                           IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    IOStatus status = target()->NewWritableFile(name, options, &file, debug);
    if (status.ok()) *out = std::make_unique<FailingFile>(std::move(file), plan_);
    return status;
  }

 private:
  FaultPlan& plan_;
};

class RocksFaultTest : public ::testing::Test {
 protected:
  void Open() {
    disk_ = {};
    DiskTierOptions options = directory_.Options(kCapacity);
    options.write_buffer_bytes = 8 << 20;  // flushes come by themselves
    Result<DiskTier> opened = directory_.Open(options, std::make_shared<FailingFileSystem>(plan_));
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    disk_ = *std::move(opened);
    const Status status =
        disk_.tier->Recover(kNow, [](const RecoveredCopy&) -> std::optional<EntryId> { return 1; });
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  GroupedTier& tier() { return *disk_.tier; }

  FaultPlan plan_;
  DiskDirectory directory_;
  DiskTier disk_;
};

TEST_F(RocksFaultTest, TheNthWriteFailsForManyNAndNothingHangs) {
  Open();
  uint64_t seed = 0;
  for (const int64_t nth : {0, 1, 3, 8, 21}) {
    SCOPED_TRACE(nth);
    TierDriver driver(tier(), directory_.bell(), kNow);
    ASSERT_TRUE(driver.Until([&] {  // out of the last round's error
      return tier().Allocate({.payload_bytes = 1, .deadline = kNow + kHour}).has_value();
    }));
    plan_.FailFrom(nth, nth % 2 == 1);
    const uint64_t faults = tier().usage().faults;
    for (int i = 0; i < 12; ++i) {  // more than the write buffer takes
      const auto place = tier().Allocate({.payload_bytes = kPayload, .deadline = kNow + kHour});
      driver.Step();
      if (!place) continue;
      TestFrame frame(++seed, kPayload);
      const FrameOutcome outcome = driver.Run({.kind = FrameOpKind::kWrite,
                                               .place = *place,
                                               .header = &frame.header(),
                                               .payload = frame.extents()});
      if (outcome == FrameOutcome::kFailed) {
        EXPECT_TRUE(driver.last_errno() == EIO || driver.last_errno() == ENOSPC);
      }
    }
    tier().RequestFlush();
    EXPECT_TRUE(driver.Until([&] { return tier().usage().faults > faults; }));
    plan_.Heal();
  }
  Open();  // and what it left behind opens
}

TEST_F(RocksFaultTest, AfterABackgroundErrorItDeclinesUntilResumed) {
  Open();
  TierDriver driver(tier(), directory_.bell(), kNow);
  const auto place = driver.Write(1, kPayload, kNow + kHour);
  ASSERT_TRUE(place);
  plan_.FailFrom(0, true);
  tier().RequestFlush();
  ASSERT_TRUE(driver.Until([&] { return tier().usage().faults > 0; }));
  EXPECT_EQ(tier().usage().last_errno, ENOSPC);
  EXPECT_GT(tier().usage().undurable_bytes, 0u);
  EXPECT_FALSE(tier().Allocate({.payload_bytes = kPayload, .deadline = kNow + kHour}));
  EXPECT_LT(tier().NextStep(), Instant::max());
  EXPECT_EQ(driver.Read(1, *place, kPayload), FrameOutcome::kDone);  // from memory
  plan_.Heal();
  EXPECT_TRUE(driver.Until([&] {
    return tier().Allocate({.payload_bytes = kPayload, .deadline = kNow + kHour}).has_value();
  }));
  driver.Flush();
  EXPECT_EQ(driver.Read(1, *place, kPayload), FrameOutcome::kDone);
}

TEST_F(RocksFaultTest, AFailedMetaSyncIsToldAndTheNextOneWorks) {
  Open();
  Bell bell;
  const auto sync = [&](uint64_t write_id) {
    std::atomic<int> answer{0};
    MetaBatch batch;
    batch.write_id_next = write_id;
    disk_.meta->SubmitSync(std::move(batch), [&](const Status& status) {
      answer.store(status.ok() ? 1 : -1);
      bell.Ring();
    });
    while (answer.load() == 0) bell.Wait();
    return answer.load() == 1;
  };
  EXPECT_TRUE(sync(5));
  plan_.FailFrom(0, false);
  EXPECT_FALSE(sync(6));
  plan_.Heal();
  EXPECT_TRUE(sync(7));
  EXPECT_EQ(disk_.meta->Load()->write_id_next, 7u);
}

}  // namespace
}  // namespace holdfast::testing
