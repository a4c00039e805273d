#include "tiers/sim_disk.h"

#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "tests/testing/test_frame.h"
#include "tests/testing/virtual_clock.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kPayload = 100'000;
constexpr HoldMillis kNow = 1'000'000'000;
constexpr HoldMillis kHour = 3'600'000;

class SimDiskTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  std::map<uint64_t, Place> Reopen() {
    disk_ = {};
    disk_ = OpenSimDisk(clock_, {.capacity_bytes = 64 << 20}, medium_);
    std::map<uint64_t, Place> found;
    const Status status =
        tier().Recover(kNow, [&](const RecoveredCopy& copy) -> std::optional<EntryId> {
          found[copy.placement.write_id] = copy.place;
          return 1;
        });
    EXPECT_TRUE(status.ok());
    return found;
  }
  GroupedTier& tier() { return *disk_.tier; }
  FrameOp Run(FrameOp op) {
    FrameOp* done = nullptr;
    tier().Submit(&op);
    EXPECT_EQ(tier().Poll({&done, 1}), 1u);
    EXPECT_EQ(done, &op);
    return op;
  }
  Place Write(uint64_t seed) {
    const Shape shape{.payload_bytes = kPayload, .deadline = kNow + kHour};
    std::optional<Place> place = tier().Allocate(shape);
    if (!place) {
      EXPECT_EQ(tier().NextStep(), Instant::min());
      tier().Step(clock_.Now(), kNow);
      place = tier().Allocate(shape);
    }
    TestFrame frame(seed, kPayload);
    const FrameOp op = Run({.kind = FrameOpKind::kWrite,
                            .place = place.value(),
                            .header = &frame.header(),
                            .payload = frame.extents()});
    last_ = op.outcome;
    errno_ = op.os_errno;
    return *place;
  }
  FrameOutcome Read(uint64_t seed, Place place) {
    TestFrame target(0, kPayload);
    return Run({.kind = FrameOpKind::kRead,
                .place = place,
                .header = &target.header(),
                .payload = target.extents(),
                .expect = TestFrame(seed, kPayload).expect()})
        .outcome;
  }
  void Flush() {
    tier().RequestFlush();
    tier().Step(clock_.Now(), kNow);
    EXPECT_EQ(tier().usage().undurable_bytes, 0u);
  }

  VirtualClock clock_;
  std::shared_ptr<SimDiskMedium> medium_ = std::make_shared<SimDiskMedium>();
  DiskTier disk_;
  FrameOutcome last_ = FrameOutcome::kDone;
  int errno_ = 0;
};

TEST_F(SimDiskTest, WhatWasNotFlushedIsLost) {
  Write(1);
  Flush();
  Write(2);
  const auto found = Reopen();
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(found.contains(1));
}

TEST_F(SimDiskTest, FlushAgeMakesDurable) {
  Write(1);
  tier().Step(clock_.Now(), kNow);
  EXPECT_GT(tier().usage().undurable_bytes, 0u);
  clock_.AdvanceTo(tier().NextStep());
  tier().Step(clock_.Now(), kNow);
  EXPECT_EQ(Reopen().size(), 1u);
}

TEST_F(SimDiskTest, TheNthOperationFailsWithTheErrnoGiven) {
  const Place place = Write(1);
  medium_->FailOperation(1, ENOSPC);
  EXPECT_EQ(Read(1, place), FrameOutcome::kDone);
  Write(2);
  EXPECT_EQ(last_, FrameOutcome::kFailed);
  EXPECT_EQ(errno_, ENOSPC);
  EXPECT_EQ(tier().usage().faults, 1u);
  EXPECT_EQ(tier().usage().last_errno, ENOSPC);
  EXPECT_EQ(Read(1, place), FrameOutcome::kDone);
}

TEST_F(SimDiskTest, ADamagedPayloadIsCorrupt) {
  const Place place = Write(1);
  ASSERT_TRUE(medium_->CorruptPayload(TestFrame(1, kPayload).key()));
  EXPECT_EQ(Read(1, place), FrameOutcome::kCorrupt);
}

TEST_F(SimDiskTest, ADamagedBlockRecordIsSkippedAndCounted) {
  Write(1);
  Write(2);
  Flush();
  ASSERT_TRUE(medium_->CorruptBlockRecord(TestFrame(1, kPayload).key()));
  const auto found = Reopen();
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(found.contains(2));
  EXPECT_EQ(tier().usage().faults, 1u);
}

TEST_F(SimDiskTest, WithoutBytesNothingIsKeptAndNothingWaits) {
  DiskTier disk = CreateSimDisk(clock_, UINT64_MAX, /*bytes=*/false);
  const Status status = disk.tier->Recover(kNow, [](const RecoveredCopy&) { return std::nullopt; });
  ASSERT_TRUE(status.ok());
  for (int i = 0; i < 1000; ++i) {
    const auto place = disk.tier->Allocate({.payload_bytes = 2 << 20, .deadline = kNow + kHour});
    ASSERT_TRUE(place);
    FrameOp op{.kind = FrameOpKind::kWrite, .place = *place};
    FrameOp* done = nullptr;
    disk.tier->Submit(&op);
    ASSERT_EQ(disk.tier->Poll({&done, 1}), 1u);
    ASSERT_EQ(op.outcome, FrameOutcome::kDone);
  }
  EXPECT_EQ(disk.tier->usage().live_copies, 1000u);
  EXPECT_EQ(disk.tier->usage().undurable_bytes, 0u);
  EXPECT_EQ(disk.tier->NextStep(), Instant::max());
}

}  // namespace
}  // namespace holdfast::testing
