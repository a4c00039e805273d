// The counts of the real traces, through the store itself.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/golden/trace_log.h"
#include "tests/tools/run_command.h"

namespace holdfast::testing {
namespace {

struct Golden {
  const char* trace;
  const char* hold;
  uint64_t references;
  uint64_t hits;
  uint64_t hit_tokens;  // 0: not published
};

class ReplayGoldenTest : public ::testing::TestWithParam<Golden> {};

TEST_P(ReplayGoldenTest, HitsWithoutALimitAreThePublishedCounts) {
  const Golden& golden = GetParam();
  const std::string trace =
      std::string(HOLDFAST_TRACE_DIR) + "/mooncake/" + golden.trace + "_trace.jsonl";
  HF_SKIP_WITHOUT_TRACE(trace);
  const CommandDirectory directory;
  const CommandResult result = RunCommand(
      directory, {"replay", trace, "--bytes", "none", "--hbm", "0", "--ddr", "unlimited", "--flash",
                  "0", "--disk", "0", "--tail", "keep", "--hold", golden.hold, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["references"], golden.references);
  EXPECT_EQ(json["hits"], golden.hits);
  EXPECT_EQ(json["tiers"][1]["name"], "ddr");
  EXPECT_EQ(json["tiers"][1]["hits"], golden.hits);
  if (golden.hit_tokens > 0) {
    EXPECT_EQ(json["hit_tokens"], golden.hit_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Traces, ReplayGoldenTest,
    ::testing::Values(Golden{"conversation", "none", 288'500, 105'710, 54'098'411},
                      Golden{"conversation", "300s", 288'500, 82'941, 0},
                      Golden{"conversation", "3600s", 288'500, 105'710, 54'098'411},
                      Golden{"conversation", "60s", 288'500, 28'848, 0},
                      Golden{"synthetic", "none", 121'877, 77'953, 39'852'661},
                      Golden{"synthetic", "300s", 121'877, 71'228, 0},
                      Golden{"synthetic", "3600s", 121'877, 77'953, 39'852'661},
                      Golden{"synthetic", "60s", 121'877, 39'202, 0}),
    [](const ::testing::TestParamInfo<Golden>& param) {
      return std::string(param.param.trace) + "Hold" + param.param.hold;
    });

// What ddr and flash keep between them, against one LRU of their summed capacity.
struct TwoTiers {
  const char* ddr;
  const char* flash;
  uint64_t lru_hits;  // at the sum, of the policy alone; see docs/replay.md
  double share;       // of those that must be reached
};

class TwoTiersTest : public ::testing::TestWithParam<TwoTiers> {};

TEST_P(TwoTiersTest, ComeCloseToOneCacheOfTheirSum) {
  const std::string trace = std::string(HOLDFAST_TRACE_DIR) + "/mooncake/conversation_trace.jsonl";
  HF_SKIP_WITHOUT_TRACE(trace);
  const CommandDirectory directory;
  const CommandResult result =
      RunCommand(directory, {"replay", trace, "--bytes", "none", "--hbm", "0", "--ddr",
                             GetParam().ddr, "--flash", GetParam().flash, "--disk", "0", "--tail",
                             "keep", "--placement", "all", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GE(json["hits"].get<double>(),
            GetParam().share * static_cast<double>(GetParam().lru_hits));
  EXPECT_LE(json["hits"].get<uint64_t>(), 105'710u);
}

INSTANTIATE_TEST_SUITE_P(Conversation, TwoTiersTest,
                         ::testing::Values(TwoTiers{"2000b", "8000b", 61'046, 0.90},
                                           TwoTiers{"5000b", "20000b", 89'412, 0.95}),
                         [](const ::testing::TestParamInfo<TwoTiers>& param) {
                           return std::string(param.param.ddr) + "And" + param.param.flash;
                         });

}  // namespace
}  // namespace holdfast::testing
