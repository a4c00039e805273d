// TierDriver: does to a grouped tier what a store's driver does, one operation at a time. Every
// wait is bounded by turns, so that a hang fails instead of hanging.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "kvstore/tier.h"
#include "tests/testing/disk_directory.h"
#include "tests/testing/test_frame.h"

namespace holdfast::testing {

class TierDriver {
 public:
  TierDriver(GroupedTier& tier, Bell& bell, HoldMillis hold_now)
      : tier_(tier), bell_(bell), hold_now_(hold_now) {}

  void SetHoldNow(HoldMillis now) { hold_now_ = now; }
  void Step() { tier_.Step(Clock::System().Now(), hold_now_); }
  // Turns until the condition holds, at most about 10 s.
  bool Until(const std::function<bool()>& condition) {
    for (int turn = 0; turn < 1000; ++turn) {
      Step();
      if (condition()) return true;
      bell_.Wait();
    }
    return false;
  }
  void Flush() {
    tier_.RequestFlush();
    EXPECT_TRUE(Until([this] { return tier_.usage().undurable_bytes == 0; }));
  }
  std::optional<Place> Allocate(const Shape& shape) {
    std::optional<Place> place;
    for (int turn = 0; turn < 100 && !place; ++turn) {
      Step();
      place = tier_.Allocate(shape);
      if (!place) bell_.Wait();
      if (!place && tier_.NeedsRoom()) return tier_.Allocate(shape);
    }
    return place;
  }
  FrameOutcome Run(FrameOp op) {
    FrameOp* done = nullptr;
    tier_.Submit(&op);
    EXPECT_TRUE(Until([&] { return tier_.Poll({&done, 1}) == 1; }));
    EXPECT_EQ(done, &op);
    last_errno_ = op.os_errno;
    return op.outcome;
  }
  std::optional<Place> WriteFrame(TestFrame& frame, HoldMillis deadline) {
    const auto place = Allocate({.payload_bytes = frame.payload_bytes(),
                                 .deadline = deadline,
                                 .entry = static_cast<EntryId>(frame.write_id())});
    if (!place) return std::nullopt;
    frame.header().placement.deadline_ms = deadline;
    outcome_ = Run({.kind = FrameOpKind::kWrite,
                    .place = *place,
                    .header = &frame.header(),
                    .payload = frame.extents()});
    return outcome_ == FrameOutcome::kDone ? place : std::nullopt;
  }
  std::optional<Place> Write(uint64_t seed, uint64_t payload_bytes, HoldMillis deadline) {
    TestFrame frame(seed, payload_bytes);
    return WriteFrame(frame, deadline);
  }
  FrameOutcome ReadFrame(TestFrame& target, Place place, const FrameExpect& expect) {
    return Run({.kind = FrameOpKind::kRead,
                .place = place,
                .header = &target.header(),
                .payload = target.extents(),
                .expect = expect});
  }
  FrameOutcome Read(uint64_t seed, Place place, uint64_t payload_bytes) {
    TestFrame target(0, payload_bytes);
    const FrameOutcome outcome = ReadFrame(target, place, TestFrame(seed, payload_bytes).expect());
    if (outcome == FrameOutcome::kDone) {
      EXPECT_TRUE(target.Holds(seed, 0, payload_bytes));
    }
    return outcome;
  }
  void RetireGroup(GroupId group) {
    std::vector<LiveCopy> live;
    tier_.Live(group, live);
    tier_.BeginRetire(group);
    for (const LiveCopy& copy : live) tier_.Free(copy.place);
    tier_.Retire(group);
  }
  int last_errno() const { return last_errno_; }

 private:
  GroupedTier& tier_;
  Bell& bell_;
  HoldMillis hold_now_;
  FrameOutcome outcome_ = FrameOutcome::kDone;
  int last_errno_ = 0;
};

}  // namespace holdfast::testing
