#include "tools/workload.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::tools {
namespace {

class WorkloadTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    const std::string path = ::testing::TempDir() + "workload_test.jsonl";
    std::ofstream(path) << text;
    return path;
  }
  void TearDown() override {
    std::filesystem::remove(::testing::TempDir() + "workload_test.jsonl");
  }
};

constexpr char kTwoRows[] =
    R"({"timestamp": 5000, "input_length": 1000, "output_length": 1, "hash_ids": [7, 9]})"
    "\n"
    R"({"timestamp": 8000, "input_length": 1536, "output_length": 1, "hash_ids": [7, 9, 11]})"
    "\n";

TEST_F(WorkloadTest, KeepsIdsTokensAndTimeFromTheFirstRequestOn) {
  const Result<Workload> workload = Workload::Read(Write(kTwoRows), {.tail = Tail::kKeep});
  ASSERT_TRUE(workload.has_value()) << workload.error().message();
  EXPECT_EQ(workload->requests(), 2u);
  EXPECT_EQ(workload->references(), 5u);
  EXPECT_EQ(workload->distinct(), 3u);
  EXPECT_EQ(std::vector<uint64_t>(workload->ids(1).begin(), workload->ids(1).end()),
            (std::vector<uint64_t>{7, 9, 11}));
  EXPECT_EQ(workload->tokens(0), 1000u);
  EXPECT_EQ(workload->time_ms(0), 0);
  EXPECT_EQ(workload->time_ms(1), 3000);
}

TEST_F(WorkloadTest, TheLogOfAPartHasOnlyThatPart) {
  const Result<Workload> workload = Workload::Read(Write(kTwoRows), {.tail = Tail::kKeep});
  ASSERT_TRUE(workload.has_value());
  const eviction::RequestLog log = workload->Log(1);
  EXPECT_EQ(log.size(), 1u);
  EXPECT_EQ(log.references(), 2u);
  EXPECT_EQ(log.input_tokens(), 1000u);
  EXPECT_EQ(workload->log().references(), 5u);
}

TEST_F(WorkloadTest, AWrongRowNamesFileAndLine) {
  const std::string path = Write(std::string(kTwoRows) + "nonsense\n");
  const Result<Workload> workload = Workload::Read(path, {.tail = Tail::kKeep});
  ASSERT_FALSE(workload.has_value());
  EXPECT_NE(workload.error().message().find(path + ":3"), std::string_view::npos)
      << workload.error().message();
}

}  // namespace
}  // namespace holdfast::tools
