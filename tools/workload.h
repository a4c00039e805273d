// Workload: a trace in memory, ready to be replayed: 8 bytes for a block reference.
//
// A replay needs all of it before it starts: the index is sized to the distinct blocks, and reading
// and hashing are timed apart from the store.
//
// Threading: immutable. Memory: 12 bytes a reference and 64 a distinct block. Errors: as
// TraceReader.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eviction/request_log.h"
#include "kvstore/status.h"
#include "trace/reader.h"

namespace holdfast::tools {

class Workload {
 public:
  static Result<Workload> Read(std::string_view spec, const ReaderOptions& options);

  const std::string& name() const noexcept { return name_; }
  uint32_t block_tokens() const noexcept { return block_tokens_; }
  size_t requests() const noexcept { return log_.size(); }
  uint64_t references() const noexcept { return ids_.size(); }
  uint64_t distinct() const noexcept { return log_.distinct(); }
  double parse_seconds() const noexcept { return parse_seconds_; }

  // Prefix identities of a request as the trace has them, root first.
  std::span<const uint64_t> ids(size_t request) const;
  uint64_t tokens(size_t request) const { return log_.tokens(request); }
  int64_t time_ms(size_t request) const { return log_.time_ms(request) - log_.time_ms(0); }

  // The first `requests` of it, for ceilings of a run that ended early.
  eviction::RequestLog Log(size_t requests) const;
  const eviction::RequestLog& log() const noexcept { return log_; }

 private:
  std::string name_;
  uint32_t block_tokens_ = 0;
  double parse_seconds_ = 0;
  std::vector<uint64_t> ids_;
  std::vector<uint64_t> ends_;  // of the ids of each request
  eviction::RequestLog log_;
};

}  // namespace holdfast::tools
