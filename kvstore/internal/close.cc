// Drain and close.
#include <algorithm>
#include <functional>
#include <utility>

#include <sys/file.h>
#include <unistd.h>

#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

constexpr Duration kCloseBound = std::chrono::seconds(2);
constexpr int kDrainStallsMax = 3;  // rounds that left as much as one before

}  // namespace

// What is dirty under granted holds, longest deadline first. `persist`: deadlines are written, too,
// the exact ones, not those of the last step that was persisted.
std::vector<EntryId> Core::DirtyHeld(bool persist) {
  std::vector<std::pair<HoldMillis, EntryId>> dirty;
  for (EntryId begin = 0;; begin += kBlocksPerLock) {
    Section section(*this);
    const HoldMillis now = HoldNow();
    const EntryId end = std::min<EntryId>(begin + kBlocksPerLock, ledger_.index.ids_end());
    for (EntryId id = begin; id < end; ++id) {
      const Entry& e = ledger_.index[id];
      if (!e.in_use || e.hold_class == 0 || e.deadline <= now) continue;
      if (persist && persistent_) ledger_.moved_deadlines.push_back(id);
      if (e.charged_class == 0 || e.live_below(kDdr) || e.nearest() < 0) continue;
      if (e.nearest() > kDdr) continue;  // a rewrite of it is under way
      dirty.emplace_back(e.deadline, id);
    }
    if (end == ledger_.index.ids_end()) break;
  }
  std::sort(dirty.begin(), dirty.end(), std::greater<>());
  std::vector<EntryId> ids;
  ids.reserve(dirty.size());
  for (const auto& [deadline, id] : dirty) ids.push_back(id);
  return ids;
}

Status Core::Drain(Instant until) {
  HF_RETURN_IF_ERROR(CheckAlive());
  const bool below = tiers_[kFlash] != nullptr || tiers_[kDisk] != nullptr;
  size_t left = 0;
  size_t least = SIZE_MAX;
  int stalls = 0;
  for (bool first = true;; first = false) {
    const std::vector<EntryId> dirty = DirtyHeld(/*persist=*/first);
    left = dirty.size();
    // Where a tier is too small, what is written takes the place of what was.
    if (left >= least && ++stalls == kDrainStallsMax) break;
    least = std::min(least, left);
    if (left == 0 || !below || run_clock_->Now() >= until) break;
    {
      Section section(*this);
      draining_.assign(dirty.begin(), dirty.end());
      step_wanted_ = outbox_.ring = true;
    }
    // Late, the next round counts what is left.
    WaitFor(
        [&] {
          MutexLock lock(mutex_);
          return draining_.empty() && paced_[kFlash].moves + paced_[kDisk].moves == 0;
        },
        until, "drain")
        .IgnoreError("counted above");
  }
  if (left > 0) {
    Section section(*this);
    draining_.clear();
    const bool late = run_clock_->Now() >= until;
    return {late ? StatusCode::kDeadlineExceeded : StatusCode::kResourceExhausted,
            "drain: " + std::to_string(left) + " blocks under a granted hold were not written: " +
                (late ? "time was up" : "no room below ddr")};
  }
  return WaitFor(
      [&] {
        Section section(*this);
        uint64_t undurable = meta_waiting_ + ledger_.moved_deadlines.size();
        for (int t : {int{kFlash}, int{kDisk}}) {
          if (tiers_[t] == nullptr) continue;
          const uint64_t bytes = tiers_[t]->usage().undurable_bytes;
          // Again each time: what was still being written is not part of an earlier flush.
          if (bytes > 0) ledger_.grouped(t)->RequestFlush();
          undurable += bytes;
        }
        outbox_.ring = undurable > 0;
        return undurable == 0;
      },
      until, "drain: flush");
}

Status Core::Close(Instant until) {
  if (Forked()) return CheckAlive();
  if (closed_.exchange(true)) return {};
  {
    Section section(*this);
    fenced_.clear();
    parked_.clear();
    starved_.clear();
    std::vector<OperationPtr> all;
    for (const auto& [id, op] : operations_) all.push_back(op);
    for (const OperationPtr& op : all) {
      if (op->kind == Operation::Kind::kMeta) continue;
      op->parked = false;
      CutFrom(op, 0, Item::kCancelled);
      CompleteIfOver(op);
    }
    outbox_.ring = true;
  }
  const Instant bound = std::min(until, run_clock_->Now() + kCloseBound);
  const bool runs = !environment_.driver_thread || !driver_.empty();
  Status quiet;
  if (runs) {
    const auto over = [&] {
      MutexLock lock(mutex_);
      return operations_.empty() && transfers_ == 0 && meta_waiting_ == 0;
    };
    quiet = WaitFor(over, bound, "close");
  }
  stop_.store(true, std::memory_order_release);
  waiter_->Ring();
  driver_.Join();
  jobs_.Stop();
  // What a device has begun ends with the device; its memory is the store's until then.
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (transfers_ == 0) break;
    }
    if (!PollTiers() && !jobs_.RunOne()) Idle(Instant::max());
  }
  while (jobs_.RunOne()) {
  }
  PollTiers();
  MetaDone();
  for (auto& tier : tiers_) tier.reset();
  meta_.reset();
  MetaDone();
  if (lock_fd_ >= 0) {
    flock(lock_fd_, LOCK_UN);  // a child after fork() has the descriptor too
    close(lock_fd_);
  }
  lock_fd_ = -1;
  return quiet;
}

}  // namespace holdfast::internal
