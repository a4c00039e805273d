#include "tiers/flash_segments.h"

#include <algorithm>
#include <tuple>

#include "kvstore/check.h"

namespace holdfast::internal {

FlashSegments::FlashSegments(const FlashSegmentsOptions& options)
    : options_(options), segments_(options.count), next_epoch_(options.first_epoch) {
  if (!options_.bytes) EndRestoreAll();
}

std::optional<Place> FlashSegments::Allocate(const Shape& shape) {
  const uint64_t stride_bytes = FrameBytes(shape.payload_bytes);
  const std::optional<GroupId> group = OpenFor(shape, stride_bytes);
  if (!group) return std::nullopt;
  Segment& segment = segments_[*group];
  // The last frame makes it a full one, and of those only so many may await their flush.
  const bool last = segment.allocated + 1 == segment.slot_count;
  if (last && awaiting_ >= kSegmentsAwaiting) return std::nullopt;
  const Place place{*group, segment.allocated++};
  segment.slots.push_back({shape.entry, shape.touched});
  segment.slot_states.push_back(SlotState::kAllocated);
  segment.last_use = ++uses_;
  segment.touch_sum += shape.touched;
  segment.end = std::max(segment.end, shape.deadline);
  ++segment.pending;
  ++segment.live;
  ++live_copies_;
  used_bytes_ += stride_bytes;
  if (last) Close(*group);
  return place;
}

std::optional<GroupId> FlashSegments::OpenFor(const Shape& shape, uint64_t stride_bytes) {
  for (const OpenSegment& open : open_) {
    if (open.stride_bytes == stride_bytes && open.hold_class == shape.hold_class) return open.group;
  }
  const size_t kept_back = shape.rewrite ? 0 : kSegmentsReserved;
  if (groups_free() <= kept_back) return std::nullopt;
  std::deque<GroupId>& from = options_.bytes ? ready_ : free_;
  if (from.empty() || SlotsOf(options_.segment_bytes, stride_bytes) == 0) return std::nullopt;
  if (open_.size() >= options_.open_max) {
    if (awaiting_ >= kSegmentsAwaiting) return std::nullopt;
    CloseLeastRecentlyWritten();
  }
  const GroupId group = from.front();
  from.pop_front();
  StartLife(group, stride_bytes, shape.hold_class);
  segments_[group].shape_needed = options_.bytes;
  segments_[group].state = SegmentState::kOpen;
  open_.push_back({stride_bytes, shape.hold_class, group});
  return group;
}

void FlashSegments::StartLife(GroupId group, uint64_t stride_bytes, uint8_t hold_class) {
  Segment& segment = segments_[group];
  segment.stride_bytes.store(stride_bytes, std::memory_order_relaxed);
  segment.hold_class = hold_class;
  segment.slot_count = SlotsOf(options_.segment_bytes, stride_bytes);
  segment.end = INT64_MIN;
  segment.slots.reserve(segment.slot_count);
  segment.slot_states.reserve(segment.slot_count);
  if (options_.bytes) segment.summary = AllocatePages(SummaryBytes(segment.slot_count));
  active_.push_back(group);
}

void FlashSegments::Free(Place place) {
  Segment& segment = segments_[place.group];
  SlotState& state = segment.slot_states[place.slot];
  HF_CHECK(state != SlotState::kDead);
  if (state == SlotState::kAllocated) --segment.pending;
  state = SlotState::kDead;
  if (segment.summary != nullptr) {
    ViewSummary(segment.summary.get(), segment.slot_count).entries[place.slot].payload_bytes = 0;
  }
  segment.touch_sum -= segment.slots[place.slot].touched;
  --segment.live;
  --live_copies_;
  used_bytes_ -= segment.stride_bytes.load(std::memory_order_relaxed);
  if (segment.live == 0) next_end_ = INT64_MIN;  // Expired must look
  Settle(place.group);
}

void FlashSegments::Touched(Place place, uint32_t before, uint32_t now) noexcept {
  Segment& segment = segments_[place.group];
  segment.touch_sum += uint64_t{now} - before;  // wraps to the difference
  segment.slots[place.slot].touched = now;      // a store that nothing waits for
}

void FlashSegments::SetEnd(Place place, HoldMillis deadline) noexcept {
  Segment& segment = segments_[place.group];
  segment.end = std::max(segment.end, deadline);
}

// Segments of granted holds that no tier below takes go last, the earliest end first, while most of
// what they took in is still there; of the others the least recently touched goes first.
std::optional<GroupId> FlashSegments::Victim(HoldMillis now) {
  enum Rank { kExpired, kLoose, kLast };
  std::optional<GroupId> best;
  std::tuple<Rank, HoldMillis, double> best_order;
  for (GroupId group = 0; group < segments_.size(); ++group) {
    const Segment& segment = segments_[group];
    if (segment.state != SegmentState::kSealed || segment.retiring) continue;
    if (segment.live == 0) return group;
    const bool last = segment.hold_class < 32 &&  // it comes from a medium
                      (options_.classes_last >> segment.hold_class & 1) != 0 &&
                      2 * segment.live > segment.slot_count;
    const Rank rank = segment.end <= now ? kExpired : last ? kLast : kLoose;
    const std::tuple order(rank, rank == kLast ? segment.end : 0,
                           static_cast<double>(segment.touch_sum) / segment.live);
    if (!best || order < best_order) {
      best = group;
      best_order = order;
    }
  }
  if (!best && NeedsRoom() && awaiting_ == 0 && !open_.empty()) CloseLeastRecentlyWritten();
  return best;
}

std::optional<GroupId> FlashSegments::Expired(HoldMillis now) {
  if (now < next_end_) return std::nullopt;
  next_end_ = INT64_MAX;
  for (GroupId group = 0; group < segments_.size(); ++group) {
    const Segment& segment = segments_[group];
    if (segment.state != SegmentState::kSealed || segment.retiring) continue;
    const HoldMillis end = segment.live == 0 ? INT64_MIN : segment.end;
    if (end <= now) {
      next_end_ = INT64_MIN;  // there may be more
      return group;
    }
    next_end_ = std::min(next_end_, end);
  }
  return std::nullopt;
}

void FlashSegments::Live(GroupId group, std::vector<LiveCopy>& out) const {
  const Segment& segment = segments_[group];
  for (uint32_t slot = 0; slot < segment.allocated; ++slot) {
    if (segment.slot_states[slot] == SlotState::kDead) continue;
    out.push_back({segment.slots[slot].entry, {group, slot}});
  }
}

void FlashSegments::BeginRetire(GroupId group) {
  HF_CHECK(segments_[group].state == SegmentState::kSealed);
  segments_[group].retiring = true;
}

void FlashSegments::Retire(GroupId group) {
  BeginRetire(group);
  segments_[group].retired = true;
  Settle(group);
}

void FlashSegments::AddUsage(TierUsage& usage) const {
  usage.used_bytes = used_bytes_;
  usage.live_copies = live_copies_;
  usage.undurable_bytes = undurable_bytes_;
  usage.lost_bytes = lost_bytes_;
  usage.groups = segments_.size();
  usage.groups_free = groups_free();
}

void FlashSegments::OpEnded(Place place, bool write) {
  Segment& segment = segments_[place.group];
  if (write) segment.writes.fetch_sub(1, std::memory_order_relaxed);
  segment.ops.fetch_sub(1, std::memory_order_relaxed);
  if (segment.retired || write) Settle(place.group);
}

void FlashSegments::Written(Place place, const FrameHeader* header, Instant now) {
  Segment& segment = segments_[place.group];
  SlotState& state = segment.slot_states[place.slot];
  if (state != SlotState::kAllocated) return;  // freed meanwhile
  state = SlotState::kWritten;
  --segment.pending;
  if (!options_.bytes) return;
  ViewSummary(segment.summary.get(), segment.slot_count).entries[place.slot] =
      MakeSummaryEntry(*header);
  const uint64_t stride_bytes = segment.stride_bytes.load(std::memory_order_relaxed);
  if (segment.poisoned) {
    ++segment.lost;
    lost_bytes_ += stride_bytes;
    return;
  }
  if (segment.unflushed++ == 0) segment.oldest_unflushed = now;
  undurable_bytes_ += stride_bytes;
}

void FlashSegments::WriteFailed(Place place) {
  Segment& segment = segments_[place.group];
  SlotState& state = segment.slot_states[place.slot];
  if (state != SlotState::kAllocated) return;
  state = SlotState::kFailed;
  --segment.pending;
}

void FlashSegments::Close(GroupId group) {
  std::erase_if(open_, [group](const OpenSegment& open) { return open.group == group; });
  segments_[group].state = SegmentState::kClosing;
  ++awaiting_;
  Settle(group);
}

void FlashSegments::CloseLeastRecentlyWritten() {
  const auto oldest =
      std::min_element(open_.begin(), open_.end(), [this](const auto& a, const auto& b) {
        return segments_[a.group].last_use < segments_[b.group].last_use;
      });
  Close(oldest->group);
}

void FlashSegments::Settle(GroupId group) {
  Segment& segment = segments_[group];
  const bool quiet = segment.pending == 0 && segment.writes.load(std::memory_order_relaxed) == 0;
  if (segment.state == SegmentState::kClosing && quiet && (segment.poisoned || !options_.bytes)) {
    Seal(group);
  }
  const bool gone =
      segment.retired && segment.live == 0 && segment.ops.load(std::memory_order_acquire) == 0;
  if (!gone) return;
  DropUnflushed(segment);
  lost_bytes_ -= segment.lost * segment.stride_bytes.load(std::memory_order_relaxed);
  segment.lost = 0;
  segment.state = SegmentState::kFree;
  segment.retiring = segment.retired = segment.poisoned = false;
  segment.shape_needed = segment.shape_written = false;
  segment.allocated = 0;
  segment.touch_sum = 0;
  segment.slots.clear();
  segment.slot_states.clear();
  free_.push_back(group);
}

void FlashSegments::Seal(GroupId group) {
  Segment& segment = segments_[group];
  segment.state = SegmentState::kSealed;
  segment.summary.reset();
  next_end_ = std::min(next_end_, segment.live == 0 ? INT64_MIN : segment.end);
  --awaiting_;
  Deactivate(group);
}

void FlashSegments::Deactivate(GroupId group) { std::erase(active_, group); }

void FlashSegments::DropUnflushed(Segment& segment) {
  undurable_bytes_ -= (uint64_t{segment.unflushed} + segment.flushing) *
                      segment.stride_bytes.load(std::memory_order_relaxed);
  segment.unflushed = segment.flushing = 0;
}

}  // namespace holdfast::internal
