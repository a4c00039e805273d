// SimFlash: a flash tier over a simulated disk and a virtual clock, for its contract and its tests.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kvstore/check.h"
#include "kvstore/tiers.h"
#include "tests/testing/sim_disk_image.h"
#include "tests/testing/sim_io_engine.h"
#include "tests/testing/test_frame.h"
#include "tests/testing/virtual_clock.h"

namespace holdfast::testing {

class SimFlash {
 public:
  SimFlash(uint64_t capacity_bytes, FlashTierOptions options, uint64_t seed = 1)
      : image_(capacity_bytes), options_(std::move(options)), seed_(seed) {
    options_.path = "sim";
    options_.idle = [this] { LetTimePass(); };
  }

  // Opens over what the image holds; Recover is the test's.
  Status Open() {
    tier_.reset();
    auto engine = std::make_unique<SimIoEngine>(clock_, image_, SimIoOptions{.seed = seed_++});
    engine_ = engine.get();
    for (const SimFault& fault : std::exchange(faults_at_open_, {})) engine_->Plan(fault);
    auto tier = CreateFlashTier(
        std::move(engine), clock_, [this] { ++wakes_; }, options_);
    if (!tier.has_value()) {
      engine_ = nullptr;
      return std::move(tier).error();
    }
    tier_ = *std::move(tier);
    return {};
  }
  // And forgets what it holds.
  Status OpenEmpty() {
    HF_RETURN_IF_ERROR(Open());
    return tier_->Recover(HoldNow(), [](const RecoveredCopy&) { return std::nullopt; });
  }
  void PlanAtOpen(const SimFault& fault) { faults_at_open_.push_back(fault); }
  // Power loss now, or after so many more I/Os have begun.
  void Crash() {
    crashed_ = true;
    engine_->Crash();
  }
  void PowerOn() {
    crashed_ = false;
    crash_at_ = UINT64_MAX;
  }
  void CrashAfter(uint64_t operations) { crash_at_ = operations; }  // of the engine opened next
  bool crashed() const { return crashed_; }
  uint64_t Operations() const {
    return engine_ == nullptr
               ? 0
               : engine_->operations(IoKind::kRead) + engine_->operations(IoKind::kWrite) +
                     engine_->operations(IoKind::kSync);
  }

  void LetTimePass() {
    if (engine_ == nullptr) return;
    if (!crashed_ && Operations() >= crash_at_) {
      crashed_ = true;
      engine_->Crash();
    }
    const std::optional<Instant> due = engine_->next_due();
    if (due) {
      clock_.AdvanceTo(*due);
    } else {
      clock_.Advance(std::chrono::milliseconds(1));
    }
  }

  // What a store's driver does in one turn; ops that ended are counted only.
  void Turn() {
    LetTimePass();
    Collect();
  }
  void Collect() {
    FrameOp* out[8];
    while (tier_->Poll(out) == std::size(out)) {
    }
    tier_->Step(clock_.Now(), HoldNow());
  }
  std::optional<Place> Allocate(const Shape& shape) {
    std::optional<Place> place = tier_->Allocate(shape);
    for (int turn = 0; turn < 20 && !place; ++turn) {
      Turn();
      place = tier_->Allocate(shape);
    }
    return place;
  }
  FrameOutcome Run(FrameOp& op) {
    tier_->Submit(&op);
    while (tier_->in_flight() > 0) Turn();
    return op.outcome;
  }
  FrameOutcome Write(Place place, uint64_t seed, uint64_t payload_bytes,
                     HoldMillis deadline = kNoDeadline) {
    TestFrame frame(seed, payload_bytes);
    frame.header().placement.deadline_ms = deadline;
    FrameOp op{.kind = FrameOpKind::kWrite,
               .place = place,
               .header = &frame.header(),
               .payload = frame.extents()};
    const FrameOutcome outcome = Run(op);
    last_op_ = op;
    return outcome;
  }
  // kDone only with the bytes of `seed`.
  FrameOutcome Read(Place place, uint64_t seed, uint64_t payload_bytes) {
    TestFrame target(0, payload_bytes);
    FrameOp op{.kind = FrameOpKind::kRead,
               .place = place,
               .header = &target.header(),
               .payload = target.extents(),
               .expect = TestFrame(seed, payload_bytes).expect()};
    const FrameOutcome outcome = Run(op);
    last_op_ = op;
    HF_CHECK(outcome != FrameOutcome::kDone || target.Holds(seed, 0, payload_bytes));
    return outcome;
  }
  const FrameOp& last_op() const { return last_op_; }
  // Allocates and writes; nullopt when there is no space or the medium failed.
  std::optional<Place> Put(uint64_t seed, uint64_t payload_bytes, uint8_t hold_class = 1,
                           HoldMillis deadline = kNoDeadline) {
    const std::optional<Place> place = Allocate({.payload_bytes = payload_bytes,
                                                 .hold_class = hold_class,
                                                 .deadline = deadline,
                                                 .entry = static_cast<EntryId>(seed),
                                                 .touched = static_cast<uint32_t>(seed)});
    if (!place) return std::nullopt;
    if (Write(*place, seed, payload_bytes, deadline) == FrameOutcome::kDone) return place;
    tier_->Free(*place);
    return std::nullopt;
  }
  bool Flush() {
    tier_->RequestFlush();
    for (int turn = 0; turn < 50 && tier_->usage().undurable_bytes > 0; ++turn) Turn();
    return tier_->usage().undurable_bytes == 0;
  }
  // Until nothing is under way any more.
  void Settle() {
    for (int turn = 0; turn < 20; ++turn) Turn();
  }
  // Seed -> place of every copy that Recover reports; all are accepted, as entry = seed.
  std::map<uint64_t, Place> RecoverAll() {
    std::map<uint64_t, Place> found;
    const Status status =
        tier_->Recover(HoldNow(), [&found](const RecoveredCopy& copy) -> std::optional<EntryId> {
          const uint64_t seed = copy.placement.write_id;
          HF_CHECK(copy.fixed->key == TestFrame(seed, 1).key());
          HF_CHECK(found.try_emplace(seed, copy.place).second);
          return static_cast<EntryId>(seed);
        });
    HF_CHECK(status.ok());
    return found;
  }

  Tier& tier() { return *tier_; }
  GroupedTier* grouped() { return tier_.get(); }
  HoldMillis HoldNow() const { return 1'000'000; }

  VirtualClock& clock() { return clock_; }
  SimDiskImage& image() { return image_; }
  const SimDiskImage& image() const { return image_; }
  SimIoEngine& engine() { return *engine_; }
  FlashTierOptions& options() { return options_; }
  uint64_t wakes() const { return wakes_; }

 private:
  VirtualClock clock_;
  SimDiskImage image_;
  FlashTierOptions options_;
  uint64_t seed_;
  uint64_t wakes_ = 0;
  uint64_t crash_at_ = UINT64_MAX;
  bool crashed_ = false;
  std::vector<SimFault> faults_at_open_;
  SimIoEngine* engine_ = nullptr;
  FrameOp last_op_;
  std::unique_ptr<GroupedTier> tier_;  // owns the engine
};

}  // namespace holdfast::testing
