// BucketTable: which copies of a disk tier lie together, and what they take. A bucket holds copies
// that end about the same time and goes as a whole. Pure bookkeeping, shared by RocksDB and
// SimDisk; it knows neither media nor threads.
//
// A copy goes to a line: the width (1 min, 5 min, 1 h, 1 day) is the smallest that covers its
// remaining time, and the line ends at the multiple of max(60 s, width / 4) at or after its
// deadline. Copies without a deadline lie in lines of their own, six hours of creation each, that
// never end. A line is cut into buckets of about a sixteenth of the capacity, so that making room
// never costs more than that. When no further bucket may be alive, a copy joins the bucket with the
// nearest later end.
//
// Slots of a bucket are numbered by allocation and never used twice, so that a record on a medium
// is never written over. The bytes of a freed copy come back with its bucket.
//
// Threading: thread-compatible. Memory: 16 bytes a slot; a slot costs at least 8 KiB of capacity.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "kvstore/tier.h"

namespace holdfast {

struct BucketLine {
  uint8_t width = 0;          // index; kUndatedWidth: without deadlines
  HoldMillis end = 0;         // kNoDeadline: never
  HoldMillis created_to = 0;  // of an undated line: the end of the span of its creation
  friend bool operator==(const BucketLine&, const BucketLine&) = default;
};
inline constexpr uint8_t kUndatedWidth = 4;
int64_t WidthMillis(uint8_t width) noexcept;   // undated: as one day
int64_t BucketMillis(uint8_t width) noexcept;  // max(60 s, width / 4)
BucketLine LineOf(HoldMillis deadline, HoldMillis now) noexcept;

struct Bucket {
  enum class State : uint8_t { kCreating, kOpen, kRetiring, kRetired, kDropping };
  struct Slot {
    enum class State : uint8_t { kUnused, kAllocated, kSubmitted, kDead };
    EntryId entry = 0;
    uint32_t touched = 0;
    uint32_t pages = 0;  // of the frame
    State state = State::kUnused;
    bool granted = false;  // its hold, when it was written
    bool live() const noexcept { return state == State::kAllocated || state == State::kSubmitted; }
  };
  GroupId id = 0;
  BucketLine line;
  State state = State::kCreating;
  std::deque<Slot> slots;
  uint64_t live_copies = 0;
  uint64_t granted_copies = 0;  // of them
  uint64_t live_bytes = 0;      // of frames
  uint64_t total_bytes = 0;     // live and dead, with the medium's overhead
  uint64_t touched_sum = 0;     // of live copies
  uint32_t operations = 0;      // running
};

struct BucketTableOptions {
  uint64_t capacity_bytes = 0;
  uint32_t families_max = 32;
};

class BucketTable {
 public:
  explicit BucketTable(BucketTableOptions options);

  // What a frame takes on the medium: itself, its record, about 1 % of tables and filters.
  static uint64_t CostOf(uint64_t payload_bytes) noexcept;

  void Observe(HoldMillis now) noexcept;  // hold time never goes back

  // nullopt: over capacity, the deadline is past, or the bucket is yet to be created.
  std::optional<Place> Allocate(const Shape& shape);
  void Free(Place place);
  void Touched(Place place, uint32_t now);

  // Buckets that somebody must create now; each is told once, and answered once.
  std::vector<GroupId> TakeWanted();
  void Created(GroupId id);
  void CreateFailed(GroupId id);

  // At open: a bucket found on the medium, with what it takes there; then its copies.
  void Adopt(GroupId id, const BucketLine& line, uint64_t total_bytes);
  void AdoptSlot(Place place, uint64_t payload_bytes, std::optional<EntryId> entry);

  bool BeginOperation(Place place);  // false: its bucket is gone
  void EndOperation(Place place);

  std::optional<GroupId> Victim(HoldMillis now);
  std::optional<GroupId> Expired(HoldMillis now);
  void BeginRetire(GroupId id);
  void Retire(GroupId id);
  // Retired buckets without copies and operations: to be deleted now; each is told once.
  std::vector<GroupId> TakeDroppable();
  void Dropped(GroupId id);  // its bytes are free on the medium
  bool Pending() const noexcept { return !wanted_.empty() || !droppable_.empty(); }

  void Live(GroupId id, std::vector<LiveCopy>& out) const;
  HoldMillis End(GroupId id) const noexcept;  // kNoDeadline for one that is gone
  bool Closed(GroupId id) const;              // its line takes no more copies
  bool NeedsRoom() const noexcept;
  TierUsage Usage() const noexcept;  // the part of it that is known here
  const Bucket* Find(GroupId id) const;
  GroupId next_id() const noexcept { return next_id_; }

 private:
  Bucket& At(GroupId id);
  bool Full(const Bucket& bucket) const noexcept { return bucket.total_bytes >= bucket_bytes_max_; }
  bool LineClosed(const BucketLine& line) const noexcept;
  bool Replaced(const Bucket& bucket) const;
  // The open bucket of the line that takes the next copy; asks for its successor in time.
  Bucket* OpenBucket(const BucketLine& line);
  Bucket* NearestLater(HoldMillis deadline);
  bool Want(const BucketLine& line, size_t alive_max);
  bool Known(const BucketLine& line) const;
  void Forget(Bucket& bucket, Bucket::Slot& slot);

  const BucketTableOptions options_;
  const uint64_t bucket_bytes_max_;
  std::map<GroupId, Bucket> buckets_;  // at most families_max and those being deleted
  std::vector<GroupId> wanted_, droppable_;
  GroupId next_id_ = 1;
  HoldMillis now_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t leaving_bytes_ = 0;  // of total_bytes_: of buckets that are going
  bool starved_ = false;        // a copy found no bucket because as many as may be are alive
};

}  // namespace holdfast
