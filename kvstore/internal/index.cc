#include "kvstore/internal/index.h"

#include <bit>
#include <string>

#include "kvstore/check.h"

namespace holdfast::internal {

Status Index::Init(uint32_t entries_max) {
  // At most three quarters full, so that a probe ends soon.
  const size_t slots = std::bit_ceil(uint64_t{entries_max} * 4 / 3 + 16);
  if (!slots_.Allocate(slots) || !entries_.Allocate(entries_max)) {
    return {StatusCode::kResourceExhausted, "index_entries_max " + std::to_string(entries_max) +
                                                ": no address space for the index"};
  }
  mask_ = slots - 1;
  entries_max_ = entries_max;
  return {};
}

EntryId Index::Insert(const BlockKey& key) noexcept {
  EntryId id = free_;
  if (id != kNoEntry) {
    free_ = entries_[id].parent;
  } else if (fresh_ < entries_max_) {
    id = fresh_++;
  } else {
    return kNoEntry;
  }
  const uint32_t generation = entries_[id].generation;
  entries_[id] = Entry{};
  entries_[id].key = key;
  entries_[id].generation = generation;
  entries_[id].in_use = 1;
  size_t at = key.hi & mask_;
  while (slots_[at] != 0) at = (at + 1) & mask_;
  slots_[at] = (uint64_t{Tag(key)} << 32) | (uint64_t{id} + 1);
  ++size_;
  return id;
}

void Index::Erase(EntryId id) noexcept {
  Entry& e = entries_[id];
  HF_CHECK(e.in_use);
  size_t hole = e.key.hi & mask_;
  while (static_cast<uint32_t>(slots_[hole]) != id + 1) {
    HF_CHECK(slots_[hole] != 0);
    hole = (hole + 1) & mask_;
  }
  // Shift back what would no longer be reached over the hole.
  for (size_t at = (hole + 1) & mask_; slots_[at] != 0; at = (at + 1) & mask_) {
    const size_t home = entries_[static_cast<EntryId>(slots_[at]) - 1].key.hi & mask_;
    if (((at - home) & mask_) >= ((at - hole) & mask_)) {
      slots_[hole] = slots_[at];
      hole = at;
    }
  }
  slots_[hole] = 0;
  const uint32_t generation = e.generation + 1;
  e = Entry{};
  e.generation = generation;
  e.parent = free_;
  free_ = id;
  --size_;
}

}  // namespace holdfast::internal
