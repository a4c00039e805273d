#include "tiers/flash_log.h"

#include <algorithm>
#include <utility>

#include "kvstore/check.h"

namespace holdfast::internal {
namespace {

constexpr Duration kDistrustLeast = std::chrono::milliseconds(100);
constexpr Duration kDistrustMost = std::chrono::seconds(10);

uint64_t SumOf(std::span<const Extent> extents) {
  uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.bytes;
  return bytes;
}

}  // namespace

FlashLog::FlashLog(std::unique_ptr<IoEngine> io, Clock& clock, std::function<void()> wake,
                   FlashTierOptions options, const FlashSegmentsOptions& segments)
    : clock_(clock),
      options_(std::move(options)),
      segments_(segments),
      recovered_(!segments.bytes),
      mover_(
          io.get(), clock, wake ? std::move(wake) : [] {}),
      io_(std::move(io)) {}

FlashLog::~FlashLog() { HF_CHECK(in_flight() == 0); }

TierLimits FlashLog::limits() const noexcept {
  const FlashSegmentsOptions& segments = segments_.options();
  TierLimits limits;
  limits.capacity_bytes = segments.count * segments.segment_bytes;
  limits.frame_bytes_max = segments.segment_bytes - kSlotsOffset - kPageBytes;
  if (io_ != nullptr) {
    limits.alignment = io_->direct() ? kPageBytes : 1;
    limits.extents_max = io_->pieces_max() - 1;  // the header is one
  }
  return limits;
}

TierUsage FlashLog::usage() const noexcept {
  TierUsage usage;
  segments_.AddUsage(usage);
  usage.read_bytes = read_bytes_;
  usage.written_bytes = written_bytes_;
  usage.faults = faults_;
  usage.last_errno = last_errno_;
  return usage;
}

std::optional<Place> FlashLog::Allocate(const Shape& shape) {
  HF_CHECK(recovered_);
  if (distrust_ != Duration{0} && !trusted(clock_.Now())) return std::nullopt;
  return segments_.Allocate(shape);
}

void FlashLog::Submit(FrameOp* op) {
  Segment& segment = segments_.at(op->place.group);
  const bool write = op->kind == FrameOpKind::kWrite;
  const uint64_t stride_bytes = segment.stride_bytes.load(std::memory_order_relaxed);
  const uint64_t epoch = segment.epoch.load(std::memory_order_relaxed);
  segment.ops.fetch_add(1, std::memory_order_relaxed);
  if (write) segment.writes.fetch_add(1, std::memory_order_relaxed);
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  op->outcome = FrameOutcome::kDone;
  op->fault = FrameFault::kNone;
  op->os_errno = 0;
  op->submitted = clock_.Now();
  if (io_ == nullptr) return mover_.EndNow(op, stride_bytes);
  if (write) {
    const uint64_t payload_bytes = op->header->fixed.payload_bytes;
    const uint64_t sum = SumOf(op->payload);
    HF_CHECK(FrameBytes(payload_bytes) == stride_bytes && op->offset == 0);
    HF_CHECK(kPageBytes + sum == stride_bytes || (!io_->direct() && sum == payload_bytes));
    op->header->placement.epoch = epoch;
    op->header->placement.slot = op->place.slot;
    SealPlacement(*op->header);
  } else {
    op->expect.epoch = epoch;
    op->expect.slot = op->place.slot;
    if (FrameBytes(op->expect.payload_bytes) != stride_bytes) {
      op->outcome = FrameOutcome::kCorrupt;
      op->fault = FrameFault::kIdentity;
      return mover_.EndNow(op, 0);
    }
    HF_CHECK(kPageBytes + op->offset + SumOf(op->payload) <= stride_bytes);
  }
  mover_.Submit(op, OffsetOf(op->place.group) + kSlotsOffset + op->place.slot * stride_bytes);
}

size_t FlashLog::Poll(std::span<FrameOp*> out) {
  if (io_ != nullptr) io_->Poll();
  size_t n = 0;
  for (;;) {
    for (; ended_at_ < ended_.size(); ++ended_at_) {
      const FlightEnded& ended = ended_[ended_at_];
      if (ended.op == nullptr) {
        CompleteOwn(ended);
        continue;
      }
      if (n == out.size()) return n;
      Complete(ended);
      out[n++] = ended.op;
    }
    ended_at_ = 0;
    mover_.Take(ended_);
    if (ended_.empty()) return n;
  }
}

void FlashLog::Complete(const FlightEnded& ended) {
  const FrameOp& op = *ended.op;
  const bool write = op.kind == FrameOpKind::kWrite;
  in_flight_.fetch_sub(1, std::memory_order_release);
  if (op.outcome == FrameOutcome::kFailed) {
    if (write) {
      segments_.WriteFailed(op.place);
      MediumFailed(op.os_errno);
    } else {
      ++faults_;
      last_errno_ = op.os_errno;
    }
  } else if (write) {
    written_bytes_ += ended.bytes;
    segments_.Written(op.place, op.header, op.finished);
    MediumWorked();
  } else {
    read_bytes_ += ended.bytes;
  }
  segments_.OpEnded(op.place, write);
}

void FlashLog::CompleteOwn(const FlightEnded& ended) {
  const bool ok = ended.error == 0;
  if (ok) {
    written_bytes_ += ended.bytes;
    MediumWorked();
  } else {
    MediumFailed(ended.error);
  }
  switch (ended.kind) {
    case FlightKind::kHeader:
      return segments_.EndPreparing(ended.group, ok);
    case FlightKind::kShape:
      segments_.at(ended.group).shape_written = ok;
      segments_.at(ended.group).shape_needed = !ok;
      return;
    case FlightKind::kSummary:
      return segments_.EndSummary(ended.group, ok);
    case FlightKind::kFlush:
      flushing_ = false;
      return segments_.EndFlush(ok);
    case FlightKind::kFrame:
      return;
  }
}

// What could not be written is not tried again before the pause is over; each failure after a pause
// doubles it.
void FlashLog::MediumFailed(int error) {
  ++faults_;
  last_errno_ = error;
  const Instant now = clock_.Now();
  if (!trusted(now)) return;
  distrust_ = std::clamp(distrust_ * 2, kDistrustLeast, kDistrustMost);
  distrusted_until_ = now + distrust_;
  retry_announced_ = true;
}

void FlashLog::MediumWorked() {
  if (distrust_ != Duration{0} && trusted(clock_.Now())) distrust_ = Duration{0};
}

void FlashLog::Step(Instant now, HoldMillis hold_now) {
  hold_now_ = hold_now;
  if (io_ == nullptr || !recovered_ || !trusted(now)) return;
  retry_announced_ = false;
  flush_requested_ = flush_requested_ && segments_.HasUnflushed();
  while (segments_.WantsPreparing()) WriteHeader();
  for (const GroupId group : segments_.active()) {
    if (segments_.at(group).shape_needed) WriteShape(group);
    if (segments_.Sealable(segments_.at(group))) WriteSummary(group);
  }
  if (FlushDue(now)) {
    flushing_ = true;
    segments_.BeginFlush();
    flush_requested_ = flush_requested_ && segments_.HasUnflushed();
    mover_.Flush();
  }
}

bool FlashLog::FlushDue(Instant now) const {
  if (flushing_) return false;
  if (segments_.flush_wanted()) return true;
  const Instant oldest = segments_.OldestUnflushed();
  return oldest != Instant::max() && (flush_requested_ || oldest + options_.flush_age <= now);
}

bool FlashLog::HasOwnWork(const Segment& segment) const {
  return segment.shape_needed || segments_.Sealable(segment);
}

Instant FlashLog::NextStep() const noexcept {
  if (io_ == nullptr || !recovered_) return Instant::max();
  // With distrust everything waits, and then a declined Allocate is worth a new try.
  const Instant soon = distrusted_until_;
  if (retry_announced_) return soon;
  const auto active = segments_.active();
  if (segments_.WantsPreparing() || FlushDue(Instant::min()) ||
      std::any_of(active.begin(), active.end(),
                  [this](GroupId group) { return HasOwnWork(segments_.at(group)); })) {
    return soon;
  }
  const Instant oldest = segments_.OldestUnflushed();
  if (oldest != Instant::max() && !flushing_) return std::max(soon, oldest + options_.flush_age);
  return Instant::max();
}

void FlashLog::WriteHeader() {
  const GroupId group = segments_.BeginPreparing();
  Pages pages = AllocatePages(kPageBytes);
  auto& header = *reinterpret_cast<SegmentHeader*>(pages.get());
  header.epoch = segments_.at(group).epoch.load(std::memory_order_relaxed);
  header.segment = group;
  SealSegmentHeader(header);
  const Extent page{pages.get(), kPageBytes};
  mover_.WritePages(FlightKind::kHeader, group, OffsetOf(group), page, std::move(pages));
}

void FlashLog::WriteShape(GroupId group) {
  Segment& segment = segments_.at(group);
  segment.shape_needed = false;
  Pages pages = AllocatePages(kPageBytes);
  auto& shape = *reinterpret_cast<SegmentShape*>(pages.get());
  shape.epoch = segment.epoch.load(std::memory_order_relaxed);
  shape.segment = group;
  shape.stride_bytes = segment.stride_bytes.load(std::memory_order_relaxed);
  shape.created_ms = hold_now_;
  shape.hold_class = segment.hold_class;
  SealSegmentShape(shape);
  const Extent page{pages.get(), kPageBytes};
  mover_.WritePages(FlightKind::kShape, group, OffsetOf(group) + kPageBytes, page,
                    std::move(pages));
}

// From a copy: copies freed meanwhile still change the original.
void FlashLog::WriteSummary(GroupId group) {
  Segment& segment = segments_.at(group);
  const FlashSegmentsOptions& options = segments_.options();
  const uint64_t bytes = SummaryBytes(segment.slot_count);
  Pages pages = AllocatePages(bytes);
  std::copy_n(segment.summary.get(), bytes, pages.get());
  SealSummary(ViewSummary(pages.get(), segment.slot_count),
              segment.epoch.load(std::memory_order_relaxed), group);
  segments_.BeginSummary(group);
  const Extent whole{pages.get(), bytes};
  mover_.WritePages(FlightKind::kSummary, group,
                    OffsetOf(group) + SummaryOffset(options.segment_bytes, segment.slot_count),
                    whole, std::move(pages));
}

Status FlashLog::Recover(HoldMillis now, const OnRecovered& on_copy) {
  hold_now_ = now;
  if (io_ == nullptr) return {};
  HF_CHECK(!recovered_);
  recovered_ = true;
  BlockingIo blocking(*io_, options_.idle);
  RecoverSegments(blocking, segments_, clock_.Now(), on_copy);
  CountOpening(blocking);
  return {};
}

void FlashLog::CountOpening(const BlockingIo& io) {
  read_bytes_ += io.read_bytes();
  written_bytes_ += io.written_bytes();
  faults_ += io.faults();
  if (io.last_errno() != 0) last_errno_ = io.last_errno();
}

}  // namespace holdfast::internal

namespace holdfast {

Result<std::unique_ptr<GroupedTier>> CreateFlashTier(std::unique_ptr<IoEngine> io, Clock& run_clock,
                                                     std::function<void()> wake,
                                                     const FlashTierOptions& options) {
  using internal::FlashLog;
  internal::FlashSegmentsOptions segments{.open_max = std::max(options.open_segments_max, 1u),
                                          .classes_last = options.classes_last,
                                          .bytes = options.bytes};
  if (!options.bytes) {
    segments.segment_bytes = internal::ChooseSegmentBytes(options.capacity_bytes, options);
    if (options.capacity_bytes > internal::kSegmentsOffset) {
      segments.count =
          (options.capacity_bytes - internal::kSegmentsOffset) / segments.segment_bytes;
    }
    if (segments.count < internal::kSegmentsLeast) {
      return Status(StatusCode::kInvalidArgument,
                    "flash of " + std::to_string(options.capacity_bytes) + " bytes is too small");
    }
    return std::unique_ptr<GroupedTier>(
        std::make_unique<FlashLog>(nullptr, run_clock, std::move(wake), options, segments));
  }
  HF_CHECK(io != nullptr);
  internal::BlockingIo blocking(*io, options.idle);
  HF_ASSIGN_OR_RETURN(const internal::FlashSuperblock block,
                      internal::OpenSuperblock(blocking, io->capacity_bytes(), options));
  segments.segment_bytes = block.segment_bytes;
  segments.count = (io->capacity_bytes() - internal::kSegmentsOffset) / block.segment_bytes;
  segments.first_epoch = (block.opens << 32) + 1;
  auto log =
      std::make_unique<FlashLog>(std::move(io), run_clock, std::move(wake), options, segments);
  log->CountOpening(blocking);
  return std::unique_ptr<GroupedTier>(std::move(log));
}

}  // namespace holdfast
