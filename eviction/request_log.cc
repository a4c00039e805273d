#include "eviction/request_log.h"

#include <algorithm>

#include "kvstore/check.h"

namespace holdfast::eviction {

void RequestLog::Add(const LoggedRequest& request) {
  for (uint64_t id : request.ids) {
    const auto next = static_cast<EntryId>(dense_.size());
    HF_CHECK(next < kNoEntry);
    ids_.push_back(dense_.try_emplace(id, next).first->second);
  }
  rows_.push_back({ids_.size(), request.tokens, request.time_ms});
  input_tokens_ += request.tokens;
}

std::span<const EntryId> RequestLog::ids(size_t request) const {
  const uint64_t begin = request == 0 ? 0 : rows_[request - 1].ids_end;
  return std::span(ids_).subspan(begin, rows_[request].ids_end - begin);
}

HitCount UnlimitedHits(const RequestLog& log, uint32_t block_tokens, int64_t ttl_ms) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  std::vector<int64_t> last_use(log.distinct(), kNever);
  HitCount hits;
  for (size_t request = 0; request < log.size(); ++request) {
    const int64_t now = log.time_ms(request);
    uint64_t run = 0;
    for (EntryId id : log.ids(request)) {
      if (last_use[id] == kNever || now - last_use[id] >= ttl_ms) break;
      ++run;
    }
    for (EntryId id : log.ids(request)) last_use[id] = now;
    hits.blocks += run;
    hits.tokens += std::min(run * block_tokens, log.tokens(request));
  }
  return hits;
}

}  // namespace holdfast::eviction
