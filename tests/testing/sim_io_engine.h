// SimIoEngine: an I/O engine over a SimDiskImage and a VirtualClock, without threads. Same seed and
// same calls give the same bytes, the same order of completions and the same faults.
//
//   SimDiskImage image(1 << 20);
//   SimIoEngine engine(clock, image, {.seed = seed});
//   engine.Plan({.kind = IoKind::kRead, .nth = 3, .error = EIO});  // the third read from now
//   engine.Submit(&request);
//   while (engine.in_flight() > 0) { clock.AdvanceTo(*engine.next_due());  engine.Poll(); }
//
// Requests take the way of the real engines (IoTransfer): a fault hits one device operation, and a
// short one is continued.
//
// Threading: thread-confined, with the clock. Memory: clock and image outlive the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/io_engine.h"
#include "tests/testing/sim_disk_image.h"
#include "tests/testing/virtual_clock.h"
#include "tiers/io_transfer.h"

namespace holdfast::testing {

struct SimIoOptions {
  uint64_t seed = 1;
  Duration latency_min = std::chrono::microseconds(80);
  Duration latency_max = std::chrono::microseconds(200);
  bool reorder = true;  // off: operations end in the order in which they began
  uint32_t depth = 64;  // operations on the device; the rest waits
  bool direct = true;   // insists on alignment
};

// What happens to one device operation, or to several one after the other.
struct SimFault {
  IoKind kind = IoKind::kRead;
  uint64_t nth = 1;    // counted from the plan, per kind, retries and continuations too
  uint64_t times = 1;  // from the nth on
  int error = 0;       // ends with it; a write that fails leaves its range torn
  std::optional<uint64_t> short_bytes;  // moves at most this much
  int64_t misdirect_bytes = 0;          // goes to a place this far off, and says success
  Duration stall{};                     // takes this much longer
};

class SimIoEngine final : public IoEngine {
 public:
  SimIoEngine(VirtualClock& clock, SimDiskImage& image, SimIoOptions options = {})
      : clock_(clock),
        image_(image),
        options_(options),
        limits_{image.capacity_bytes(), options.direct},
        random_(options.seed) {}
  ~SimIoEngine() override;  // completes what is in flight, whatever the clock says
  SimIoEngine(const SimIoEngine&) = delete;
  SimIoEngine& operator=(const SimIoEngine&) = delete;

  std::string_view name() const noexcept override { return "sim"; }
  void Submit(IoRequest* request) override;
  size_t Poll() override;  // returns the number of requests that were done
  size_t in_flight() const noexcept override { return in_flight_; }
  uint64_t capacity_bytes() const noexcept override { return limits_.capacity_bytes; }
  size_t pieces_max() const noexcept override { return internal::kIoPiecesMax; }
  bool direct() const noexcept override { return limits_.direct; }

  // When the next completion is due; nothing when idle.
  std::optional<Instant> next_due() const;
  // Device operations begun so far: the n to fail next, each in turn.
  uint64_t operations(IoKind kind) const noexcept { return operations_[Index(kind)]; }

  void Plan(const SimFault& fault);
  // Power loss. What is in flight reaches the disk in part or not at all; then the image crashes.
  // The engine is dead from here on: what was in flight and what comes later ends in ENODEV, at the
  // next Poll, so that its client can be taken down.
  void Crash();

 private:
  struct Operation {
    internal::IoTransfer transfer;
    SimFault fault;
    Instant due;
    uint64_t number = 0;          // breaks ties
    uint64_t writes_at_sync = 0;  // a sync covers what had completed when it began
  };
  struct PlannedFault {
    SimFault fault;
    uint64_t first;  // of operations_[kind]
  };

  static size_t Index(IoKind kind) { return static_cast<size_t>(kind); }
  size_t CompleteUntil(Instant until);
  void Begin(std::unique_ptr<Operation> operation, Instant at);
  void BeginWaiting(Instant at);
  SimFault FaultOf(IoKind kind, uint64_t number) const;
  int64_t Perform(Operation& operation);
  int64_t Move(Operation& operation);
  std::unique_ptr<Operation> TakeEarliest();

  VirtualClock& clock_;
  SimDiskImage& image_;
  const SimIoOptions options_;
  const internal::IoLimits limits_;
  std::mt19937_64 random_;
  std::deque<std::unique_ptr<Operation>> waiting_;  // for the device
  std::vector<std::unique_ptr<Operation>> begun_;
  std::vector<PlannedFault> planned_;
  uint64_t operations_[3] = {};
  uint64_t numbers_ = 0;
  size_t in_flight_ = 0;
  Instant last_due_{};
  bool crashed_ = false;
};

}  // namespace holdfast::testing
