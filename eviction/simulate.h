// Hits of a policy, or of the offline optimum, in one cache of equal blocks: the numbers a store is
// compared with. No holds, no tiers, no bytes.
//
//   auto lru = *CreatePolicy("lru", {.entries_max = log.distinct()});
//   HitCount online = SimulatePolicy(*lru, log, {.capacity = 10'000});
//   HitCount ceiling = OptHits(log, {.capacity = 10'000});
//
// Threading: thread-compatible.
#pragma once

#include <cstdint>

#include "eviction/policy.h"
#include "eviction/request_log.h"

namespace holdfast::eviction {

// In which order a request inserts and touches its blocks. Leaf-first recency needs the deepest
// first.
enum class UseOrder : uint8_t { kDeepestFirst, kPromptOrder };

struct CacheModel {
  uint64_t capacity = 0;  // blocks; 0 hits nothing
  uint32_t block_tokens = 512;
  UseOrder order = UseOrder::kDeepestFirst;  // OptHits has no use for it
};

// The policy must be empty and have room for log.distinct() entries; list 0 is used, and the
// entries it ends with are left in it. A full cache evicts before each insertion.
HitCount SimulatePolicy(Policy& policy, const RequestLog& log, const CacheModel& cache);

// A cache that knows the next request of each block: it may refuse to store, and evicts the block
// whose next request is farthest, of one request the deepest. O(references * log(references)).
HitCount OptHits(const RequestLog& log, const CacheModel& cache);

}  // namespace holdfast::eviction
