// FlashLog: the flash tier, a log of segments on one file or device. It ties the space logic
// (flash_segments.h), the I/O under way (flash_mover.h) and what opening reads (flash_open.h).
// Bytes: docs/format.md.
//
// Threading: as kvstore/tier.h says: Submit from any thread, the rest under the caller's lock.
// Memory: 9 bytes a slot, and of segments being written their summaries.
// Errors: a medium that fails makes Allocate decline for a while that grows; reads go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kvstore/io_engine.h"
#include "kvstore/tiers.h"
#include "tiers/flash_mover.h"
#include "tiers/flash_open.h"
#include "tiers/flash_segments.h"

namespace holdfast::internal {

class FlashLog final : public GroupedTier {
 public:
  FlashLog(std::unique_ptr<IoEngine> io, Clock& clock, std::function<void()> wake,
           FlashTierOptions options, const FlashSegmentsOptions& segments);
  ~FlashLog() override;
  FlashLog(const FlashLog&) = delete;
  FlashLog& operator=(const FlashLog&) = delete;

  Where where() const noexcept override { return Where::kFlash; }
  std::string_view engine() const noexcept override { return io_ ? io_->name() : "none"; }
  TierLimits limits() const noexcept override;
  TierUsage usage() const noexcept override;

  std::optional<Place> Allocate(const Shape& shape) override;
  void Free(Place place) override { segments_.Free(place); }
  void Submit(FrameOp* op) override;
  size_t Poll(std::span<FrameOp*> out) override;
  size_t in_flight() const noexcept override { return in_flight_.load(std::memory_order_acquire); }

  Status Recover(HoldMillis now, const OnRecovered& on_copy) override;
  std::optional<GroupId> Victim(HoldMillis now) override { return segments_.Victim(now); }
  std::optional<GroupId> Expired(HoldMillis now) override { return segments_.Expired(now); }
  void Live(GroupId group, std::vector<LiveCopy>& out) const override {
    segments_.Live(group, out);
  }
  void BeginRetire(GroupId group) override { segments_.BeginRetire(group); }
  void Retire(GroupId group) override { segments_.Retire(group); }
  bool NeedsRoom() const noexcept override { return segments_.NeedsRoom(); }
  void Touched(Place place, uint32_t before, uint32_t now) override {
    segments_.Touched(place, before, now);
  }
  void SetEnd(Place place, HoldMillis deadline) override { segments_.SetEnd(place, deadline); }
  HoldMillis CopyEnd(Place /*place*/) const noexcept override { return kNoDeadline; }
  void Step(Instant now, HoldMillis hold_now) override;
  void RequestFlush() override { flush_requested_ = true; }
  Instant NextStep() const noexcept override;

  // What opening moved and met counts too.
  void CountOpening(const BlockingIo& io);

 private:
  uint64_t OffsetOf(GroupId group) const {
    return SegmentOffset(group, segments_.options().segment_bytes);
  }
  bool trusted(Instant now) const { return now >= distrusted_until_; }
  void Complete(const FlightEnded& ended);
  void CompleteOwn(const FlightEnded& ended);
  void MediumFailed(int error);
  void MediumWorked();
  bool HasOwnWork(const Segment& segment) const;
  void WriteHeader();
  void WriteShape(GroupId group);
  void WriteSummary(GroupId group);
  bool FlushDue(Instant now) const;

  Clock& clock_;
  const FlashTierOptions options_;
  FlashSegments segments_;
  std::vector<FlightEnded> ended_;  // taken from the mover; those from ended_at_ on are to be
  size_t ended_at_ = 0;             // handled
  std::atomic<size_t> in_flight_{0};
  HoldMillis hold_now_ = 0;
  bool recovered_ = false;
  bool flush_requested_ = false;
  bool flushing_ = false;
  uint64_t read_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t faults_ = 0;
  int last_errno_ = 0;
  Duration distrust_{0};  // how long, after the latest fault
  Instant distrusted_until_{};
  bool retry_announced_ = false;  // NextStep names the end of the pause
  FlashMover mover_;
  std::unique_ptr<IoEngine> io_;  // null with bytes off. Goes first: it joins its threads
};

}  // namespace holdfast::internal
