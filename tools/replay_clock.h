// TraceClock: hold time that a replay moves to the time of the latest request it started.
//
// Its wall clock starts at the machine's, so that a warm directory sees time go on.
//
// Threading: thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "kvstore/clock.h"

namespace holdfast::tools {

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
