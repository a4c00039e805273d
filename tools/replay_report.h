// What a replay found, as JSON for programs and as a table for people. Both say the same.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "eviction/request_log.h"
#include "tools/replay.h"
#include "tools/replay_options.h"
#include "tools/replay_plan.h"
#include "tools/workload.h"

namespace holdfast::tools {

// All that is reported; refers to what it was made from.
struct ReplayReport {
  const ReplayOptions& options;
  const Workload& workload;
  const ReplayPlan& plan;
  const ReplayResult& result;
  eviction::HitCount ceiling;                     // without any limit, from a cold start
  std::optional<eviction::HitCount> ttl_ceiling;  // with the ttl of the one hold asked for
  uint64_t input_tokens = 0;
};

// Blocks verified that came from a tier (hbm, ddr, flash, disk).
uint64_t VerifiedFrom(const ReplayReport& report, size_t tier);

// Computes the ceilings of the requests that were run.
ReplayReport MakeReport(const ReplayOptions& options, const Workload& workload,
                        const ReplayPlan& plan, const ReplayResult& result);

std::string ReportJson(const ReplayReport& report);  // ends with '\n'
std::string ReportText(const ReplayReport& report);

// "wrong byte: key ..., tier ..., offset ..."
std::string WrongByteLine(const WrongByte& wrong);

}  // namespace holdfast::tools
