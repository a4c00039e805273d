// FlashSegments: the space logic of the flash log. Which segments are free, open, sealed; which
// slot comes next; which segment goes next. It does no I/O: the log (flash_log.h) asks it what to
// write, does it and reports.
//
// A segment's life:
//   free -> preparing -> prepared -> ready -> open -> closing -> summary -> unflushed -> sealed
//           (new header) (flush)              (frames)  (last frames)      (flush)      -> free
//
// Threading: everything under the caller's lock, but for the atomics of a Segment, which Submit
// reads and counts from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/tier.h"
#include "tiers/flash_format.h"

namespace holdfast::internal {

inline constexpr size_t kSegmentsReserved = 2;  // for rewriting
inline constexpr size_t kSegmentsReady = 2;     // prepared ahead of need
inline constexpr size_t kSegmentsAwaiting = 2;  // full ones that await their flush
inline constexpr size_t kSegmentsLeast = kSegmentsReserved + 2;

enum class SegmentState : uint8_t {
  kFree,
  kPreparing,  // the header of its new life is being written
  kPrepared,   // ... written; awaits a flush
  kReady,      // ... durable
  kOpen,
  kClosing,    // takes no more frames; some may still be on their way
  kSummary,    // the summary is being written
  kUnflushed,  // ... written; awaits a flush
  kSealed,     // also: poisoned by a failed flush
};

enum class SlotState : uint8_t { kAllocated, kWritten, kFailed, kDead };

struct Segment {
  // For Submit.
  std::atomic<uint64_t> epoch{0};
  std::atomic<uint64_t> stride_bytes{0};
  std::atomic<uint32_t> ops{0};     // submitted, not yet polled
  std::atomic<uint32_t> writes{0};  // of them

  SegmentState state = SegmentState::kFree;
  uint8_t hold_class = 0;
  bool retiring = false;
  bool retired = false;
  bool poisoned = false;  // a flush failed: what was not durable never will be
  bool in_flush = false;  // the flush under way covers its header or summary
  bool shape_needed = false;
  bool shape_written = false;
  uint32_t slot_count = 0;
  uint32_t allocated = 0;  // slots given out, from the front
  uint32_t pending = 0;    // ... not yet written, failed or freed
  uint32_t live = 0;
  uint32_t unflushed = 0;      // frames written since the last flush began
  uint32_t flushing = 0;       // frames that the flush under way covers
  uint32_t lost = 0;           // frames that will never be durable
  uint64_t last_use = 0;       // order of allocations
  uint64_t touch_sum = 0;      // of the live copies' stamps
  HoldMillis end = INT64_MIN;  // the latest deadline of its copies
  Instant oldest_unflushed{};
  struct Slot {
    EntryId entry;
    uint32_t touched;
  };
  std::vector<Slot> slots;
  std::vector<SlotState> slot_states;
  Pages summary;  // while it is being filled
};

struct FlashSegmentsOptions {
  uint64_t count = 0;
  uint64_t segment_bytes = 0;
  uint64_t first_epoch = 1;
  uint32_t open_max = 16;
  uint32_t classes_last = 0;  // as FlashTierOptions
  bool bytes = true;          // off: nothing to prepare, to write or to flush
};

class FlashSegments {
 public:
  explicit FlashSegments(const FlashSegmentsOptions& options);

  Segment& at(GroupId group) { return segments_[group]; }
  const Segment& at(GroupId group) const { return segments_[group]; }
  const FlashSegmentsOptions& options() const { return options_; }

  // The verbs of Tier and GroupedTier.
  std::optional<Place> Allocate(const Shape& shape);
  void Free(Place place);
  void Touched(Place place, uint32_t before, uint32_t now) noexcept;
  void SetEnd(Place place, HoldMillis deadline) noexcept;
  std::optional<GroupId> Victim(HoldMillis now);
  std::optional<GroupId> Expired(HoldMillis now);
  void Live(GroupId group, std::vector<LiveCopy>& out) const;
  void BeginRetire(GroupId group);
  void Retire(GroupId group);
  size_t groups_free() const { return free_.size() + preparing_ + ready_.size(); }
  bool NeedsRoom() const { return groups_free() < kSegmentsReserved + 1; }
  void AddUsage(TierUsage& usage) const;

  // An operation ended that Submit had counted.
  void OpEnded(Place place, bool write);
  void Written(Place place, const FrameHeader* header, Instant now);
  void WriteFailed(Place place);

  // Preparing: header written, then flushed.
  bool WantsPreparing() const;
  GroupId BeginPreparing();
  void EndPreparing(GroupId group, bool ok);

  // Segments between free and sealed, at most some dozens.
  std::span<const GroupId> active() const { return active_; }
  bool Sealable(const Segment& segment) const;
  void BeginSummary(GroupId group);
  void EndSummary(GroupId group, bool ok);

  // Flushing: everything written before the flush began is durable when it ends.
  bool flush_wanted() const;  // something cannot go on without it
  bool HasUnflushed() const;
  Instant OldestUnflushed() const;  // max when there is none
  void BeginFlush();
  void EndFlush(bool ok);

  // At open: a segment found on the medium, then its copies, then what it is.
  void BeginRestore(GroupId group, const SegmentHeader& header, const SegmentShape& shape);
  void AcceptCopy(Place place, EntryId entry, HoldMillis end);
  // `sealed`: from its summary. Otherwise `summary` was rebuilt and is to be written and flushed.
  void EndRestore(GroupId group, bool sealed, Pages summary, Instant now);
  void EndRestoreAll();  // what was not restored is free

 private:
  struct OpenSegment {
    uint64_t stride_bytes;
    uint8_t hold_class;
    GroupId group;
  };

  std::optional<GroupId> OpenFor(const Shape& shape, uint64_t stride_bytes);
  void StartLife(GroupId group, uint64_t stride_bytes, uint8_t hold_class);
  void Close(GroupId group);
  void CloseLeastRecentlyWritten();
  void Settle(GroupId group);  // after anything that may let it be sealed or released
  void Seal(GroupId group);
  void Poison(GroupId group);
  void DropUnflushed(Segment& segment);
  void Deactivate(GroupId group);

  FlashSegmentsOptions options_;
  std::vector<Segment> segments_;
  std::deque<GroupId> free_;  // used in turn, for even wear
  std::deque<GroupId> ready_;
  size_t preparing_ = 0;
  std::vector<OpenSegment> open_;
  std::vector<GroupId> active_;
  size_t awaiting_ = 0;  // closing, summary or unflushed
  uint64_t next_epoch_;
  uint64_t uses_ = 0;
  HoldMillis next_end_ = INT64_MAX;  // no sealed segment ends before it
  uint64_t used_bytes_ = 0;
  uint64_t live_copies_ = 0;
  uint64_t undurable_bytes_ = 0;
  uint64_t lost_bytes_ = 0;
};

}  // namespace holdfast::internal
