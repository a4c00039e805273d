// SimFlash: a flash tier over a simulated disk and a virtual clock, for its contract and its tests.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "kvstore/check.h"
#include "kvstore/tiers.h"
#include "tests/testing/sim_disk_image.h"
#include "tests/testing/sim_io_engine.h"
#include "tests/testing/tier_contract.h"
#include "tests/testing/virtual_clock.h"

namespace holdfast::testing {

class SimFlash final : public TierUnderTest {
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
  void Crash() { engine_->Crash(); }
  void CrashAfter(uint64_t operations) { crash_at_ = Operations() + operations; }
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

  Tier& tier() override { return *tier_; }
  GroupedTier* grouped() override { return tier_.get(); }
  void Wait() override { LetTimePass(); }
  void Reopen() override { HF_CHECK(Open().ok()); }
  Instant Now() override { return clock_.Now(); }

  VirtualClock& clock() { return clock_; }
  SimDiskImage& image() { return image_; }
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
  std::unique_ptr<GroupedTier> tier_;  // owns the engine
};

}  // namespace holdfast::testing
