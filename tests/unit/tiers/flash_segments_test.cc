// The space logic, without a medium: with bytes off nothing has to be prepared, sealed or flushed.
#include "tiers/flash_segments.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/testing/virtual_clock.h"
#include "tests/unit/tiers/sim_flash.h"

namespace holdfast::testing {
namespace {

using internal::FlashSegments;

constexpr uint64_t kPayload = 20'000;

FlashSegments MakeSegments(uint64_t count, uint32_t open_max = 16) {
  return FlashSegments({.count = count,
                        .segment_bytes = internal::SegmentBytesFor(4, FrameBytes(kPayload)),
                        .open_max = open_max,
                        .bytes = false});
}
// Allocated, submitted, written.
std::optional<Place> Write(FlashSegments& segments, const Shape& shape) {
  const auto place = segments.Allocate(shape);
  if (!place) return place;
  segments.at(place->group).ops.fetch_add(1);
  segments.at(place->group).writes.fetch_add(1);
  segments.Written(*place, nullptr, Instant{});
  segments.OpEnded(*place, true);
  return place;
}

TEST(FlashSegmentsTest, FramesOfOneSizeAndClassLieTogether) {
  FlashSegments segments = MakeSegments(16);
  const Place a = *Write(segments, {.payload_bytes = kPayload, .hold_class = 1});
  const Place b = *Write(segments, {.payload_bytes = kPayload - 1, .hold_class = 1});
  const Place other_class = *Write(segments, {.payload_bytes = kPayload, .hold_class = 2});
  const Place other_size = *Write(segments, {.payload_bytes = 5'000, .hold_class = 1});
  EXPECT_EQ(b.group, a.group);  // the same frame bytes
  EXPECT_NE(other_class.group, a.group);
  EXPECT_NE(other_size.group, a.group);
  EXPECT_NE(other_size.group, other_class.group);
}

TEST(FlashSegmentsTest, TwoFreeSegmentsAreKeptForRewriting) {
  FlashSegments segments = MakeSegments(6);
  uint64_t frames = 0;
  while (Write(segments, {.payload_bytes = kPayload})) ++frames;
  EXPECT_EQ(frames, 16u);
  EXPECT_EQ(segments.groups_free(), 2u);
  EXPECT_TRUE(segments.NeedsRoom());
  while (Write(segments, {.payload_bytes = kPayload, .rewrite = true})) ++frames;
  EXPECT_EQ(frames, 24u);
  EXPECT_EQ(segments.groups_free(), 0u);
}

TEST(FlashSegmentsTest, OneCombinationTooManySealsTheLeastRecentlyWritten) {
  FlashSegments segments = MakeSegments(16, /*open_max=*/3);
  const Place a = *Write(segments, {.payload_bytes = kPayload, .hold_class = 1});
  const Place b = *Write(segments, {.payload_bytes = kPayload, .hold_class = 2});
  ASSERT_TRUE(Write(segments, {.payload_bytes = kPayload, .hold_class = 3}));
  ASSERT_EQ(Write(segments, {.payload_bytes = kPayload, .hold_class = 1})->group, a.group);
  ASSERT_TRUE(Write(segments, {.payload_bytes = kPayload, .hold_class = 4}));
  EXPECT_EQ(segments.at(b.group).state, internal::SegmentState::kSealed);
  EXPECT_EQ(segments.at(a.group).state, internal::SegmentState::kOpen);
}

TEST(FlashSegmentsTest, ASegmentIsNotSealedWhileAFrameOfItIsOnItsWay) {
  FlashSegments segments = MakeSegments(16);
  std::vector<Place> places;
  for (int i = 0; i < 4; ++i) places.push_back(*segments.Allocate({.payload_bytes = kPayload}));
  EXPECT_EQ(segments.at(places[0].group).state, internal::SegmentState::kClosing);
  EXPECT_FALSE(segments.Victim(0));
  for (const Place& place : places) {
    segments.at(place.group).ops.fetch_add(1);
    segments.at(place.group).writes.fetch_add(1);
  }
  segments.Free(places[3]);  // freed while it is being written
  for (const Place& place : places) {
    segments.Written(place, nullptr, Instant{});
    EXPECT_FALSE(segments.Victim(0));
    segments.OpEnded(place, true);
  }
  EXPECT_EQ(segments.Victim(0), places[0].group);
}

TEST(FlashSegmentsTest, WithOnlyOpenSegmentsLeftVictimSealsOne) {
  FlashSegments segments = MakeSegments(4);
  const Place a = *Write(segments, {.payload_bytes = kPayload, .hold_class = 1});
  ASSERT_TRUE(Write(segments, {.payload_bytes = kPayload, .hold_class = 2}));
  ASSERT_FALSE(Write(segments, {.payload_bytes = kPayload, .hold_class = 3}));
  EXPECT_FALSE(segments.Victim(0));
  EXPECT_EQ(segments.Victim(0), a.group);
}

TEST(FlashSegmentsTest, AFrameLargerThanASegmentIsDeclined) {
  FlashSegments segments = MakeSegments(8);
  EXPECT_FALSE(segments.Allocate({.payload_bytes = 1u << 20}));
}

TEST(FlashSegmentsTest, TheMeanOfTouchesIsExactAfterAnyHistory) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  FlashSegments segments = MakeSegments(64);
  std::map<uint64_t, uint32_t> stamps;  // by packed place
  std::vector<Place> live;
  uint32_t stamp = UINT32_MAX - 20'000;  // touches that never wrap, but nearly
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t dice = random() % 10;
    if (dice < 3) {
      const auto place = Write(segments, {.payload_bytes = kPayload, .touched = ++stamp});
      if (place) {
        live.push_back(*place);
        stamps[uint64_t{place->group} << 32 | place->slot] = stamp;
      }
    } else if (!live.empty()) {
      const size_t at = random() % live.size();
      const Place place = live[at];
      uint32_t& last = stamps[uint64_t{place.group} << 32 | place.slot];
      if (dice < 8) {
        segments.Touched(place, last, ++stamp);
        last = stamp;
      } else {
        segments.Free(place);
        stamps.erase(uint64_t{place.group} << 32 | place.slot);
        live[at] = live.back();
        live.pop_back();
      }
    }
    if (segments.NeedsRoom()) {
      if (const auto victim = segments.Victim(0); victim && segments.at(*victim).live == 0) {
        segments.Retire(*victim);
      }
    }
  }
  std::map<GroupId, uint64_t> sums;
  for (const auto& [packed, touched] : stamps) sums[static_cast<GroupId>(packed >> 32)] += touched;
  ASSERT_FALSE(sums.empty());
  for (const auto& [group, sum] : sums) EXPECT_EQ(segments.at(group).touch_sum, sum);
  TierUsage usage;
  segments.AddUsage(usage);
  EXPECT_EQ(usage.live_copies, live.size());
  EXPECT_EQ(usage.used_bytes, live.size() * FrameBytes(kPayload));
}

void RetireAll(GroupedTier& tier, GroupId group) {
  std::vector<LiveCopy> live;
  tier.Live(group, live);
  tier.BeginRetire(group);
  for (const LiveCopy& copy : live) tier.Free(copy.place);
  tier.Retire(group);
}

// Replay without bytes must decide as the real thing does, whatever it calls its segments.
TEST(FlashSegmentsTest, WithAndWithoutBytesTheSameIsKeptAndTheSameGoes) {
  VirtualClock clock;
  FlashTierOptions options{.segment_bytes = 160u << 10,
                           .segment_bytes_min = 64u << 10,
                           .segments_min = 8,
                           .payload_bytes_typical = kPayload};
  SimFlash real(2u << 20, options);
  ASSERT_TRUE(real.OpenEmpty().ok());
  options.bytes = false;
  options.capacity_bytes = 2u << 20;
  auto bare = *CreateFlashTier(nullptr, clock, nullptr, options);
  std::mt19937_64 random(3);
  std::map<GroupId, GroupId> bare_group;  // by the real one's
  int retired = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Shape shape{.payload_bytes = kPayload,
                      .hold_class = static_cast<uint8_t>(random() % 2),
                      .entry = static_cast<EntryId>(seed),
                      .touched = static_cast<uint32_t>(seed)};
    const auto place = real.Allocate(shape);
    const auto bare_place = bare->Allocate(shape);
    ASSERT_EQ(place.has_value(), bare_place.has_value()) << seed;
    if (!place) {
      const auto victim = real.grouped()->Victim(0);
      ASSERT_TRUE(victim);
      ASSERT_EQ(bare->Victim(0), bare_group.at(*victim));
      RetireAll(*real.grouped(), *victim);
      RetireAll(*bare, bare_group.at(*victim));
      bare_group.erase(*victim);
      ++retired;
      continue;
    }
    ASSERT_EQ(bare_group.try_emplace(place->group, bare_place->group).first->second,
              bare_place->group);
    ASSERT_EQ(place->slot, bare_place->slot);
    EXPECT_EQ(real.Write(*place, seed, kPayload), FrameOutcome::kDone);
    FrameOp op{.kind = FrameOpKind::kWrite, .place = *bare_place};
    bare->Submit(&op);
    FrameOp* out = nullptr;
    ASSERT_EQ(bare->Poll({&out, 1}), 1u);
    EXPECT_EQ(op.outcome, FrameOutcome::kDone);
    real.Settle();
  }
  EXPECT_GT(retired, 20);
  EXPECT_EQ(bare->usage().live_copies, real.tier().usage().live_copies);
}

}  // namespace
}  // namespace holdfast::testing
