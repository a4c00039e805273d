#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/tiers/sim_flash.h"
#include "tiers/flash_format.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kCapacityBytes = 2u << 20;
constexpr uint64_t kPayload = 20'000;
constexpr uint64_t kFrame = FrameBytes(kPayload);

class FlashLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status status = flash_.OpenEmpty();
    ASSERT_TRUE(status.ok()) << status.ToString();
    segment_bytes_ = flash_.tier().limits().capacity_bytes / flash_.tier().usage().groups;
    slots_ = internal::SlotsOf(segment_bytes_, kFrame);
    ASSERT_GE(slots_, 4u);
  }
  GroupedTier& tier() { return *flash_.grouped(); }
  uint64_t SegmentAt(GroupId group) const {
    return internal::kSegmentsOffset + group * segment_bytes_;
  }
  uint64_t FrameAt(Place place, uint64_t stride = kFrame) const {
    return SegmentAt(place.group) + internal::kSlotsOffset + place.slot * stride;
  }
  // Fills whole segments of one class; returns seed -> place.
  std::map<uint64_t, Place> FillSegments(uint32_t segments, uint64_t first_seed, uint8_t hold_class,
                                         HoldMillis deadline = kNoDeadline) {
    std::map<uint64_t, Place> places;
    for (uint64_t i = 0; i < segments * slots_; ++i) {
      const auto place = flash_.Put(first_seed + i, kPayload, hold_class, deadline);
      EXPECT_TRUE(place);
      if (place) places[first_seed + i] = *place;
    }
    flash_.Settle();
    return places;
  }
  void Retire(GroupId group) {
    std::vector<LiveCopy> live;
    tier().Live(group, live);
    tier().BeginRetire(group);
    for (const LiveCopy& copy : live) tier().Free(copy.place);
    tier().Retire(group);
  }

  SimFlash flash_{kCapacityBytes, FlashTierOptions{.segment_bytes = 160u << 10,
                                                   .segment_bytes_min = 64u << 10,
                                                   .segments_min = 8,
                                                   .open_segments_max = 3,
                                                   .payload_bytes_typical = kPayload,
                                                   .classes_last = 0b110}};
  uint64_t segment_bytes_ = 0;
  uint32_t slots_ = 0;
};

TEST_F(FlashLogTest, ABitFlippedAnywhereInAFrameIsCorruptAndOnlyThere) {
  const Place good = *flash_.Put(1, kPayload);
  const Place bad = *flash_.Put(2, kPayload);
  for (const uint64_t at : {0u, 100u, 2'000u, 3'839u, 3'900u, 4'095u, 4'096u, 14'000u, 24'095u}) {
    flash_.image().FlipBit(FrameAt(bad) + at, 5);
    EXPECT_EQ(flash_.Read(bad, 2, kPayload), FrameOutcome::kCorrupt) << at;
    EXPECT_NE(flash_.last_op().fault, FrameFault::kNone);
    EXPECT_EQ(flash_.Read(good, 1, kPayload), FrameOutcome::kDone);
    flash_.image().FlipBit(FrameAt(bad) + at, 5);
  }
  EXPECT_EQ(flash_.Read(bad, 2, kPayload), FrameOutcome::kDone);
}

TEST_F(FlashLogTest, AMisdirectedReadIsCorrupt) {
  const Place first = *flash_.Put(1, kPayload);
  ASSERT_TRUE(flash_.Put(2, kPayload));
  flash_.engine().Plan({.kind = IoKind::kRead, .misdirect_bytes = static_cast<int64_t>(kFrame)});
  EXPECT_EQ(flash_.Read(first, 1, kPayload), FrameOutcome::kCorrupt);
  EXPECT_EQ(flash_.Read(first, 1, kPayload), FrameOutcome::kDone);
}

TEST_F(FlashLogTest, AMisdirectedWriteIsCorruptAndNeverFoundAgain) {
  const Place first = *flash_.Put(1, kPayload);
  flash_.Settle();
  flash_.engine().Plan({.kind = IoKind::kWrite, .misdirect_bytes = static_cast<int64_t>(kFrame)});
  const auto strayed = flash_.Put(2, kPayload);
  ASSERT_TRUE(strayed);
  EXPECT_EQ(flash_.Read(*strayed, 2, kPayload), FrameOutcome::kCorrupt);
  ASSERT_TRUE(flash_.Flush());
  ASSERT_TRUE(flash_.Open().ok());
  const auto found = flash_.RecoverAll();
  EXPECT_EQ(found, (std::map<uint64_t, Place>{{1, first}}));
}

TEST_F(FlashLogTest, AFailedReadIsAFailureWithItsNumberAndTheTierGoesOn) {
  const Place place = *flash_.Put(1, kPayload);
  flash_.engine().Plan({.kind = IoKind::kRead, .error = EIO});
  EXPECT_EQ(flash_.Read(place, 1, kPayload), FrameOutcome::kFailed);
  EXPECT_EQ(flash_.last_op().os_errno, EIO);
  EXPECT_EQ(tier().usage().faults, 1u);
  EXPECT_EQ(tier().usage().last_errno, EIO);
  EXPECT_EQ(flash_.Read(place, 1, kPayload), FrameOutcome::kDone);
  EXPECT_TRUE(tier().Allocate({.payload_bytes = kPayload, .hold_class = 1}));
}

TEST_F(FlashLogTest, AfterAFailedWriteItDeclinesForAPauseThatGrows) {
  ASSERT_TRUE(flash_.Put(1, kPayload));
  flash_.Settle();
  Place last{};
  for (const auto pause : {100ms, 200ms, 400ms}) {
    flash_.engine().Plan({.kind = IoKind::kWrite, .error = ENOSPC});
    const auto place = tier().Allocate({.payload_bytes = kPayload, .hold_class = 1});
    ASSERT_TRUE(place);
    EXPECT_NE(*place, last);  // a slot whose write failed is not used again
    last = *place;
    EXPECT_EQ(flash_.Write(*place, 2, kPayload), FrameOutcome::kFailed);
    tier().Free(*place);
    const Instant failed = flash_.clock().Now();
    flash_.clock().Advance(pause - 1ms);
    EXPECT_FALSE(tier().Allocate({.payload_bytes = kPayload, .hold_class = 1}));
    EXPECT_GE(tier().NextStep(), failed + pause - 1ms);
    EXPECT_LE(tier().NextStep(), failed + pause);
    flash_.clock().Advance(1ms);
  }
  EXPECT_EQ(tier().usage().faults, 3u);
  EXPECT_TRUE(flash_.Put(3, kPayload));
  EXPECT_EQ(tier().usage().live_copies, 2u);
}

TEST_F(FlashLogTest, NoSpaceAtAnyWriteCostsThatCopyAtMost) {
  for (uint64_t nth = 1; nth < 40; ++nth) {
    SCOPED_TRACE(nth);
    SimFlash flash(kCapacityBytes, flash_.options());
    ASSERT_TRUE(flash.Open().ok());
    flash.engine().Plan({.kind = IoKind::kWrite, .nth = nth, .error = ENOSPC});
    flash.RecoverAll();
    std::map<uint64_t, Place> written;
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      if (const auto place = flash.Put(seed, kPayload)) written[seed] = *place;
      flash.clock().Advance(150ms);
    }
    EXPECT_GE(written.size(), 23u);
    EXPECT_EQ(flash.tier().usage().faults, 1u);
    EXPECT_EQ(flash.tier().usage().live_copies, written.size());
    ASSERT_TRUE(flash.Flush());
    ASSERT_TRUE(flash.Open().ok());
    EXPECT_EQ(flash.RecoverAll(), written);
  }
}

TEST_F(FlashLogTest, AFailedFlushIsNeverTrustedAgain) {
  const Place safe = *flash_.Put(1, kPayload);
  ASSERT_TRUE(flash_.Flush());
  flash_.Settle();
  const Place lost = *flash_.Put(2, kPayload);
  flash_.engine().Plan({.kind = IoKind::kSync, .error = EIO});
  EXPECT_TRUE(flash_.Flush());
  EXPECT_EQ(tier().usage().lost_bytes, kFrame);
  EXPECT_EQ(tier().usage().faults, 1u);
  EXPECT_EQ(flash_.Read(lost, 2, kPayload), FrameOutcome::kDone);  // as long as it is shown
  flash_.clock().Advance(1s);
  const Place later = *flash_.Put(3, kPayload);
  EXPECT_NE(later.group, lost.group);
  ASSERT_TRUE(flash_.Flush());
  flash_.Crash();
  flash_.PowerOn();
  ASSERT_TRUE(flash_.Open().ok());
  EXPECT_EQ(flash_.RecoverAll(), (std::map<uint64_t, Place>{{1, safe}, {3, later}}));
}

TEST_F(FlashLogTest, WhatIsPoisonedIsReclaimedLikeAnyOther) {
  const Place lost = *flash_.Put(2, kPayload);
  flash_.engine().Plan({.kind = IoKind::kSync, .error = EIO});
  ASSERT_TRUE(flash_.Flush());
  flash_.clock().Advance(1s);
  EXPECT_EQ(tier().Victim(0), lost.group);
  Retire(lost.group);
  EXPECT_EQ(tier().usage().lost_bytes, 0u);
  EXPECT_EQ(tier().usage().live_copies, 0u);
}

TEST_F(FlashLogTest, AnOpenSegmentIsFlushedWhenItsOldestFrameIsThirtySecondsOld) {
  ASSERT_TRUE(flash_.Put(1, kPayload));
  const Instant written = flash_.clock().Now();
  flash_.Settle();
  EXPECT_GT(tier().usage().undurable_bytes, 0u);
  const Instant due = tier().NextStep();
  EXPECT_LE(due, written + 30s);
  EXPECT_GT(due, written + 29s);
  flash_.clock().AdvanceTo(due - 1ns);
  flash_.Collect();
  EXPECT_EQ(tier().usage().undurable_bytes, kFrame);
  flash_.clock().AdvanceTo(due);
  flash_.Collect();
  flash_.Settle();
  EXPECT_EQ(tier().usage().undurable_bytes, 0u);
  EXPECT_EQ(tier().NextStep(), Instant::max());
}

TEST_F(FlashLogTest, AFullSegmentIsSealedAndNothingIsLeftToFlush) {
  FillSegments(2, 1, 1);
  EXPECT_EQ(tier().usage().undurable_bytes, 0u);
  EXPECT_EQ(tier().NextStep(), Instant::max());
}

TEST_F(FlashLogTest, ATornSummaryCostsNothingButTime) {
  const auto places = FillSegments(1, 1, 1);
  const uint64_t at = internal::SummaryOffset(segment_bytes_, slots_);
  flash_.image().FlipBit(SegmentAt(places.begin()->second.group) + at + 70, 1);
  ASSERT_TRUE(flash_.Open().ok());
  EXPECT_EQ(flash_.RecoverAll(), places);
  flash_.Settle();  // writes the summary anew
  ASSERT_TRUE(flash_.Open().ok());
  const uint64_t reads = flash_.engine().operations(IoKind::kRead);
  EXPECT_EQ(flash_.RecoverAll(), places);
  // Headers and one summary; no slot was looked at.
  EXPECT_EQ(flash_.engine().operations(IoKind::kRead) - reads, tier().usage().groups + 1);
}

TEST_F(FlashLogTest, ABrokenSegmentHeaderCostsItsSegmentOnly) {
  const auto first = FillSegments(1, 1, 1);
  const auto second = FillSegments(1, 100, 1);
  flash_.image().FlipBit(SegmentAt(first.begin()->second.group) + 9, 1);
  ASSERT_TRUE(flash_.Open().ok());
  EXPECT_EQ(flash_.RecoverAll(), second);
}

TEST_F(FlashLogTest, AHoleHidesNothing) {
  const Place a = *flash_.Put(1, kPayload);
  const auto never_written = flash_.Allocate({.payload_bytes = kPayload, .hold_class = 1});
  const Place c = *flash_.Put(3, kPayload);
  tier().Free(*never_written);
  ASSERT_TRUE(flash_.Flush());
  ASSERT_TRUE(flash_.Open().ok());
  EXPECT_EQ(flash_.RecoverAll(), (std::map<uint64_t, Place>{{1, a}, {3, c}}));
}

TEST_F(FlashLogTest, RecoveredCopiesThatAreNotWantedTakeNoSpace) {
  FillSegments(2, 1, 1);
  ASSERT_TRUE(flash_.Open().ok());
  ASSERT_TRUE(tier().Recover(0, [](const RecoveredCopy&) { return std::nullopt; }).ok());
  EXPECT_EQ(tier().usage().live_copies, 0u);
  EXPECT_EQ(tier().usage().groups_free, tier().usage().groups);
}

TEST_F(FlashLogTest, ACopyAcceptedMayBeGivenUpDuringRecovery) {
  FillSegments(1, 1, 1);
  ASSERT_TRUE(flash_.Open().ok());
  std::optional<Place> before;
  ASSERT_TRUE(tier()
                  .Recover(0,
                           [&](const RecoveredCopy& copy) -> std::optional<EntryId> {
                             if (before) tier().Free(*before);
                             before = copy.place;
                             return 7;
                           })
                  .ok());
  EXPECT_EQ(tier().usage().live_copies, 1u);
  std::vector<LiveCopy> live;
  tier().Live(before->group, live);
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(live[0].place, *before);
}

TEST_F(FlashLogTest, TheSegmentUsedLongestAgoGoesFirst) {
  const auto old = FillSegments(1, 1, 0);
  const auto hot = FillSegments(1, 100, 0);
  const auto young = FillSegments(1, 200, 0);
  EXPECT_EQ(tier().Victim(0), old.begin()->second.group);
  uint32_t stamp = 1000;
  for (const auto& [seed, place] : old) {
    tier().Touched(place, static_cast<uint32_t>(seed), ++stamp);
  }
  EXPECT_EQ(tier().Victim(0), hot.begin()->second.group);
  // Fewest live copies is not the measure; none at all is.
  for (const auto& [seed, place] : young) {
    if (place.slot > 0) tier().Free(place);
  }
  EXPECT_EQ(tier().Victim(0), hot.begin()->second.group);
  tier().Free(young.begin()->second);
  EXPECT_EQ(tier().Victim(0), young.begin()->second.group);
}

TEST_F(FlashLogTest, ASegmentWhollyPastItsEndGoesBeforeColderOnes) {
  FillSegments(1, 1, 1, 50'000);
  const auto ends_soon = FillSegments(1, 100, 1, 10'000);
  const auto refreshed = FillSegments(1, 200, 1, 10'000);
  EXPECT_FALSE(tier().Expired(9'999));
  tier().SetEnd(refreshed.begin()->second, 20'000);
  EXPECT_EQ(tier().Expired(10'000), ends_soon.begin()->second.group);
  EXPECT_EQ(tier().Victim(10'000), ends_soon.begin()->second.group);
  Retire(*tier().Expired(10'000));
  EXPECT_FALSE(tier().Expired(19'999));
  EXPECT_EQ(tier().Expired(20'000), refreshed.begin()->second.group);
}

TEST_F(FlashLogTest, SegmentsOfGrantedHoldsGoLastTheEarliestEndFirst) {
  const auto later = FillSegments(1, 1, 2, 50'000);
  const auto sooner = FillSegments(1, 100, 1, 10'000);
  const auto loose = FillSegments(1, 200, 0);
  EXPECT_EQ(tier().Victim(0), loose.begin()->second.group);
  Retire(loose.begin()->second.group);
  EXPECT_EQ(tier().Victim(0), sooner.begin()->second.group);
  // Most of what it took in is gone: what is left is soon written elsewhere.
  for (const auto& [seed, place] : later) {
    if (place.slot >= slots_ / 2) tier().Free(place);
  }
  EXPECT_EQ(tier().Victim(0), later.begin()->second.group);
}

TEST_F(FlashLogTest, SpaceReturnsWhenTheLastOpOnItIsPolled) {
  const auto places = FillSegments(1, 1, 1);
  const auto [seed, place] = *places.begin();
  TestFrame target(0, kPayload);
  FrameOp op{.kind = FrameOpKind::kRead,
             .place = place,
             .header = &target.header(),
             .payload = target.extents(),
             .expect = TestFrame(seed, kPayload).expect()};
  tier().Submit(&op);
  const uint64_t free_before = tier().usage().groups_free;
  Retire(place.group);
  EXPECT_EQ(tier().usage().groups_free, free_before);
  while (tier().in_flight() > 0) flash_.Turn();
  EXPECT_EQ(op.outcome, FrameOutcome::kDone);
  EXPECT_TRUE(target.Holds(seed, 0, kPayload));
  EXPECT_EQ(tier().usage().groups_free, free_before + 1);
}

TEST_F(FlashLogTest, BytesWrittenAreCountedWithHeadersAndSummaries) {
  const uint64_t before = tier().usage().written_bytes;
  FillSegments(1, 1, 1);
  // Frames, shape, summary, and the headers of at most three segments prepared ahead.
  const uint64_t least = slots_ * kFrame + kPageBytes + internal::SummaryBytes(slots_);
  const uint64_t written = tier().usage().written_bytes - before;
  EXPECT_GE(written, least);
  EXPECT_LE(written, least + 3 * kPageBytes);
}

}  // namespace
}  // namespace holdfast::testing
