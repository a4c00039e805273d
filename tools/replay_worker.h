// ReplayWorker: one request after the other, as an engine would: find, fetch, check, put the rest.
//
// Threading: thread-confined. Memory: two windows of payloads; none without bytes. What Context
// refers to outlives it. Errors: those of the store's verbs; what becomes of a block is counted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvstore/store.h"
#include "tools/replay_counts.h"
#include "tools/replay_options.h"
#include "tools/replay_plan.h"
#include "tools/transfer_buffer.h"
#include "tools/workload.h"

namespace holdfast::tools {

class ReplayWorker {
 public:
  struct Context {
    Store& store;
    const Workload& workload;
    const ReplayOptions& options;
    const ReplayPlan& plan;
    std::span<const Blocks> blocks;  // of each request
  };

  static Result<std::unique_ptr<ReplayWorker>> Create(const Context& context);

  // False: a wrong byte came back; counts().wrong says which.
  Result<bool> RunRequest(size_t request);

  const ReplayCounts& counts() const noexcept { return counts_; }

 private:
  explicit ReplayWorker(const Context& context);

  // Blocks of `match` that came back, from the first on.
  Result<size_t> FetchAll(const Blocks& match, size_t request);
  Status PutAll(const Blocks& rest, size_t request);
  // Compares what lies in the slots with what was put.
  bool Verify(const Blocks& part, size_t request, size_t first);

  const Context context_;
  const uint64_t payload_bytes_;
  size_t window_ = 0;  // blocks of one call
  std::unique_ptr<TransferBuffer> fetched_;
  std::unique_ptr<TransferBuffer> computed_;
  std::vector<Item> items_;
  std::array<Where, TransferBuffer::kSlotsMax> where_{};
  ReplayCounts counts_;
};

}  // namespace holdfast::tools
