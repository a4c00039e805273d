// RequestLog: a trace in memory, its block ids made dense, and what it could hit without limits.
//
//   RequestLog log;
//   log.Add({.ids = request.hash_ids, .tokens = request.input_length, .time_ms =
//   request.timestamp_ms}); HitCount ceiling = UnlimitedHits(log, /*block_tokens=*/512);
//
// Everywhere here a request's hits are the number of its leading blocks that are resident; after
// counting, all its blocks are used.
//
// Threading: thread-compatible.
// Memory: 4 bytes a reference, 24 a request, and a hash table of the distinct ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "eviction/policy.h"

namespace holdfast::eviction {

struct LoggedRequest {
  std::span<const uint64_t> ids;  // borrowed for the call
  uint64_t tokens = 0;            // of its input
  int64_t time_ms = 0;
};

class RequestLog {
 public:
  void Add(const LoggedRequest& request);

  size_t size() const { return rows_.size(); }
  std::span<const EntryId> ids(size_t request) const;
  uint64_t tokens(size_t request) const { return rows_[request].tokens; }
  int64_t time_ms(size_t request) const { return rows_[request].time_ms; }

  uint64_t references() const { return ids_.size(); }
  uint64_t input_tokens() const { return input_tokens_; }
  // Ids are 0 to distinct() - 1 in order of their first use.
  EntryId distinct() const { return static_cast<EntryId>(dense_.size()); }

 private:
  struct Row {
    uint64_t ids_end;
    uint64_t tokens;
    int64_t time_ms;
  };
  std::vector<EntryId> ids_;
  std::vector<Row> rows_;
  std::unordered_map<uint64_t, EntryId> dense_;
  uint64_t input_tokens_ = 0;
};

struct HitCount {
  uint64_t blocks = 0;
  uint64_t tokens = 0;  // blocks of a request times block_tokens, at most its input
  bool operator==(const HitCount&) const = default;
};

inline constexpr int64_t kNoTtl = std::numeric_limits<int64_t>::max();

// Without a limit of space. A block is served iff now < last use + ttl_ms; every use renews it.
HitCount UnlimitedHits(const RequestLog& log, uint32_t block_tokens, int64_t ttl_ms = kNoTtl);

}  // namespace holdfast::eviction
