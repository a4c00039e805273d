// Power loss at every I/O of a history, then recovery. What must hold afterwards:
//  * a copy that was flushed and is live is found, and reads back;
//  * a copy that is found was written; it reads back, or was not flushed and is torn, which is
//  said;
//  * nothing of a segment's previous life is found once the segment was given out again.
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tests/unit/tiers/sim_flash.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kCapacityBytes = 2u << 20;
constexpr uint64_t kPayloadBytes[] = {9'000, 20'000, 33'000};

FlashTierOptions SmallOptions() {
  return {.segment_bytes = 160u << 10,
          .segment_bytes_min = 64u << 10,
          .segments_min = 8,
          .open_segments_max = 3,
          .payload_bytes_typical = 20'000};
}

// A seeded sequence of what a store does, and what it may expect to find afterwards.
class History {
 public:
  explicit History(uint64_t seed) : flash_(kCapacityBytes, SmallOptions(), seed), random_(seed) {}

  SimFlash& flash() { return flash_; }

  // One life of the process. False when the power went.
  void Run(int steps) {
    if (!Open()) return;
    for (int step = 0; step < steps && !flash_.crashed(); ++step) {
      const uint64_t dice = random_() % 20;
      if (dice < 14) {
        Put();
      } else if (dice < 16) {
        FreeOne();
      } else if (dice < 17) {
        Flush();
      } else {
        ReadOne();
      }
      while (flash_.grouped()->NeedsRoom() && !flash_.crashed()) {
        if (!RetireOne()) break;
      }
    }
  }

  // Opens what the power loss left, and checks it against what was expected.
  bool Open() {
    const Status status = flash_.Open();
    if (!status.ok()) {
      EXPECT_TRUE(flash_.crashed()) << status.ToString();
      return false;
    }
    for (auto& [group, seeds] : current_) old_[group].merge(seeds);
    current_.clear();
    const std::map<uint64_t, Place> found = flash_.RecoverAll();
    if (flash_.crashed()) return false;
    for (const auto& [seed, copy] : live_) {
      EXPECT_TRUE(!copy.flushed || found.contains(seed)) << "flushed copy lost: " << seed;
    }
    std::map<uint64_t, Copy> now;
    for (const auto& [seed, place] : found) {
      EXPECT_FALSE(overwritten_.contains(seed)) << "from a previous life: " << seed;
      EXPECT_TRUE(written_.contains(seed)) << "never written: " << seed;
      const FrameOutcome outcome = flash_.Read(place, seed, written_[seed]);
      if (flash_.crashed()) return false;
      const bool flushed = live_.contains(seed) && live_[seed].flushed;
      EXPECT_TRUE(outcome == FrameOutcome::kDone || (outcome == FrameOutcome::kCorrupt && !flushed))
          << seed;
      if (outcome == FrameOutcome::kDone) {
        now[seed] = {place, flushed};
      } else {
        flash_.tier().Free(place);
      }
    }
    live_ = std::move(now);
    EXPECT_EQ(flash_.tier().usage().live_copies, live_.size());
    return true;
  }
  size_t live() const { return live_.size(); }

 private:
  struct Copy {
    Place place;
    bool flushed = false;
  };

  void Put() {
    const uint64_t seed = ++seeds_;
    const uint64_t payload_bytes = kPayloadBytes[random_() % std::size(kPayloadBytes)];
    const auto hold_class = static_cast<uint8_t>(random_() % 2);
    written_[seed] = payload_bytes;
    const std::optional<Place> place = flash_.Allocate({.payload_bytes = payload_bytes,
                                                        .hold_class = hold_class,
                                                        .entry = static_cast<EntryId>(seed),
                                                        .touched = touch_++});
    if (!place) return;
    overwritten_.merge(old_[place->group]);
    current_[place->group].insert(seed);
    if (flash_.Write(*place, seed, payload_bytes) == FrameOutcome::kDone) {
      live_[seed] = {*place, false};
    } else {
      flash_.tier().Free(*place);
    }
  }
  void FreeOne() {
    if (live_.empty()) return;
    const auto victim = std::next(live_.begin(), static_cast<long>(random_() % live_.size()));
    flash_.tier().Free(victim->second.place);
    live_.erase(victim);
  }
  void ReadOne() {
    if (live_.empty()) return;
    const auto copy = std::next(live_.begin(), static_cast<long>(random_() % live_.size()));
    const uint64_t seed = copy->first;
    const FrameOutcome outcome = flash_.Read(copy->second.place, seed, written_[seed]);
    EXPECT_TRUE(outcome == FrameOutcome::kDone || flash_.crashed()) << seed;
  }
  void Flush() {
    std::set<uint64_t> covered;
    for (const auto& [seed, copy] : live_) covered.insert(seed);
    if (!flash_.Flush() || flash_.crashed()) return;
    for (const uint64_t seed : covered) live_[seed].flushed = true;
  }
  bool RetireOne() {
    const std::optional<GroupId> victim = flash_.grouped()->Victim(flash_.HoldNow());
    if (!victim) {
      flash_.Turn();
      return ++tries_ % 50 != 0;
    }
    flash_.grouped()->BeginRetire(*victim);
    std::vector<LiveCopy> live;
    flash_.grouped()->Live(*victim, live);
    for (const LiveCopy& copy : live) {
      EXPECT_EQ(live_.at(copy.entry).place, copy.place);
      live_.erase(copy.entry);
      flash_.tier().Free(copy.place);
    }
    flash_.grouped()->Retire(*victim);
    old_[*victim].merge(current_[*victim]);
    return true;
  }

  SimFlash flash_;
  std::mt19937_64 random_;
  uint64_t seeds_ = 0;
  uint32_t touch_ = 0;
  int tries_ = 0;
  std::map<uint64_t, Copy> live_;
  std::map<uint64_t, uint64_t> written_;  // seed -> payload bytes
  // By group: what was put in its present life, and in earlier ones. No group goes on with a life
  // that began before the tier was opened.
  std::map<GroupId, std::set<uint64_t>> current_;
  std::map<GroupId, std::set<uint64_t>> old_;
  std::set<uint64_t> overwritten_;
};

uint64_t OperationsOf(uint64_t seed, int steps) {
  History history(seed);
  history.Run(steps);
  return history.flash().Operations();
}

TEST(FlashCrashTest, AfterPowerLossAtAnyIoWhatWasFlushedIsThereAndNothingIsWrong) {
  constexpr int kSteps = 150;
  constexpr uint64_t kSeed = 20'240'601;
  SCOPED_TRACE(kSeed);
  const uint64_t operations = OperationsOf(kSeed, kSteps);
  ASSERT_GT(operations, 200u);
  uint64_t found = 0;
  for (uint64_t at = 1; at < operations; at += 3) {
    SCOPED_TRACE(at);
    History history(kSeed);
    history.flash().CrashAfter(at);
    history.Run(kSteps);
    history.flash().PowerOn();
    ASSERT_TRUE(history.Open());
    found += history.live();
    if (HasFailure()) break;
  }
  EXPECT_GT(found, operations);  // the histories were not empty
}

TEST(FlashCrashTest, ManyLivesEachEndedByPowerLoss) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    History history(seed);
    for (int life = 0; life < 12; ++life) {
      history.flash().CrashAfter(20 + random() % 400);
      history.Run(120);
      if (!history.flash().crashed()) history.flash().Crash();
      history.flash().PowerOn();
      if (HasFailure()) return;
    }
    ASSERT_TRUE(history.Open());
    EXPECT_GT(history.live(), 0u);
  }
}

}  // namespace
}  // namespace holdfast::testing
