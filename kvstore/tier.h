// Tier: one memory level below or beside host memory (hbm, flash, disk). It accounts its space
// synchronously and moves frames asynchronously. It decides neither what to keep nor where a block
// lives; the store does.
//
// Usage:
//   std::optional<Place> place = tier.Allocate({.payload_bytes = 2 << 20, .entry = id});
//   op.kind = FrameOpKind::kWrite;  op.place = *place;  tier.Submit(&op);
//   ... size_t n = tier.Poll(finished);
//
// Threading: Submit is thread-safe. Everything else is called by one thread at a time (the store's
// lock or its driver).
// Memory: a FrameOp, its header and the memory of its extents belong to the tier from Submit until
// Poll returns it, exactly once, cancelled or not.
// Errors: an op's outcome; never a crash on what a medium holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/frame.h"
#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast {

using EntryId = uint32_t;  // dense id of a block in the store's index
using GroupId = uint32_t;  // a segment or a bucket: what goes as a whole

// Where a copy lies in its tier; opaque outside it. Never reused while an operation on it runs.
struct Place {
  uint32_t group = UINT32_MAX;
  uint32_t slot = 0;
  bool valid() const noexcept { return group != UINT32_MAX; }
  friend bool operator==(const Place&, const Place&) = default;
};

// Which copies lie together: those of one hold class that end about the same time.
struct Shape {
  uint64_t payload_bytes = 0;
  uint8_t hold_class = 0;             // 0: none; 1..4 the store's classes, shortest first
  HoldMillis deadline = kNoDeadline;  // decides the bucket
  EntryId entry = 0;
  uint32_t touched = 0;  // stamp of the last touch (GroupedTier::Touched)
  bool rewrite = false;  // may use the space kept back for rewriting
};

enum class FrameOpKind : uint8_t { kRead, kWrite };
enum class FrameOutcome : uint8_t {
  kDone,
  kCorrupt,  // the frame read is not the one asked for, or its bytes do not match
  kFailed,   // the medium failed; os_errno says how
};

struct FrameOp {
  FrameOpKind kind = FrameOpKind::kRead;
  Place place{};
  // The header page, 4,096-aligned, the client's. Write: fixed part complete, placement filled but
  // for epoch, slot and checksum (the tier seals it). Read: filled, valid when kDone.
  FrameHeader* header = nullptr;
  // The memory of the payload, in order. All of it, padded to 4,096 where limits().alignment is
  // above 1; or of a read the part [offset, offset + sum), whole granules, padded likewise.
  std::span<const Extent> payload{};
  uint64_t offset = 0;
  FrameExpect expect{};  // read: key, root, index, payload_bytes, write_id
  FrameOutcome outcome = FrameOutcome::kDone;
  FrameFault fault = FrameFault::kNone;
  int os_errno = 0;
  Instant submitted{}, finished{};  // run clock, set by the tier
  uint64_t tag = 0;                 // the client's
};

struct TierLimits {
  uint64_t capacity_bytes = 0;   // of frames
  uint64_t alignment = 1;        // of every extent's address and length; 4096 for direct I/O
  size_t extents_max = 0;        // of one operation; 0: any
  uint64_t frame_bytes_max = 0;  // the largest frame that fits a group; 0: any
};

struct TierUsage {
  uint64_t used_bytes = 0;  // live frames
  uint64_t live_copies = 0;
  uint64_t undurable_bytes = 0;  // written, not yet flushed
  uint64_t lost_bytes = 0;       // written and readable, but their flush failed: never durable
  uint64_t read_bytes = 0;       // from the medium, since open
  uint64_t written_bytes = 0;    // to the medium, summaries and headers included
  uint64_t groups = 0, groups_free = 0;
  uint64_t faults = 0;  // failed operations of the medium
  int last_errno = 0;
};

class Tier {
 public:
  virtual ~Tier() = default;  // requires that nothing is in flight

  virtual Where where() const noexcept = 0;
  virtual std::string_view engine()
      const noexcept = 0;  // "uring", "pread", "rocksdb", "host", "none"
  virtual TierLimits limits() const noexcept = 0;
  virtual TierUsage usage() const noexcept = 0;

  // Space for one frame, or nullopt: the store must make room first (GroupedTier::NeedsRoom), or
  // wait until the tier has prepared some (it wakes) or trusts its medium again (NextStep).
  virtual std::optional<Place> Allocate(const Shape& shape) = 0;
  // Ends a copy, or an allocation that was never written or whose write failed. Reuse waits for
  // operations on it: those whose Submit came before Free.
  virtual void Free(Place place) = 0;

  // A read of a place that was freed before ends as kCorrupt, or with what still lies there.
  virtual void Submit(FrameOp* op) = 0;
  // Finished ones; never waits. When it filled `out`, call again: `wake` may not come for the rest.
  virtual size_t Poll(std::span<FrameOp*> out) = 0;
  virtual size_t in_flight() const noexcept = 0;
};

struct LiveCopy {
  EntryId entry = 0;
  Place place{};
};

// A copy found on the medium at open. The header passed its checks.
struct RecoveredCopy {
  // Valid during the call: key, root, parent, index, payload_bytes and external; the granules'
  // checksums come with the first read.
  const FrameFixed* fixed = nullptr;
  FramePlacement placement{};
  Place place;
};

// A tier whose copies go by groups: flash by segments, disk by buckets.
class GroupedTier : public Tier {
 public:
  // At open, once, before any other verb: reports each readable copy. The callback answers which
  // entry it now belongs to, or nullopt: the copy is not wanted (older write id, erased, past its
  // deadline). A copy accepted earlier may be given up later through Free(place).
  using OnRecovered = std::function<std::optional<EntryId>(const RecoveredCopy&)>;
  virtual Status Recover(HoldMillis now, const OnRecovered& on_copy) = 0;

  // The group that should go next: first one whose end is past (flash: every live copy past its
  // deadline; disk: bucket end past), else the lowest mean last touch of its live copies. Never one
  // that is still being written. nullopt: none can go now; when only groups being written are left
  // and the tier needs room, it seals one so that it can go soon.
  virtual std::optional<GroupId> Victim(HoldMillis now) = 0;
  // A group whose end is past, or nullopt. For expiry without pressure.
  virtual std::optional<GroupId> Expired(HoldMillis now) = 0;
  virtual void Live(GroupId group, std::vector<LiveCopy>& out) const = 0;
  // No new allocations in this group from now on; its live copies stay readable.
  virtual void BeginRetire(GroupId group) = 0;
  // All copies were freed or will be: the group's space comes back once no operation runs on it.
  virtual void Retire(GroupId group) = 0;
  virtual bool NeedsRoom() const noexcept = 0;  // fewer free groups than the reserve and one
  // A copy was used: moves its group's mean. Stamps grow with each touch; wrapping is the store's
  // affair.
  virtual void Touched(Place place, uint32_t before, uint32_t now) = 0;
  // The index moved an entry or a copy changed its owner (put over the same key).
  virtual void SetEnd(Place place,
                      HoldMillis deadline) = 0;  // refreshed deadline, for Expired of flash
  virtual HoldMillis CopyEnd(Place place) const noexcept = 0;  // bucket end; kNoDeadline for flash

  // Seals, flushes, creates and drops groups; never waits. `now` of the run clock.
  virtual void Step(Instant now, HoldMillis hold_now) = 0;
  // Starts a flush of everything written so far; usage().undurable_bytes is 0 when it is through.
  virtual void RequestFlush() = 0;
  virtual Instant NextStep()
      const noexcept = 0;  // when Step wants to run again; max: on completions only
};

}  // namespace holdfast
