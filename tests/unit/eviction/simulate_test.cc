#include "eviction/simulate.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/testing/random_seed.h"

namespace holdfast::eviction {
namespace {

using Trace = std::vector<std::vector<uint64_t>>;

RequestLog LogOf(const Trace& trace) {
  RequestLog log;
  for (const auto& ids : trace) log.Add({.ids = ids, .tokens = ids.size() * 10});
  return log;
}

uint64_t Simulate(std::string_view policy, const Trace& trace, const CacheModel& cache) {
  const RequestLog log = LogOf(trace);
  return SimulatePolicy(**CreatePolicy(policy, {.entries_max = log.distinct()}), log, cache).blocks;
}

uint64_t Opt(const Trace& trace, uint64_t capacity) {
  return OptHits(LogOf(trace), {.capacity = capacity}).blocks;
}

// The best any cache can do: tries every set of blocks it could keep after each request.
uint64_t BestOfAll(const Trace& trace, uint64_t capacity) {
  std::map<uint64_t, uint64_t> best = {{0, 0}};  // resident set as bits -> hits so far
  for (const auto& ids : trace) {
    std::map<uint64_t, uint64_t> next;
    for (const auto& [resident, hits] : best) {
      uint64_t run = 0;
      while (run < ids.size() && (resident >> ids[run] & 1) != 0) ++run;
      uint64_t there = resident;
      for (uint64_t id : ids) there |= uint64_t{1} << id;
      for (uint64_t kept = there;; kept = (kept - 1) & there) {
        if (static_cast<uint64_t>(__builtin_popcountll(kept)) <= capacity) {
          next[kept] = std::max(next[kept], hits + run);
        }
        if (kept == 0) break;
      }
    }
    best = std::move(next);
  }
  uint64_t most = 0;
  for (const auto& [resident, hits] : best) most = std::max(most, hits);
  return most;
}

// Ids 0 to 8 are the nodes of a tree; a prompt is a path from the root's child down.
std::vector<uint64_t> RandomPrompt(std::mt19937& random) {
  static const Trace paths = {{0, 1, 2, 3}, {0, 1, 4}, {5, 6}, {7}, {0, 8}};
  std::vector<uint64_t> path = paths[random() % paths.size()];
  path.resize(1 + random() % path.size());
  return path;
}

TEST(RequestLog, IdsBecomeDenseInTheOrderOfTheirFirstUse) {
  const RequestLog log = LogOf({{1u << 30, 7}, {}, {7, 9}});
  EXPECT_EQ(log.size(), 3u);
  EXPECT_EQ(log.references(), 4u);
  EXPECT_EQ(log.distinct(), 3u);
  EXPECT_EQ(log.input_tokens(), 40u);
  EXPECT_TRUE(log.ids(1).empty());
  EXPECT_EQ(std::vector<EntryId>(log.ids(2).begin(), log.ids(2).end()),
            (std::vector<EntryId>{1, 2}));
}

TEST(UnlimitedHits, OnlyLeadingBlocksCountAndTokensStopAtTheInput) {
  RequestLog log;
  const std::vector<uint64_t> first = {1, 2, 3};
  const std::vector<uint64_t> gap = {1, 8, 3};
  log.Add({.ids = first, .tokens = 25});
  log.Add({.ids = gap, .tokens = 25});
  log.Add({.ids = first, .tokens = 25});
  EXPECT_EQ(UnlimitedHits(log, 10), (HitCount{.blocks = 4, .tokens = 35}));
}

TEST(UnlimitedHits, BlockIsServedUntilItsTimeToLiveAndUseRenewsIt) {
  RequestLog log;
  const std::vector<uint64_t> ids = {5};
  for (int64_t time_ms : {0, 99, 198, 298}) log.Add({.ids = ids, .tokens = 10, .time_ms = time_ms});
  EXPECT_EQ(UnlimitedHits(log, 10, 100).blocks, 2u);  // at 298 exactly 100 have passed
  EXPECT_EQ(UnlimitedHits(log, 10, 101).blocks, 3u);
  EXPECT_EQ(UnlimitedHits(log, 10).blocks, 3u);
}

TEST(SimulatePolicy, LeafFirstKeepsTheRootAndPromptOrderLosesIt) {
  const Trace trace = {{0, 1, 2}, {3}, {0, 1, 2}};
  EXPECT_EQ(Simulate("lru", trace, {.capacity = 3}), 2u);
  EXPECT_EQ(Simulate("lru", trace, {.capacity = 3, .order = UseOrder::kPromptOrder}), 0u);
}

TEST(SimulatePolicy, FifoForgetsWhatLruKeepsBecauseItWasUsed) {
  const Trace trace = {{0}, {1}, {0}, {2}, {0}};
  EXPECT_EQ(Simulate("lru", trace, {.capacity = 2}), 2u);
  EXPECT_EQ(Simulate("fifo", trace, {.capacity = 2}), 1u);
}

TEST(SimulatePolicy, CacheWithoutRoomHitsNothing) {
  const Trace trace = {{0, 1}, {0, 1}};
  EXPECT_EQ(Simulate("lru", trace, {.capacity = 0}), 0u);
  EXPECT_EQ(Opt(trace, 0), 0u);
}

TEST(OptHits, MayRefuseToStoreWhatIsNeededLater) {
  EXPECT_EQ(Opt({{0}, {1}, {0}, {2}, {0}, {1}}, 1), 2u);
}

TEST(OptHits, EqualsTheBestOfAllChoicesForSingleBlocks) {
  std::mt19937 random(testing::RandomSeed());
  for (int round = 0; round < 60; ++round) {
    Trace trace(12);
    for (auto& ids : trace) ids = {random() % 6};
    for (uint64_t capacity : {1, 2, 4}) ASSERT_EQ(Opt(trace, capacity), BestOfAll(trace, capacity));
  }
}

TEST(OptHits, EqualsTheBestOfAllChoicesForPromptsAndNoPolicyPassesIt) {
  std::mt19937 random(testing::RandomSeed());
  for (int round = 0; round < 40; ++round) {
    Trace trace(9);
    for (auto& ids : trace) ids = RandomPrompt(random);
    for (uint64_t capacity : {1, 2, 4, 6}) {
      const uint64_t opt = Opt(trace, capacity);
      ASSERT_EQ(opt, BestOfAll(trace, capacity));
      for (std::string_view policy : PolicyNames()) {
        ASSERT_GE(opt, Simulate(policy, trace, {.capacity = capacity})) << policy;
      }
    }
  }
}

TEST(OptHits, WithRoomForEverythingEqualsTheUnlimitedCeiling) {
  std::mt19937 random(1);
  Trace trace(50);
  for (auto& ids : trace) ids = RandomPrompt(random);
  EXPECT_EQ(OptHits(LogOf(trace), {.capacity = 9, .block_tokens = 10}),
            UnlimitedHits(LogOf(trace), 10));
}

}  // namespace
}  // namespace holdfast::eviction
