// Replay: a trace through a store, request by request.
//
//   HF_ASSIGN_OR_RETURN(ReplayResult result, Replay(options, workload, plan, interrupt));
//
// Threading: runs options.concurrency workers, the first of them on the caller's thread. Errors:
// what Store::Open and its verbs answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/stats.h"
#include "tools/console.h"
#include "tools/replay_counts.h"
#include "tools/replay_options.h"
#include "tools/replay_plan.h"
#include "tools/workload.h"

namespace holdfast::tools {

struct DrainResult {
  double seconds = 0;
  std::string left;  // what the store says was left; empty: nothing
};

struct ReplayResult {
  ReplayCounts counts;
  StoreStats stats;              // at the end, before the store is closed
  uint64_t entries_at_open = 0;  // more than 0: a warm directory
  bool interrupted = false;
  double hash_seconds = 0;
  double replay_seconds = 0;
  std::optional<DrainResult> drain;
  std::vector<std::string> warnings;  // of the store
};

// plan.store.directory is set where the plan needs one. `opened` is called once the store is open:
// from then on there may be something worth to keep in it.
Result<ReplayResult> Replay(const ReplayOptions& options, const Workload& workload,
                            const ReplayPlan& plan, const Interrupt& interrupt,
                            const std::function<void()>& opened);

}  // namespace holdfast::tools
