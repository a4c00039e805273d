#include "eviction/simulate.h"

#include <algorithm>

namespace holdfast::eviction {
namespace {

void Use(Policy& policy, EntryId id, uint32_t position, uint64_t capacity) {
  if (policy.Contains(id)) {
    policy.Touch(id);
    return;
  }
  if (policy.size(0) >= capacity) policy.Evict(policy.Victim(0));
  policy.Insert(id, 0, {.position = position});
}

}  // namespace

HitCount SimulatePolicy(Policy& policy, const RequestLog& log, const CacheModel& cache) {
  HitCount hits;
  if (cache.capacity == 0) return hits;
  for (size_t request = 0; request < log.size(); ++request) {
    const std::span<const EntryId> ids = log.ids(request);
    policy.SetTime(log.time_ms(request));
    uint32_t run = 0;
    while (run < ids.size() && policy.Contains(ids[run])) ++run;
    const auto count = static_cast<uint32_t>(ids.size());
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t position = cache.order == UseOrder::kPromptOrder ? i : count - 1 - i;
      Use(policy, ids[position], position, cache.capacity);
    }
    hits.blocks += run;
    hits.tokens += std::min(uint64_t{run} * cache.block_tokens, log.tokens(request));
  }
  return hits;
}

}  // namespace holdfast::eviction
