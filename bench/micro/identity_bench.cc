// The identities of a request: hashed once per request, outside any lock.
#include <vector>

#include <benchmark/benchmark.h>

#include "kvstore/blocks.h"

namespace holdfast {
namespace {

KeySpace Space(uint32_t block_tokens, uint32_t key_bytes) {
  SpaceSpec spec;
  spec.model = "bench";
  spec.block_tokens = block_tokens;
  spec.key_bytes = key_bytes;
  return {.block_tokens = block_tokens, .key_bytes = key_bytes, .root = SpaceRoot(spec, {}, 0)};
}

// What the work must have given: each run differs from the one before and repeats exactly.
bool IsRight(const Result<Blocks>& blocks, const Result<Blocks>& again, size_t count) {
  return blocks.has_value() && again.has_value() && blocks->size() == count &&
         blocks->key(0) == again->key(0) && blocks->key(count - 1) == again->key(count - 1) &&
         (count == 1 || blocks->key(0) != blocks->key(count - 1));
}

void BM_BlocksFromTokens(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const auto block_tokens = static_cast<uint32_t>(state.range(1));
  const KeySpace space = Space(block_tokens, 0);
  std::vector<uint32_t> tokens(count * block_tokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint32_t>(i * 2654435761u);
  BlockKey last;
  for (auto _ : state) {
    ++tokens[0];
    auto blocks = Blocks::FromTokens(space, tokens);
    if (!blocks.has_value() || blocks->size() != count || blocks->key(count - 1) == last) {
      state.SkipWithError("not the blocks of these tokens");
      return;
    }
    last = blocks->key(count - 1);
  }
  if (!IsRight(Blocks::FromTokens(space, tokens), Blocks::FromTokens(space, tokens), count)) {
    state.SkipWithError("the same tokens gave other blocks");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(tokens.size() * 4));
}
BENCHMARK(BM_BlocksFromTokens)
    ->ArgNames({"blocks", "tokens"})
    ->Args({1, 64})
    ->Args({256, 16})
    ->Args({256, 64})
    ->Args({256, 512});

void BM_BlocksFromKeys(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const auto key_bytes = static_cast<uint32_t>(state.range(1));
  const KeySpace space = Space(0, key_bytes);
  std::vector<std::byte> packed(count * key_bytes);
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::byte>(i * 131 + i / 256);
  BlockKey first;
  for (auto _ : state) {
    packed[0] = static_cast<std::byte>(static_cast<uint8_t>(packed[0]) + 1);
    auto blocks = Blocks::FromKeys(space, packed, {.linked = true});
    if (!blocks.has_value() || blocks->size() != count || blocks->key(0) == first) {
      state.SkipWithError("not the blocks of these keys");
      return;
    }
    first = blocks->key(0);
  }
  if (!IsRight(Blocks::FromKeys(space, packed), Blocks::FromKeys(space, packed), count)) {
    state.SkipWithError("the same keys gave other blocks");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(packed.size()));
}
BENCHMARK(BM_BlocksFromKeys)
    ->ArgNames({"blocks", "key_bytes"})
    ->Args({1, 16})
    ->Args({32, 16})
    ->Args({256, 16})
    ->Args({256, 32})
    ->Args({256, 64});

}  // namespace
}  // namespace holdfast
