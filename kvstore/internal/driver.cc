// The driver: applies completions, starts spills and promotions, expires. A function before it is a
// thread. It never touches a payload byte and waits at one place.
#include <algorithm>
#include <array>
#include <string>
#include <system_error>

#include "kvstore/check.h"
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

constexpr Duration kIdle = std::chrono::milliseconds(100);
constexpr Duration kFencePoll = std::chrono::microseconds(50);
constexpr int64_t kFailingMillis = 5'000;  // a tier that failed is not waited for this long
constexpr Duration kSaidAgain = std::chrono::minutes(1);  // without a fault

// Said when a tier fails, and not again while it goes on failing.
std::string FaultLine(Where tier, int os_errno) {
  return std::string(ToString(tier)) + ": " +
         (os_errno != 0 ? std::generic_category().message(os_errno) : "records that are damaged") +
         "; what it cannot keep or give is a miss, and it is tried again";
}

}  // namespace

void Core::DriverMain() {
  while (!stop_.load(std::memory_order_acquire)) {
    if (!Step()) waiter_->Wait(NextWake());
  }
}

bool Core::Step() {
  if (Forked()) return false;
  const Instant now = run_clock_->Now();
  const HoldMillis hold_now = HoldNow();
  bool did = PollTiers();
  did = MetaDone() || did;
  did = RunFenced() || did;
  if (!environment_.driver_thread) {
    while (jobs_.RunOne()) did = true;
  }
  did = RunTimers(now) || did;
  did = EndLeases(now) || did;
  did = RunExpiry(hold_now) || did;
  did = SweepDeadRoots() || did;
  if (!closed_.load(std::memory_order_acquire)) {
    did = RunReclaims(hold_now) || did;
    did = StartMoves() || did;
  }
  did = RetryPuts(now) || did;
  did = StepTiers(now, hold_now) || did;
  did = SyncMeta(hold_now) || did;
  return did;
}

void Core::RunInline() {
  {
    Section section(*this);
    if (!step_wanted_) return;
  }
  // Turns until one finds nothing to do; what then still waits, waits for a device or a clock,
  // whatever the last turn wished for.
  while (Step()) {
  }
  Section section(*this);
  step_wanted_ = false;
}

Instant Core::NextWake() {
  Section section(*this);
  const Instant now = run_clock_->Now();
  Instant next = now + kIdle;
  if (!fenced_.empty()) next = now + kFencePoll;
  if (!parked_.empty()) next = std::min(next, parked_.front()->give_up);
  if (!leases_.empty()) next = std::min(next, leases_.front()->until);
  if (fetching_ == 0 && now - last_load_ < options_.fetch_quiet) {
    next = std::min(next, last_load_ + options_.fetch_quiet);
  }
  if (options_.pause_spills_for_fetches && now - last_load_ < options_.fetch_quiet) {
    next = std::min(next, now + kPausedSpillEvery);
  }
  for (int t : {int{kFlash}, int{kDisk}}) {
    if (tiers_[t] != nullptr) next = std::min(next, ledger_.grouped(t)->NextStep());
  }
  return std::max(next, now + std::chrono::microseconds(20));
}

bool Core::PollTiers() {
  bool did = false;
  {
    // Puts without ddr wait for room that a tier prepares or gives back at its own time.
    Section section(*this);
    if (tier_woke_.exchange(false, std::memory_order_acq_rel)) room_changed_ = true;
    for (int t : {int{kFlash}, int{kDisk}}) {
      // Not by the ledger: it knows no tier yet when an opening fails.
      auto* tier = static_cast<GroupedTier*>(tiers_[t].get());
      if (tier != nullptr && tier->NextStep() <= run_clock_->Now()) room_changed_ = true;
    }
  }
  for (int t = 0; t < kTiers; ++t) {
    if (tiers_[t] == nullptr) continue;
    std::array<FrameOp*, 64> done{};
    for (;;) {
      Section section(*this);
      const size_t n = tiers_[t]->Poll(done);
      for (size_t i = 0; i < n; ++i) {
        auto* transfer = reinterpret_cast<Transfer*>(done[i]->tag);
        --transfers_;
        switch (transfer->kind) {
          case Transfer::Kind::kLoad:
            OnLoad(std::unique_ptr<Load>(static_cast<Load*>(transfer)));
            break;
          case Transfer::Kind::kMove:
            OnMove(std::unique_ptr<Move>(static_cast<Move*>(transfer)));
            break;
          case Transfer::Kind::kDirectPut:
            OnDirectPut(std::unique_ptr<DirectPut>(static_cast<DirectPut*>(transfer)));
            break;
        }
      }
      did = did || n > 0;
      if (n < done.size()) break;
    }
  }
  return did;
}

bool Core::RunExpiry(HoldMillis now) {
  Section section(*this);
  bool did = false;
  for (size_t i = 0; i < kBlocksPerLock; ++i) {
    const EntryId id = ledger_.holds.Expired(now);
    if (id == kNoEntry) break;
    // An arriving block keeps its entry until its put is over; it is not served either way.
    if (ledger_.index[id].putting) break;
    ledger_.Remove(id, Why::kExpired);
    did = room_changed_ = true;
  }
  return did;
}

bool Core::StepTiers(Instant now, HoldMillis hold_now) {
  bool did = false;
  for (int t : {int{kFlash}, int{kDisk}}) {
    if (tiers_[t] == nullptr) continue;
    std::string line;
    {
      Section section(*this);
      const uint64_t before = tiers_[t]->usage().groups_free;
      ledger_.grouped(t)->Step(now, hold_now);
      const TierUsage usage = tiers_[t]->usage();
      did = did || usage.groups_free != before;
      if (usage.faults != tier_faults_[t]) {
        const bool first = tier_faults_[t] == 0;
        if (first || now >= tier_failing_until_[t] + kSaidAgain) {
          line = FaultLine(ToWhere(t), usage.last_errno);
        }
        tier_faults_[t] = usage.faults;
        tier_failing_until_[t] = now + std::chrono::milliseconds(kFailingMillis);
      }
      tier_failing_[t] = now < tier_failing_until_[t] ? 1 : 0;
    }
    if (!line.empty()) Log(LogLevel::kError, line);
  }
  return did;
}

}  // namespace holdfast::internal
