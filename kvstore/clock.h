// The only source of time in the library. Nothing else calls a std::chrono clock or sleeps;
// tools/lint rejects it.
//
// A store has two clocks (environment.h). The hold clock drives deadlines, buckets and expiry; a
// replay runs it on trace time. The run clock drives leases, waits, pacing, flushes and latencies.
#pragma once

#include <chrono>
#include <cstdint>

namespace holdfast {

// Time on one machine since an unspecified origin. Never goes back. Not a date.
using Instant = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
using Duration = std::chrono::nanoseconds;

// A point of hold time: milliseconds since the Unix epoch, as written on media. Inside a process it
// never goes back: the store anchors it once, at open, to the wall clock and the last persisted
// time.
using HoldMillis = int64_t;
inline constexpr HoldMillis kNoDeadline = INT64_MAX;

// Implementations must be thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // For deadlines, latencies and ages. Non-decreasing, also across threads.
  virtual Instant Now() noexcept = 0;

  // For timestamps that outlive the process. May jump either way; never subtract two of them.
  virtual int64_t WallMicrosSinceEpoch() noexcept = 0;

  // Process-lifetime singleton; never deleted.
  static Clock& System() noexcept;
};

// CPU time that the calling thread has used, in nanoseconds. For measurements.
int64_t ThreadCpuNanos() noexcept;

}  // namespace holdfast
