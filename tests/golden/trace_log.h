// Traces for the golden tests, read through the product's reader.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "eviction/request_log.h"
#include "trace/reader.h"

namespace holdfast::testing {

inline constexpr char kConversation[] = HOLDFAST_TRACE_DIR "/mooncake/conversation_trace.jsonl";
inline constexpr char kSynthetic[] = HOLDFAST_TRACE_DIR "/mooncake/synthetic_trace.jsonl";
inline constexpr char kAgent[] = HOLDFAST_TRACE_DIR "/agent/weka_first200_b512_lanes32.jsonl.gz";

inline eviction::RequestLog ReadLog(const std::string& spec, const ReaderOptions& options) {
  eviction::RequestLog log;
  auto reader = OpenTrace(spec, options);
  EXPECT_TRUE(reader.has_value()) << reader.error().ToString();
  while (reader.has_value()) {
    const Result<std::optional<Request>> next = (*reader)->Next();
    EXPECT_TRUE(next.has_value()) << next.error().ToString();
    if (!next.has_value() || !*next) break;
    const Request& request = **next;
    log.Add(
        {.ids = request.hash_ids, .tokens = request.input_length, .time_ms = request.timestamp_ms});
  }
  return log;
}

}  // namespace holdfast::testing

#define HF_SKIP_WITHOUT_TRACE(path)                                                         \
  if (!std::filesystem::exists(path)) {                                                     \
    GTEST_SKIP() << "NOT CHECKED: no trace " << (path) << "; configure HOLDFAST_TRACE_DIR"; \
  }                                                                                         \
  static_assert(true)
