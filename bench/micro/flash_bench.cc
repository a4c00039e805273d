// The flash log's accounting, which runs under the store's lock, without a medium: a frame put
// (allocate, submit, poll, and its share of reclaim), a touch, the choice of a victim.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include <benchmark/benchmark.h>

#include "kvstore/tiers.h"

namespace holdfast {
namespace {

constexpr uint64_t kPayload = 2u << 20;

std::unique_ptr<GroupedTier> MakeTier(uint64_t segments) {
  auto tier = CreateFlashTier(nullptr, Clock::System(), nullptr,
                              {.bytes = false, .capacity_bytes = segments * (256u << 20)});
  return *std::move(tier);
}

void Retire(GroupedTier& tier, std::vector<LiveCopy>& live) {
  const std::optional<GroupId> victim = tier.Victim(0);
  live.clear();
  tier.Live(*victim, live);
  tier.BeginRetire(*victim);
  for (const LiveCopy& copy : live) tier.Free(copy.place);
  tier.Retire(*victim);
}

Place Put(GroupedTier& tier, EntryId entry, std::vector<LiveCopy>& live) {
  const Shape shape{.payload_bytes = kPayload, .entry = entry, .touched = entry};
  std::optional<Place> place = tier.Allocate(shape);
  while (!place) {
    Retire(tier, live);
    place = tier.Allocate(shape);
  }
  FrameOp op{.kind = FrameOpKind::kWrite, .place = *place};
  FrameOp* out = nullptr;
  tier.Submit(&op);
  if (tier.Poll({&out, 1}) != 1 || out != &op) std::abort();
  return *place;
}

void BM_FlashLogPut(benchmark::State& state) {
  const auto tier = MakeTier(static_cast<uint64_t>(state.range(0)));
  std::vector<LiveCopy> live;
  EntryId entry = 0;
  for (auto _ : state) benchmark::DoNotOptimize(Put(*tier, ++entry, live));
}

void BM_FlashLogTouched(benchmark::State& state) {
  const auto segments = static_cast<uint64_t>(state.range(0));
  const auto tier = MakeTier(segments);
  std::vector<LiveCopy> live;
  std::vector<Place> places;
  for (EntryId entry = 1; tier->usage().groups_free > 3; ++entry) {
    places.push_back(Put(*tier, entry, live));
  }
  uint32_t stamp = static_cast<uint32_t>(places.size());
  uint64_t random = 1;
  for (auto _ : state) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const Place place = places[(random >> 32) * places.size() >> 32];
    tier->Touched(place, stamp, stamp + 1);
    ++stamp;
  }
}

void BM_FlashLogVictim(benchmark::State& state) {
  const auto tier = MakeTier(static_cast<uint64_t>(state.range(0)));
  std::vector<LiveCopy> live;
  for (EntryId entry = 1; tier->usage().groups_free > 3; ++entry) Put(*tier, entry, live);
  for (auto _ : state) {
    const std::optional<GroupId> victim = tier->Victim(0);
    if (!victim) state.SkipWithError("no victim");
    benchmark::DoNotOptimize(victim);
  }
}

BENCHMARK(BM_FlashLogPut)->ArgName("segments")->Arg(64)->Arg(1024);
BENCHMARK(BM_FlashLogTouched)->ArgName("segments")->Arg(64)->Arg(1024);
BENCHMARK(BM_FlashLogVictim)->ArgName("segments")->Arg(64)->Arg(1024);

}  // namespace
}  // namespace holdfast
