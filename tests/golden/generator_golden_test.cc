// The generators: exact counts at the default seed, which hold on every platform, and the distance
// to the traces they follow. Prints the rows of docs/traces.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "eviction/simulate.h"
#include "tests/golden/trace_log.h"

namespace holdfast::eviction {
namespace {

constexpr uint32_t kBlockTokens = 512;

// Shape of a trace without limits, partial tails dropped.
struct Shape {
  double hit_ratio = 0;
  double gap_s = 0;       // median time between two uses of a block
  double blocks = 0;      // median over the requests
  double hit_blocks = 0;  // median over the requests
};

double Median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

Shape ShapeOf(const RequestLog& log) {
  std::vector<int64_t> last_use(log.distinct(), -1);
  std::vector<int64_t> gaps, blocks, hit_blocks;
  int64_t hits = 0;
  for (size_t request = 0; request < log.size(); ++request) {
    const std::span<const EntryId> ids = log.ids(request);
    size_t run = 0;
    while (run < ids.size() && last_use[ids[run]] >= 0) ++run;
    for (EntryId id : ids) {
      if (last_use[id] >= 0) gaps.push_back(log.time_ms(request) - last_use[id]);
      last_use[id] = log.time_ms(request);
    }
    hits += static_cast<int64_t>(run);
    blocks.push_back(static_cast<int64_t>(ids.size()));
    hit_blocks.push_back(static_cast<int64_t>(run));
  }
  return {.hit_ratio = static_cast<double>(hits) / static_cast<double>(log.references()),
          .gap_s = Median(gaps) / 1000,
          .blocks = Median(blocks),
          .hit_blocks = Median(hit_blocks)};
}

void Print(const std::string& name, const RequestLog& log, const Shape& shape) {
  std::printf("| %s | %zu | %llu | %u | %.1f %% | %.1f s | %.0f | %.0f |\n", name.c_str(),
              log.size(), static_cast<unsigned long long>(log.references()), log.distinct(),
              100 * shape.hit_ratio, shape.gap_s, shape.blocks, shape.hit_blocks);
}

void ExpectResemblance(const std::string& generator, const std::string& trace) {
  const RequestLog real_log = testing::ReadLog(trace, {});
  const Shape real = ShapeOf(real_log);
  Print(std::filesystem::path(trace).filename(), real_log, real);
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(generator + " seed " + std::to_string(seed));
    const RequestLog log = testing::ReadLog(generator, {.seed = seed});
    const Shape shape = ShapeOf(log);
    Print(generator + ", seed " + std::to_string(seed), log, shape);
    EXPECT_EQ(log.size(), real_log.size());
    EXPECT_NEAR(shape.hit_ratio, real.hit_ratio, 0.03);
    EXPECT_NEAR(shape.gap_s, real.gap_s, 0.2 * real.gap_s);
    EXPECT_NEAR(shape.blocks, real.blocks, 0.2 * real.blocks);
    EXPECT_NEAR(shape.hit_blocks, real.hit_blocks, 0.2 * real.hit_blocks);
  }
}

TEST(GeneratorGolden, ConversationIsAsFarFromItsTraceAsDocumented) {
  HF_SKIP_WITHOUT_TRACE(testing::kConversation);
  ExpectResemblance("synthetic:conversation", testing::kConversation);
}

TEST(GeneratorGolden, AgentIsAsFarFromItsTraceAsDocumented) {
  HF_SKIP_WITHOUT_TRACE(testing::kAgent);
  ExpectResemblance("synthetic:agent", testing::kAgent);
}

struct Counts {
  uint64_t references, distinct, hits, hit_tokens, lru_hits;
  int64_t last_ms;
  bool operator==(const Counts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << "{" << c.references << ", " << c.distinct << ", " << c.hits << ", " << c.hit_tokens
             << ", " << c.lru_hits << ", " << c.last_ms << "}";
}

Counts CountsOf(const std::string& generator, Tail tail) {
  const RequestLog log = testing::ReadLog(generator, {.tail = tail, .requests_max = 2000});
  EXPECT_EQ(log.size(), 2000u);
  const HitCount hits = UnlimitedHits(log, kBlockTokens);
  auto lru = CreatePolicy("lru", {.entries_max = log.distinct()});
  EXPECT_TRUE(lru.has_value());
  return {.references = log.references(),
          .distinct = log.distinct(),
          .hits = hits.blocks,
          .hit_tokens = hits.tokens,
          .lru_hits = SimulatePolicy(**lru, log, {.capacity = 5000}).blocks,
          .last_ms = log.time_ms(1999)};
}

TEST(GeneratorGolden, ConversationCountsAtTheDefaultSeed) {
  EXPECT_EQ(CountsOf("synthetic:conversation", Tail::kDrop),
            (Counts{43'163, 31'659, 11'504, 5'890'048, 5'577, 696'000}));
  EXPECT_EQ(CountsOf("synthetic:conversation", Tail::kKeep),
            (Counts{45'162, 33'658, 11'504, 5'890'048, 5'283, 696'000}));
}

TEST(GeneratorGolden, AgentCountsAtTheDefaultSeed) {
  EXPECT_EQ(CountsOf("synthetic:agent", Tail::kDrop),
            (Counts{391'158, 32'897, 358'261, 183'429'632, 302'200, 2'525'228}));
  EXPECT_EQ(CountsOf("synthetic:agent", Tail::kKeep),
            (Counts{393'154, 34'893, 358'261, 183'429'632, 298'999, 2'525'228}));
}

}  // namespace
}  // namespace holdfast::eviction
