// Opening the flash log: what is read and written while the caller waits. Superblock at creation of
// the tier; segments, summaries and slots at Recover.
//
// Threading: thread-compatible. Memory: some MiB while it runs. Errors: see each function.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/io_engine.h"
#include "kvstore/mutex.h"
#include "kvstore/status.h"
#include "kvstore/tier.h"
#include "kvstore/tiers.h"
#include "tiers/flash_segments.h"

namespace holdfast::internal {

// Runs requests and waits for them.
class BlockingIo {
 public:
  struct Job {
    IoKind kind = IoKind::kRead;
    uint64_t offset_bytes = 0;
    Extent piece{};
    int error = 0;
  };

  // `idle`: see FlashTierOptions.
  BlockingIo(IoEngine& engine, const std::function<void()>& idle) : engine_(engine), idle_(idle) {}

  void Run(std::span<Job> jobs);
  int Run(Job job);  // its error
  uint64_t read_bytes() const { return read_bytes_; }
  uint64_t written_bytes() const { return written_bytes_; }
  uint64_t faults() const { return faults_; }
  int last_errno() const { return last_errno_; }

 private:
  static void OnDone(IoRequest* request);

  IoEngine& engine_;
  const std::function<void()>& idle_;
  Mutex mutex_;
  CondVar changed_;
  size_t left_ HF_GUARDED_BY(mutex_) = 0;
  uint64_t read_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t faults_ = 0;
  int last_errno_ = 0;
};

// Reads the superblock, or creates it on a medium that has none, and counts this opening in both
// copies, which also mends a bad one.
//   kDataLoss            neither copy is good, and something was there
//   kFailedPrecondition  a newer format, or another store's
//   kInvalidArgument     too small for four segments
//   kIoError             the medium failed
Result<FlashSuperblock> OpenSuperblock(BlockingIo& io, uint64_t capacity_bytes,
                                       const FlashTierOptions& options);

// Finds the copies on the medium and gives those that `on_copy` wants to `segments`. A segment
// whose summary holds costs three pages and its summary; another is looked at slot by slot.
void RecoverSegments(BlockingIo& io, FlashSegments& segments, Instant now,
                     const GroupedTier::OnRecovered& on_copy);

// Where a segment begins.
constexpr uint64_t SegmentOffset(uint64_t segment, uint64_t segment_bytes) {
  return kSegmentsOffset + segment * segment_bytes;
}

}  // namespace holdfast::internal
