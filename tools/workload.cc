#include "tools/workload.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "kvstore/clock.h"

namespace holdfast::tools {

Result<Workload> Workload::Read(std::string_view spec, const ReaderOptions& options) {
  struct Row {
    uint64_t tokens;
    int64_t time_ms;
  };
  Workload workload;
  workload.name_ = spec;
  workload.block_tokens_ = options.block_tokens;
  std::vector<Row> rows;
  const Instant start = Clock::System().Now();
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<TraceReader> reader, OpenTrace(spec, options));
  for (;;) {
    HF_ASSIGN_OR_RETURN(const std::optional<Request> request, reader->Next());
    if (!request) break;
    workload.ids_.insert(workload.ids_.end(), request->hash_ids.begin(), request->hash_ids.end());
    workload.ends_.push_back(workload.ids_.size());
    rows.push_back({request->input_length, request->timestamp_ms});
  }
  workload.parse_seconds_ = std::chrono::duration<double>(Clock::System().Now() - start).count();
  for (size_t request = 0; request < rows.size(); ++request) {
    workload.log_.Add({.ids = workload.ids(request),
                       .tokens = rows[request].tokens,
                       .time_ms = rows[request].time_ms});
  }
  return workload;
}

std::span<const uint64_t> Workload::ids(size_t request) const {
  const uint64_t begin = request == 0 ? 0 : ends_[request - 1];
  return std::span(ids_).subspan(begin, ends_[request] - begin);
}

eviction::RequestLog Workload::Log(size_t requests) const {
  eviction::RequestLog log;
  for (size_t request = 0; request < requests; ++request) {
    log.Add({.ids = ids(request), .tokens = tokens(request), .time_ms = log_.time_ms(request)});
  }
  return log;
}

}  // namespace holdfast::tools
