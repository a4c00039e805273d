// Policy: in which order the entries of a full tier go.
//
// A policy orders entry ids and nothing else: it does not know what an entry is, how many bytes a
// tier has, or who may not be evicted. The caller asks for the next victim and, where it may not
// take that one, for the choice after it. A policy keeps several separate orders ("lists", one for
// each rank of victims in a tier); an entry is in at most one of them.
//
//   auto policy = *eviction::CreatePolicy("lru", {.entries_max = 1'000'000, .lists = 4});
//   policy->Insert(id, /*list=*/0, {.bytes = 2 << 20, .position = 17});
//   policy->Touch(id);
//   for (EntryId v = policy->Victim(0); v != kNoEntry; v = policy->VictimAfter(v)) { ... }
//   policy->Evict(v);
//
// Leaf first is the caller's order of calls, not the policy's: the blocks of a request are inserted
// and touched deepest first, so that the root ends as the most recent.
//
// Threading: thread-compatible; the store calls it under its lock. No call allocates, waits or
//   takes more than a bounded number of steps.
// Memory: all at creation, proportional to entries_max; lru and fifo take 12 bytes an entry of
//   virtual memory, resident once an id is used.
// Errors: only CreatePolicy can fail. An id that is out of range, inserted twice or not present
//   where it has to be is a bug of the caller and ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kvstore/status.h"

namespace holdfast::eviction {

using EntryId = uint32_t;  // dense: below entries_max
inline constexpr EntryId kNoEntry = UINT32_MAX;

using ListId = uint8_t;
inline constexpr ListId kNoList = UINT8_MAX;
inline constexpr ListId kListsMax = 31;

inline constexpr uint32_t kEntriesMax = (1u << 26) - 1;

// What a policy may weigh. Zero: unknown.
struct Attributes {
  uint64_t bytes = 0;
  uint32_t position = 0;  // index in its chain
  double value = 0;       // seconds it costs to compute again
  uint64_t fingerprint =
      0;  // of its key: outlives the entry, for policies that remember the evicted
};

class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  virtual std::string_view name() const noexcept = 0;

  // Makes an absent entry the newest of its list.
  virtual void Insert(EntryId id, ListId list, const Attributes& attributes) = 0;
  // A use of a present entry.
  virtual void Touch(EntryId id) = 0;
  // Puts a present entry into another list, at the place its age gives it there where a bounded
  // number of steps finds that place, else near it.
  virtual void Move(EntryId id, ListId list) = 0;
  // Forgets a present entry.
  virtual void Remove(EntryId id) = 0;
  // Remove of an entry that goes because it was chosen: policies that remember what they evicted
  // tell the two apart.
  virtual void Evict(EntryId id) { Remove(id); }

  // The next to go, and the choice after `id` in the list of `id`; kNoEntry at the end. From Victim
  // on, VictimAfter gives every entry of the list once.
  virtual EntryId Victim(ListId list) const = 0;
  virtual EntryId VictimAfter(EntryId id) const = 0;

  virtual bool Contains(EntryId id) const = 0;
  virtual ListId ListOf(EntryId id) const = 0;  // kNoList when absent
  virtual size_t size(ListId list) const = 0;

  // Hints, free to ignore. Prefetch: `id` will be used within the next dozen calls.
  virtual void Prefetch(EntryId id) const { static_cast<void>(id); }
  // New facts about a present entry, such as what computing it took.
  virtual void Update(EntryId id, const Attributes& attributes) {
    static_cast<void>(id), static_cast<void>(attributes);
  }
  // The hold clock, for policies that reckon in time and not in uses. Never goes backwards.
  virtual void SetTime(int64_t now_ms) { static_cast<void>(now_ms); }
};

struct PolicyOptions {
  uint32_t entries_max = 0;  // 1 to kEntriesMax
  ListId lists = 1;          // 1 to kListsMax
};

// kInvalidArgument: an unknown name (the message lists the known ones) or options out of range.
// kResourceExhausted: no memory.
Result<std::unique_ptr<Policy>> CreatePolicy(std::string_view name, const PolicyOptions& options);

std::span<const std::string_view> PolicyNames();

}  // namespace holdfast::eviction
