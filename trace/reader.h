// TraceReader: the requests of a trace, one at a time, whatever its dialect.
//
//   auto reader = OpenTrace("conversation_trace.jsonl.gz", {.tail = Tail::kDrop});
//   if (!reader.has_value()) return std::move(reader).error();
//   for (;;) {
//     HF_ASSIGN_OR_RETURN(std::optional<Request> request, (*reader)->Next());
//     if (!request) break;
//     ...
//   }
//
// Threading: thread-compatible.
// Memory: one row of a file, or the open sessions of a generator; never the whole trace.
// Errors: kInvalidArgument names the file, the line and what would be right there; kDataLoss is a
//   compressed file that is cut short or damaged; kIoError carries the errno.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "kvstore/status.h"
#include "trace/request.h"

namespace holdfast {

// Whether the last block of a prompt is kept when the prompt fills it only in part.
enum class Tail : uint8_t { kKeep, kDrop };

// From the first request to the last: as far as a clock of nanoseconds counts, 292 years.
inline constexpr int64_t kTraceSpanMsMax = INT64_MAX / 1'000'000;

struct ReaderOptions {
  uint32_t block_tokens = 512;  // what an id of the trace covers; at least 1
  Tail tail = Tail::kDrop;
  uint64_t requests_max = 0;  // 0: a whole file; for a generator the length of the trace it follows
  uint64_t seed = 1;          // of a generator
};

class TraceReader {
 public:
  TraceReader() = default;
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;
  virtual ~TraceReader() = default;

  // The next request, nullopt after the last one. After an error every further call returns an
  // error. Timestamps never decrease, and none is more than kTraceSpanMsMax behind the first.
  virtual Result<std::optional<Request>> Next() = 0;
};

// `spec` is a path (plain or gzip), "-" for standard input (either), or "synthetic:conversation" or
// "synthetic:agent" for a seeded generator.
Result<std::unique_ptr<TraceReader>> OpenTrace(std::string_view spec, const ReaderOptions& options);

}  // namespace holdfast
