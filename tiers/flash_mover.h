// FlashMover: the I/O of the flash log on its way. It turns frame operations and the log's own
// pages into requests of an engine, verifies what was read on the thread that read it, and keeps
// what ended until the log takes it.
//
// Threading: thread-safe; `wake` runs on the engine's threads. Memory: a flight, its pages and its
// pieces live until Recycle. Errors: of the medium, in Ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/io_engine.h"
#include "kvstore/mutex.h"
#include "kvstore/tier.h"
#include "tiers/flash_format.h"

namespace holdfast::internal {

enum class FlightKind : uint8_t { kFrame, kHeader, kShape, kSummary, kFlush };

// Something that ended: a frame operation (`op` set), or one of the log's own.
struct FlightEnded {
  FrameOp* op = nullptr;
  FlightKind kind = FlightKind::kFrame;
  GroupId group = 0;
  int error = 0;
  uint64_t bytes = 0;  // moved on the medium
};

class FlashMover {
 public:
  // `engine` null: every frame operation ends at once, as done.
  FlashMover(IoEngine* engine, Clock& clock, std::function<void()> wake)
      : engine_(engine), clock_(clock), wake_(std::move(wake)) {}

  // The frame lies at `offset_bytes`. Of a read, op->expect is complete.
  void Submit(FrameOp* op, uint64_t offset_bytes);
  // Ends without I/O, as it is.
  void EndNow(FrameOp* op, uint64_t bytes);
  void WritePages(FlightKind kind, GroupId group, uint64_t offset_bytes, Extent pages, Pages keep);
  void Flush();

  // Replaces `out` by what ended since.
  void Take(std::vector<FlightEnded>& out);

 private:
  struct Flight {
    FlashMover* mover = nullptr;
    FlightEnded ended;
    IoRequest requests[2];
    std::vector<Extent> pieces;
    Pages keep;
    std::atomic<int> parts{0};
    std::atomic<int> error{0};
  };

  Flight* NewFlight();
  void Start(Flight* flight, IoKind kind, size_t requests);
  static void OnDone(IoRequest* request);
  void EndFrame(FrameOp* op, int error);
  void End(const FlightEnded& ended, Flight* flight);

  IoEngine* engine_;
  Clock& clock_;
  const std::function<void()> wake_;
  Mutex mutex_;
  std::vector<FlightEnded> ended_ HF_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Flight>> flights_ HF_GUARDED_BY(mutex_);  // all ever made
  std::vector<Flight*> idle_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::internal
