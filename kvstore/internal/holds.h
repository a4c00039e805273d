// Holds: deadlines, classes and their budgets. A hold is a deadline with a budget, not a lock.
//
// Blocks of one class lie on one list in the order of their deadlines, so that what expires next is
// a list's head. A block whose class has no budget left keeps its deadline (downgraded); so does
// one that was released.
//
// Threading: thread-compatible; the store's lock protects it.
#pragma once

#include <array>
#include <vector>

#include "kvstore/internal/entry.h"
#include "kvstore/internal/huge_array.h"
#include "kvstore/internal/index.h"
#include "kvstore/options.h"
#include "kvstore/stats.h"
#include "kvstore/status.h"

namespace holdfast::internal {

class Holds {
 public:
  // `budget_base_bytes`: what the classes' shares are shares of. Without limit: UINT64_MAX.
  Status Init(const StoreOptions& options, uint64_t budget_base_bytes, Index& index);

  static constexpr uint8_t kTooLong = UINT8_MAX;
  // The class that a ttl is rounded up to; 0 for none; kTooLong.
  uint8_t ClassOf(Duration ttl) const noexcept;
  // For a ttl read from media: the class, or the longest.
  uint8_t ClassOfStored(uint64_t ttl_ms) const noexcept;
  uint8_t classes() const noexcept { return static_cast<uint8_t>(classes_.size()); }
  int64_t ttl_ms(uint8_t hold_class) const noexcept {
    return hold_class == 0 ? 0 : classes_[hold_class - 1].ttl_ms;
  }

  // Asks for `hold_class` (not 0). The later deadline wins, the higher class wins. True when the
  // block is charged to that class or a higher one afterwards.
  bool Apply(EntryId id, uint8_t hold_class, HoldMillis now) noexcept;
  // A touch: moves the deadline of a block that has a class to now + ttl.
  void Refresh(EntryId id, HoldMillis now) noexcept;
  // A child put without a hold of its own gets its parent's deadline and class.
  void Inherit(EntryId child, EntryId parent) noexcept;
  // Takes class and charge away; the deadline stays and runs.
  void Release(EntryId id) noexcept;
  // What a copy found on media says. Call in the order of deadlines.
  void Restore(EntryId id, uint8_t hold_class, HoldMillis deadline, bool granted) noexcept;
  // The block goes.
  void Forget(EntryId id) noexcept;
  void CountExpired(uint8_t hold_class) noexcept;
  void CountBroken(uint8_t hold_class) noexcept;

  // A block whose deadline is past, or kNoEntry.
  EntryId Expired(HoldMillis now) const noexcept;
  // The earliest deadline of all, kNoDeadline when there is none.
  HoldMillis NextDeadline() const noexcept;

  bool refresh_on_touch() const noexcept { return refresh_on_touch_; }
  std::vector<HoldStats> Stats() const;
  uint64_t memory_bytes() const noexcept;

 private:
  struct Links {
    EntryId prev_plus_1;
    EntryId next_plus_1;
  };
  struct Class {
    std::string name;
    int64_t ttl_ms = 0;
    uint64_t budget_bytes = 0;
    uint64_t granted_bytes = 0;
    uint64_t granted = 0, downgraded = 0, broken = 0, expired = 0;
    EntryId head = kNoEntry;  // earliest deadline
    EntryId tail = kNoEntry;
  };

  Class& of(uint8_t hold_class) noexcept { return classes_[hold_class - 1]; }
  bool Charge(Entry& e, uint8_t hold_class) noexcept;
  void Uncharge(Entry& e) noexcept;
  void SetDeadline(EntryId id, uint8_t hold_class, HoldMillis deadline, EntryId hint) noexcept;
  void Link(EntryId id, EntryId after) noexcept;
  void Unlink(EntryId id) noexcept;

  Index* index_ = nullptr;
  std::vector<Class> classes_;
  HugeArray<Links> links_;
  uint64_t total_budget_bytes_ = 0;
  uint64_t total_granted_bytes_ = 0;
  bool refresh_on_touch_ = true;
};

}  // namespace holdfast::internal
