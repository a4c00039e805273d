// Look-ups in the index, with the hints that Ledger::ForEach gives ahead and without any.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "kvstore/internal/index.h"

namespace holdfast::internal {
namespace {

constexpr size_t kChainBlocks = 128;

// Keys as SHA-256 gives them: no pattern.
std::vector<BlockKey> Keys(size_t count) {
  std::mt19937_64 random(1);
  std::vector<BlockKey> keys(count);
  for (BlockKey& key : keys) key = {random(), random()};
  return keys;
}

bool FillIndex(Index& index, const std::vector<BlockKey>& keys) {
  if (!index.Init(static_cast<uint32_t>(keys.size())).ok()) return false;
  return std::ranges::all_of(keys,
                             [&](const BlockKey& key) { return index.Insert(key) != kNoEntry; });
}

// How many of a chain's keys are found, each where it was put.
size_t FindChain(const Index& index, const BlockKey* keys, bool ahead) {
  constexpr size_t kSlotsAhead = 16, kEntriesAhead = 8;  // as in Ledger::ForEach
  size_t found = 0;
  for (size_t i = 0; ahead && i < kSlotsAhead; ++i) index.PrefetchSlot(keys[i]);
  for (size_t i = 0; ahead && i < kEntriesAhead; ++i) index.PrefetchEntry(keys[i]);
  for (size_t i = 0; i < kChainBlocks; ++i) {
    if (ahead && i + kSlotsAhead < kChainBlocks) index.PrefetchSlot(keys[i + kSlotsAhead]);
    if (ahead && i + kEntriesAhead < kChainBlocks) index.PrefetchEntry(keys[i + kEntriesAhead]);
    const EntryId id = index.Find(keys[i]);
    found += id != kNoEntry && index[id].key == keys[i] ? 1 : 0;
  }
  return found;
}

void BM_IndexFind(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const bool ahead = state.range(1) != 0;
  const std::vector<BlockKey> keys = Keys(count);
  Index index;
  if (!FillIndex(index, keys)) {
    state.SkipWithError("the index took fewer keys than it has room for");
    return;
  }
  std::mt19937_64 random(2);
  const size_t chains = count / kChainBlocks;
  for (auto _ : state) {
    const size_t chain = random() % chains;
    if (FindChain(index, &keys[chain * kChainBlocks], ahead) != kChainBlocks) {
      state.SkipWithError("a key that was put was not found");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kChainBlocks));
}
BENCHMARK(BM_IndexFind)
    ->ArgNames({"entries", "ahead"})
    ->Args({100'000, 1})
    ->Args({1'000'000, 0})
    ->Args({1'000'000, 1});

void BM_IndexMiss(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<BlockKey> keys = Keys(count);
  Index index;
  if (!FillIndex(index, keys)) {
    state.SkipWithError("the index took fewer keys than it has room for");
    return;
  }
  std::mt19937_64 random(3);
  for (auto _ : state) {
    if (index.Find({random(), random()}) != kNoEntry) {
      state.SkipWithError("a key that was never put was found");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_IndexMiss)->ArgNames({"entries"})->Arg(1'000'000);

// Takes one out and puts another in: deletion shifts back, so the table never wears out.
void BM_IndexEraseInsert(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<BlockKey> keys = Keys(count);
  Index index;
  if (!FillIndex(index, keys)) {
    state.SkipWithError("the index took fewer keys than it has room for");
    return;
  }
  std::mt19937_64 random(4);
  for (auto _ : state) {
    BlockKey& key = keys[random() % count];
    index.Erase(index.Find(key));
    key = {random(), random()};
    if (index.Insert(key) == kNoEntry) {
      state.SkipWithError("no room where one was just taken out");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_IndexEraseInsert)->ArgNames({"entries"})->Arg(1'000'000);

}  // namespace
}  // namespace holdfast::internal
