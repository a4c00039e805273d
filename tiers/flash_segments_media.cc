// The half of FlashSegments that follows the medium: preparing, sealing, flushing, restoring.
#include <algorithm>
#include <utility>

#include "kvstore/check.h"
#include "tiers/flash_segments.h"

namespace holdfast::internal {

bool FlashSegments::WantsPreparing() const {
  return options_.bytes && !free_.empty() && preparing_ + ready_.size() < kSegmentsReady;
}

GroupId FlashSegments::BeginPreparing() {
  const GroupId group = free_.front();
  free_.pop_front();
  ++preparing_;
  Segment& segment = segments_[group];
  segment.state = SegmentState::kPreparing;
  segment.epoch.store(next_epoch_++, std::memory_order_relaxed);
  active_.push_back(group);
  return group;
}

void FlashSegments::EndPreparing(GroupId group, bool ok) {
  Segment& segment = segments_[group];
  if (ok) {
    segment.state = SegmentState::kPrepared;
    return;
  }
  segment.state = SegmentState::kFree;
  --preparing_;
  free_.push_back(group);
  Deactivate(group);
}

bool FlashSegments::Sealable(const Segment& segment) const {
  return segment.state == SegmentState::kClosing && segment.pending == 0 &&
         segment.writes.load(std::memory_order_relaxed) == 0 && segment.shape_written;
}

void FlashSegments::BeginSummary(GroupId group) { segments_[group].state = SegmentState::kSummary; }

void FlashSegments::EndSummary(GroupId group, bool ok) {
  Segment& segment = segments_[group];
  segment.state = ok && !segment.poisoned ? SegmentState::kUnflushed : SegmentState::kClosing;
  Settle(group);
}

bool FlashSegments::flush_wanted() const {
  return std::any_of(active_.begin(), active_.end(), [this](GroupId group) {
    const SegmentState state = segments_[group].state;
    return state == SegmentState::kPrepared || state == SegmentState::kUnflushed;
  });
}

bool FlashSegments::HasUnflushed() const {
  return std::any_of(active_.begin(), active_.end(),
                     [this](GroupId group) { return segments_[group].unflushed > 0; });
}

Instant FlashSegments::OldestUnflushed() const {
  Instant oldest = Instant::max();
  for (const GroupId group : active_) {
    const Segment& segment = segments_[group];
    // Without its shape on the medium no frame of it can be found.
    if (segment.unflushed > 0 && segment.shape_written) {
      oldest = std::min(oldest, segment.oldest_unflushed);
    }
  }
  return oldest;
}

void FlashSegments::BeginFlush() {
  for (const GroupId group : active_) {
    Segment& segment = segments_[group];
    segment.in_flush =
        segment.state == SegmentState::kPrepared || segment.state == SegmentState::kUnflushed;
    if (segment.shape_written) segment.flushing = std::exchange(segment.unflushed, 0);
  }
}

void FlashSegments::EndFlush(bool ok) {
  const std::vector<GroupId> active = active_;  // which the loop shortens
  for (const GroupId group : active) {
    Segment& segment = segments_[group];
    const bool covered = std::exchange(segment.in_flush, false);
    if (!ok) {
      Poison(group);
      continue;
    }
    undurable_bytes_ -= segment.flushing * segment.stride_bytes.load(std::memory_order_relaxed);
    segment.flushing = 0;
    if (!covered) continue;
    if (segment.state == SegmentState::kPrepared) {
      segment.state = SegmentState::kReady;
      --preparing_;
      ready_.push_back(group);
      Deactivate(group);
    } else {
      Seal(group);
    }
  }
}

// The system may have forgotten anything that it had not yet written, and would not say so twice.
void FlashSegments::Poison(GroupId group) {
  Segment& segment = segments_[group];
  if (segment.state == SegmentState::kPrepared) return EndPreparing(group, false);
  if (segment.state == SegmentState::kPreparing) return;  // written after the flush had begun
  const uint32_t frames = segment.unflushed + segment.flushing;
  if (frames == 0) {  // durable since earlier; at most its summary is to be written again
    if (segment.state == SegmentState::kUnflushed) segment.state = SegmentState::kClosing;
    return;
  }
  DropUnflushed(segment);
  segment.lost += frames;
  lost_bytes_ += frames * segment.stride_bytes.load(std::memory_order_relaxed);
  segment.poisoned = true;
  if (segment.state == SegmentState::kOpen) return Close(group);
  if (segment.state == SegmentState::kUnflushed) segment.state = SegmentState::kClosing;
  Settle(group);
}

void FlashSegments::BeginRestore(GroupId group, const SegmentHeader& header,
                                 const SegmentShape& shape) {
  Segment& segment = segments_[group];
  HF_CHECK(segment.state == SegmentState::kFree);
  segment.epoch.store(header.epoch, std::memory_order_relaxed);
  StartLife(group, shape.stride_bytes, static_cast<uint8_t>(shape.hold_class));
  segment.shape_written = true;
  segment.allocated = segment.slot_count;
  segment.slots.assign(segment.slot_count, {});
  segment.slot_states.assign(segment.slot_count, SlotState::kDead);
  segment.state = SegmentState::kClosing;
  ++awaiting_;
}

void FlashSegments::AcceptCopy(Place place, EntryId entry, HoldMillis end) {
  Segment& segment = segments_[place.group];
  segment.slot_states[place.slot] = SlotState::kWritten;
  segment.slots[place.slot] = {entry, 0};
  segment.end = std::max(segment.end, end);
  ++segment.live;
  ++live_copies_;
  used_bytes_ += segment.stride_bytes.load(std::memory_order_relaxed);
}

void FlashSegments::EndRestore(GroupId group, bool sealed, Pages summary, Instant now) {
  Segment& segment = segments_[group];
  segment.summary = std::move(summary);
  const SummaryView view = ViewSummary(segment.summary.get(), segment.slot_count);
  for (uint32_t slot = 0; slot < segment.slot_count; ++slot) {
    if (segment.slot_states[slot] == SlotState::kDead) view.entries[slot].payload_bytes = 0;
  }
  if (sealed || segment.live == 0) {
    Seal(group);
    if (segment.live == 0) segment.retired = true;
    return Settle(group);
  }
  segment.unflushed = segment.live;
  segment.oldest_unflushed = now;
  undurable_bytes_ += segment.live * segment.stride_bytes.load(std::memory_order_relaxed);
}

void FlashSegments::EndRestoreAll() {
  std::vector<bool> listed(segments_.size(), false);
  for (const GroupId group : free_) listed[group] = true;
  for (GroupId group = 0; group < segments_.size(); ++group) {
    if (segments_[group].state == SegmentState::kFree && !listed[group]) free_.push_back(group);
  }
}

}  // namespace holdfast::internal
