// TraceClock: hold time that a replay moves to the time of the latest request it started.
//
// It counts up to kTraceSpanMsMax. Its wall clock starts at the machine's, so that a warm directory
// sees time go on.
//
// Threading: thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "kvstore/clock.h"

namespace holdfast::tools {

// When a request at `trace_ms` starts in a replay at `speed` times the trace's; Instant::max()
// where no clock counts that far.
inline Instant StartOfRequest(Instant start, int64_t trace_ms, double speed) {
  const double nanos = static_cast<double>(trace_ms) * 1e6 / speed;
  const Duration left = Instant::max() - std::max(start, Instant());
  if (!(nanos < static_cast<double>(left.count()))) return Instant::max();
  return start + Duration(static_cast<int64_t>(nanos));
}

class TraceClock final : public Clock {
 public:
  explicit TraceClock(int64_t wall_start_us) : wall_start_us_(wall_start_us) {}

  Instant Now() noexcept override { return Instant(std::chrono::milliseconds(Millis())); }
  int64_t WallMicrosSinceEpoch() noexcept override { return wall_start_us_ + Millis() * 1000; }

  // Time never goes back: an earlier one than the latest changes nothing.
  void AdvanceTo(int64_t trace_ms) noexcept {
    int64_t now = trace_ms_.load(std::memory_order_relaxed);
    while (now < trace_ms && !trace_ms_.compare_exchange_weak(now, trace_ms)) {
    }
  }

 private:
  int64_t Millis() const noexcept { return trace_ms_.load(std::memory_order_relaxed); }

  const int64_t wall_start_us_;
  std::atomic<int64_t> trace_ms_ = 0;
};

}  // namespace holdfast::tools
