// FIFO, LRU and OPT on the real traces: hits by capacity, all ids kept. The numbers are those the
// traces' own notes give; an independent simulator agrees on the ceilings.
#include <memory>
#include <string>
#include <vector>

#include "eviction/simulate.h"
#include "tests/golden/trace_log.h"

namespace holdfast::eviction {
namespace {

struct Table {
  const char* trace;
  std::vector<uint64_t> capacities;
  std::vector<uint64_t> fifo, lru, opt;
};

std::vector<uint64_t> Hits(const RequestLog& log, const Table& table, std::string_view name) {
  std::vector<uint64_t> hits;
  for (uint64_t capacity : table.capacities) {
    CacheModel cache = {.capacity = capacity};
    if (name == "opt") {
      hits.push_back(OptHits(log, cache).blocks);
      continue;
    }
    if (name == "fifo") cache.order = UseOrder::kPromptOrder;
    auto policy = CreatePolicy(name, {.entries_max = log.distinct()});
    EXPECT_TRUE(policy.has_value());
    hits.push_back(SimulatePolicy(**policy, log, cache).blocks);
  }
  return hits;
}

void ExpectTable(const Table& table) {
  const RequestLog log = testing::ReadLog(table.trace, {.tail = Tail::kKeep});
  EXPECT_EQ(Hits(log, table, "fifo"), table.fifo);
  EXPECT_EQ(Hits(log, table, "lru"), table.lru);
  EXPECT_EQ(Hits(log, table, "opt"), table.opt);
}

TEST(PolicyGolden, ConversationTraceGivesTheKnownHitsAtEveryCapacity) {
  HF_SKIP_WITHOUT_TRACE(testing::kConversation);
  ExpectTable({.trace = testing::kConversation,
               .capacities = {1'000, 3'000, 10'000, 20'000, 30'000, 50'000, 100'000},
               .fifo = {12'509, 18'093, 52'351, 74'343, 84'936, 96'228, 102'794},
               .lru = {12'847, 18'850, 61'046, 83'035, 93'978, 102'290, 104'924},
               .opt = {55'019, 84'953, 105'710, 105'710, 105'710, 105'710, 105'710}});
}

TEST(PolicyGolden, SyntheticTraceGivesTheKnownHitsAtEveryCapacity) {
  HF_SKIP_WITHOUT_TRACE(testing::kSynthetic);
  ExpectTable({.trace = testing::kSynthetic,
               .capacities = {1'000, 3'000, 10'000, 20'000, 30'000, 50'000},
               .fifo = {9'593, 22'407, 48'622, 64'850, 72'411, 77'953},
               .lru = {10'252, 23'226, 51'669, 69'686, 76'077, 77'953},
               .opt = {33'728, 54'438, 75'316, 77'953, 77'953, 77'953}});
}

}  // namespace
}  // namespace holdfast::eviction
