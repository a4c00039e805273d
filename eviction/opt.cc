#include <algorithm>
#include <queue>
#include <vector>

#include "eviction/simulate.h"

namespace holdfast::eviction {
namespace {

constexpr uint32_t kNever = UINT32_MAX;

// When a block is needed again: by which request, and how deep in it. Larger goes first.
struct NextUse {
  uint32_t request = kNever;
  uint32_t position = 0;
  auto operator<=>(const NextUse&) const = default;
};

struct Candidate {
  NextUse use;
  EntryId id;
  bool operator<(const Candidate& other) const { return use < other.use; }
};

// For each reference of the log, in order, the request that uses its id next.
std::vector<uint32_t> NextRequests(const RequestLog& log) {
  std::vector<uint32_t> next(log.references());
  std::vector<uint32_t> seen(log.distinct(), kNever);
  uint64_t end = log.references();
  for (size_t request = log.size(); request-- > 0;) {
    const std::span<const EntryId> ids = log.ids(request);
    end -= ids.size();
    for (size_t i = 0; i < ids.size(); ++i) next[end + i] = seen[ids[i]];
    for (EntryId id : ids) seen[id] = static_cast<uint32_t>(request);
  }
  return next;
}

class OptCache {
 public:
  OptCache(EntryId distinct, uint64_t capacity)
      : use_(distinct), resident_(distinct), capacity_(capacity) {}

  bool Contains(EntryId id) const { return resident_[id]; }

  void Use(EntryId id, NextUse next) {
    if (!resident_[id] && !MakeRoom(next)) return;
    if (!resident_[id]) ++count_;
    resident_[id] = true;
    use_[id] = next;
    queue_.push({next, id});
  }

 private:
  bool MakeRoom(NextUse next) {
    if (next.request == kNever || capacity_ == 0) return false;
    if (count_ < capacity_) return true;
    // Every use pushes, so the queue also holds what is no longer true of an id.
    while (!resident_[queue_.top().id] || use_[queue_.top().id] != queue_.top().use) queue_.pop();
    const Candidate farthest = queue_.top();
    if (farthest.use <= next) return false;
    queue_.pop();
    resident_[farthest.id] = false;
    --count_;
    return true;
  }

  std::priority_queue<Candidate> queue_;
  std::vector<NextUse> use_;
  std::vector<bool> resident_;
  uint64_t count_ = 0;
  uint64_t capacity_;
};

}  // namespace

HitCount OptHits(const RequestLog& log, const CacheModel& cache) {
  const std::vector<uint32_t> next = NextRequests(log);
  OptCache opt(log.distinct(), cache.capacity);
  HitCount hits;
  uint64_t reference = 0;
  for (size_t request = 0; request < log.size(); ++request) {
    const std::span<const EntryId> ids = log.ids(request);
    uint64_t run = 0;
    while (run < ids.size() && opt.Contains(ids[run])) ++run;
    for (uint32_t i = 0; i < ids.size(); ++i) opt.Use(ids[i], {next[reference + i], i});
    reference += ids.size();
    hits.blocks += run;
    hits.tokens += std::min(run * cache.block_tokens, log.tokens(request));
  }
  return hits;
}

}  // namespace holdfast::eviction
