// ReplayPlan: what the options of a replay and its trace mean for a store.
//
//   HF_ASSIGN_OR_RETURN(ReplayPlan plan, PlanReplay(options, workload));
//
// Threading: pure functions. Errors: kInvalidArgument names the option.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/blocks.h"
#include "kvstore/options.h"
#include "kvstore/store.h"
#include "tools/replay_options.h"
#include "tools/workload.h"

namespace holdfast::tools {

struct PlannedHold {
  std::string name;  // of its class; "none"
  Hold hold;
};

struct ReplayPlan {
  StoreOptions store;              // but for the directory
  SpaceSpec space;                 // of all blocks
  std::vector<PlannedHold> holds;  // requests are spread over them
  std::vector<std::string> notes;  // a line each, for people
  bool needs_directory = false;
};

Result<ReplayPlan> PlanReplay(const ReplayOptions& options, const Workload& workload);

// Which of the `holds` a request asks for.
size_t HoldOfRequest(size_t holds, uint64_t seed, uint64_t request);

// The name of a block outside: 16 bytes.
void AppendExternalKey(uint64_t id, std::vector<std::byte>& packed);

}  // namespace holdfast::tools
