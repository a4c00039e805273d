// Checksums of a payload as it enters the store, with and without the copy, beside plain memcpy.
// The memory walked is larger than the caches, so that every pass starts cold, as in a store.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include <benchmark/benchmark.h>

#include "kvstore/frame.h"

namespace holdfast {
namespace {

constexpr uint64_t kMemoryBytes = 256u << 20;

struct FreeHuge {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{2u << 20}); }
};
using Memory = std::unique_ptr<std::byte[], FreeHuge>;

Memory MakeMemory(int fill) {
  Memory memory(static_cast<std::byte*>(::operator new (kMemoryBytes, std::align_val_t{2u << 20})));
  std::memset(memory.get(), fill, kMemoryBytes);
  return memory;
}

// Walks the memory in steps of one payload.
class Walk {
 public:
  explicit Walk(uint64_t payload_bytes) : payload_bytes_(payload_bytes) {}
  uint64_t Next() {
    at_ = at_ + 2 * payload_bytes_ <= kMemoryBytes ? at_ + payload_bytes_ : 0;
    return at_;
  }

 private:
  uint64_t payload_bytes_;
  uint64_t at_ = 0;
};

void BM_Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<uint64_t>(state.range(0));
  const Memory source = MakeMemory(1);
  const Memory target = MakeMemory(2);
  Walk walk(bytes);
  for (auto _ : state) {
    const uint64_t at = walk.Next();
    std::memcpy(target.get() + at, source.get() + at, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_ChecksumPayload(benchmark::State& state) {
  const auto bytes = static_cast<uint64_t>(state.range(0));
  const bool copy = state.range(1) != 0;
  const Memory source = MakeMemory(1);
  const Memory target = MakeMemory(2);
  FrameFixed fixed{};
  InitFixed({.key = {1, 2}}, bytes, fixed);
  Walk walk(bytes);
  uint64_t at = 0;
  for (auto _ : state) {
    at = walk.Next();
    const Extent whole{source.get() + at, bytes};
    ChecksumPayload({&whole, 1}, copy ? target.get() + at : nullptr, fixed);
  }
  const Extent stored{(copy ? target : source).get() + at, bytes};
  if (CheckPayload(fixed, 0, {&stored, 1}) != FrameFault::kNone) state.SkipWithError("wrong sum");
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_CheckHeader(benchmark::State& state) {
  FrameHeader header{};
  InitFixed({.key = {1, 2}}, 2u << 20, header.fixed);
  SealFixed(header.fixed);
  SealPlacement(header);
  const FrameExpect expect{.key = {1, 2}, .payload_bytes = 2u << 20};
  for (auto _ : state) {
    if (CheckHeader(header, expect) != FrameFault::kNone) state.SkipWithError("wrong header");
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t bytes : {256 << 10, 1 << 20, 2 << 20, 4 << 20}) benchmark->Args({bytes});
}

BENCHMARK(BM_Memcpy)->ArgName("bytes")->Apply(Sizes);
BENCHMARK(BM_ChecksumPayload)
    ->ArgNames({"bytes", "copy"})
    ->ArgsProduct({{256 << 10, 1 << 20, 2 << 20, 4 << 20}, {0, 1}});
BENCHMARK(BM_CheckHeader);

}  // namespace
}  // namespace holdfast
