// Index: block key to entry. A table sized once, never growing, without tombstones: 8-byte slots
// (the upper half of the key's low word as a tag, the entry's id) by linear probing, deletion by
// shifting back, over a slab of entries.
//
// Threading: thread-compatible; the store's lock protects it. Memory: allocated by Init alone.
#pragma once

#include <span>

#include "kvstore/internal/entry.h"
#include "kvstore/internal/huge_array.h"
#include "kvstore/status.h"

namespace holdfast::internal {

class Index {
 public:
  Status Init(uint32_t entries_max);

  EntryId Find(const BlockKey& key) const noexcept {
    size_t at = key.hi & mask_;
    const uint32_t tag = Tag(key);
    while (slots_[at] != 0) {
      const uint64_t slot = slots_[at];
      if (static_cast<uint32_t>(slot >> 32) == tag) {
        const auto id = static_cast<EntryId>(slot) - 1;
        if (entries_[id].key == key) return id;
      }
      at = (at + 1) & mask_;
    }
    return kNoEntry;
  }

  // Two hints for a look-up to come: first the slot, then, once that has arrived, the entry.
  void PrefetchSlot(const BlockKey& key) const noexcept {
    __builtin_prefetch(&slots_[key.hi & mask_]);
  }
  void PrefetchEntry(const BlockKey& key) const noexcept {
    const uint64_t slot = slots_[key.hi & mask_];
    if (slot != 0) __builtin_prefetch(&entries_[static_cast<EntryId>(slot) - 1], 1);
  }

  // Requires that the key is absent. kNoEntry when the table is full. The entry is reset but for
  // its generation.
  EntryId Insert(const BlockKey& key) noexcept;
  // The id may be given out again; its generation grows.
  void Erase(EntryId id) noexcept;

  Entry& operator[](EntryId id) noexcept { return entries_[id]; }
  const Entry& operator[](EntryId id) const noexcept { return entries_[id]; }
  uint32_t size() const noexcept { return size_; }
  uint32_t entries_max() const noexcept { return entries_max_; }
  // Ids below this one have been given out at some time.
  uint32_t ids_end() const noexcept { return fresh_; }
  uint64_t memory_bytes() const noexcept {
    return (mask_ + 1) * sizeof(uint64_t) + uint64_t{fresh_} * sizeof(Entry);
  }

 private:
  static uint32_t Tag(const BlockKey& key) noexcept { return static_cast<uint32_t>(key.lo >> 32); }

  HugeArray<uint64_t> slots_;
  HugeArray<Entry> entries_;
  size_t mask_ = 0;
  uint32_t entries_max_ = 0;
  uint32_t size_ = 0;
  uint32_t fresh_ = 0;       // next id never given out
  EntryId free_ = kNoEntry;  // list of ids given back, through Entry::parent
};

}  // namespace holdfast::internal
