// The Mooncake dialect: JSON lines, sorted by time.
//
//   {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [integers]}
//
// with an optional "session_id" (a string); further fields are ignored. Every row is checked: the
// four fields are there once and are integers from 0 to 2^63 - 1, time does not go back and stays
// within kTraceSpanMsMax of the first row, and the number of ids is input_length / block_tokens
// rounded up (the last block may be partial) or down (it was dropped). A wrong block_tokens is
// found by that last check.
//
// Threading, memory, errors: as TraceReader.
#pragma once

#include <memory>
#include <string_view>

#include "kvstore/status.h"
#include "trace/reader.h"

namespace holdfast {

// `path` is a file, plain or gzip, or "-" for standard input.
Result<std::unique_ptr<TraceReader>> OpenMooncake(std::string_view path,
                                                  const ReaderOptions& options);

}  // namespace holdfast
