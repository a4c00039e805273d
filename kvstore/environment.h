// Environment: what a store takes from the world around it: two clocks, threads, randomness,
// devices and media. The system's are the default; tests and replays replace them.
//
// Threading: what is handed over must be thread-safe. Memory: clocks, device and functions outlive
// the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kvstore/clock.h"
#include "kvstore/device.h"
#include "kvstore/io_engine.h"
#include "kvstore/tiers.h"

namespace holdfast {

enum class LogLevel : uint8_t { kInfo, kWarning, kError };

struct Environment {
  Clock* hold_clock = nullptr;  // deadlines, buckets, expiry; null: Clock::System()
  Clock* run_clock = nullptr;   // leases, waits, pacing, flushes, latencies; null: Clock::System()

  // Starts a thread that blocks all signals and bears the name; answers its join. Null: the
  // system's.
  StartThread start_thread;
  // False: no driver thread. The store then moves only inside its verbs and Store::Step, on the
  // thread of the caller; verbs that wait run Step until they are done. For simulation and replay
  // without bytes.
  bool driver_thread = true;
  // Without a driver thread: called where a verb would wait, instead of waiting; lets time pass to
  // `until` of the run clock at the latest. For clocks that do not run by themselves. Null: waits.
  std::function<void(Instant until)> idle;

  uint64_t random_seed = 0;  // of choices that need no secrecy; 0: from the system

  Device* device = nullptr;  // of the hbm tier; null: the host device
  // Null: OpenIoEngine and OpenDiskTier.
  std::function<Result<std::unique_ptr<IoEngine>>(const IoEngineOptions&, std::string* note)>
      open_io;
  std::function<Result<DiskTier>(Clock& run_clock, std::function<void()> wake, DiskTierOptions)>
      open_disk;

  // One line, without a line end. Null: nothing is printed. Called from any thread, never under a
  // lock.
  std::function<void(LogLevel, std::string_view line)> log;
};

// The system's way to start a thread: all signals blocked, named (first 15 characters), joined by
// the returned function, which is called exactly once. An empty one: the system has no thread for
// us, and the body never runs.
StartThread SystemThreads();

}  // namespace holdfast
