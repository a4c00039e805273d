// Cost of a use and of an insertion into a full tier, by policy and number of entries.
//
// Uses come in chains of 32 blocks in random order, deepest block first, each id prefetched eight
// calls ahead. scattered:1 gives the blocks of a chain ids from all over the tier, as after long
// use; scattered:0 gives them neighbouring ids, as in a tier that is filled for the first time.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "eviction/policy.h"

namespace holdfast::eviction {
namespace {

constexpr uint32_t kChainBlocks = 32;
constexpr uint32_t kAhead = 8;

// A full-period walk over the chains in an order no prefetcher guesses.
class Chains {
 public:
  explicit Chains(uint32_t entries) : count_(entries / kChainBlocks) {}

  uint32_t NextFirst() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 32) * count_ >> 32) * kChainBlocks;
  }

 private:
  uint64_t count_;
  uint64_t state_ = 1;
};

std::vector<EntryId> Ids(uint32_t entries, bool scattered) {
  std::vector<EntryId> ids(entries);
  std::iota(ids.begin(), ids.end(), EntryId{0});
  if (scattered) std::shuffle(ids.begin(), ids.end(), std::mt19937(42));
  return ids;
}

std::unique_ptr<Policy> Full(benchmark::State& state, const std::vector<EntryId>& ids) {
  const std::string_view name = PolicyNames()[static_cast<size_t>(state.range(0))];
  state.SetLabel(std::string(name));
  auto policy = CreatePolicy(name, {.entries_max = static_cast<uint32_t>(ids.size())});
  if (!policy.has_value()) {
    state.SkipWithError("no policy");
    return nullptr;
  }
  for (EntryId id : ids) (*policy)->Insert(id, 0, {});
  return *std::move(policy);
}

void BM_PolicyTouch(benchmark::State& state) {
  const std::vector<EntryId> ids = Ids(static_cast<uint32_t>(state.range(1)), state.range(2) != 0);
  const std::unique_ptr<Policy> policy = Full(state, ids);
  if (policy == nullptr) return;
  Chains chains(static_cast<uint32_t>(ids.size()));
  const EntryId* next = &ids[chains.NextFirst()];
  for (auto _ : state) {
    const EntryId* chain = next;
    next = &ids[chains.NextFirst()];
    for (uint32_t i = kChainBlocks; i-- > 0;) {
      policy->Prefetch(i >= kAhead ? chain[i - kAhead] : next[kChainBlocks - kAhead + i]);
      policy->Touch(chain[i]);
    }
    const bool used = policy->name() == "fifo" || policy->VictimAfter(chain[0]) == kNoEntry;
    if (!used || policy->size(0) != ids.size()) {
      state.SkipWithError("the root of the chain is not the newest entry");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations() * kChainBlocks);
}

void BM_PolicyInsertEvict(benchmark::State& state) {
  const std::vector<EntryId> ids = Ids(static_cast<uint32_t>(state.range(1)), state.range(2) != 0);
  const std::unique_ptr<Policy> policy = Full(state, ids);
  if (policy == nullptr) return;
  for (auto _ : state) {
    const EntryId victim = policy->Victim(0);
    policy->Evict(victim);
    policy->Insert(victim, 0, {});
    if (policy->VictimAfter(victim) != kNoEntry || policy->Victim(0) == victim) {
      state.SkipWithError("the inserted entry is not the newest");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
}

void Arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"policy", "entries", "scattered"});
  for (int64_t policy = 0; policy < static_cast<int64_t>(PolicyNames().size()); ++policy) {
    for (int64_t entries : {10'000, 1'000'000}) {
      benchmark->Args({policy, entries, 0})->Args({policy, entries, 1});
    }
  }
}
BENCHMARK(BM_PolicyTouch)->Apply(Arguments)->Args({0, 10'000'000, 1});
BENCHMARK(BM_PolicyInsertEvict)->Apply(Arguments);

}  // namespace
}  // namespace holdfast::eviction
