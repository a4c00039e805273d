// Whole runs of `holdfast replay`, most with real bytes through real tiers.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "kvstore/store.h"
#include "tests/tools/run_command.h"
#include "tools/replay_plan.h"
#include "tools/workload.h"

namespace holdfast::testing {
namespace {

using Json = nlohmann::json;
using tools::ReplayOptions;
using tools::ReplayPlan;
using tools::Workload;

// Two prompts of three blocks that share the first two; 3 s apart, then 400 s.
constexpr char kTrace[] =
    R"({"timestamp": 0, "input_length": 1536, "output_length": 1, "hash_ids": [1, 2, 3]})"
    "\n"
    R"({"timestamp": 3000, "input_length": 1536, "output_length": 1, "hash_ids": [1, 2, 4]})"
    "\n"
    R"({"timestamp": 403000, "input_length": 1536, "output_length": 1, "hash_ids": [1, 2, 4]})"
    "\n";

class ReplayCommandTest : public ::testing::Test {
 protected:
  CommandResult Run(std::vector<std::string> arguments, const std::string& in = "/dev/null") {
    arguments.insert(arguments.begin(), "replay");
    return RunCommand(directory_, arguments, in);
  }
  // Runs with --json; fails the test unless the exit code is as given.
  Json RunJson(std::vector<std::string> arguments, int exit_code = 0,
               const std::string& in = "/dev/null") {
    arguments.emplace_back("--json");
    const CommandResult result = Run(std::move(arguments), in);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    Json json = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(json.is_discarded()) << result.out;
    return json;
  }

  CommandDirectory directory_;
};

// Small enough to be quick, large enough that blocks come to every tier and back.
std::vector<std::string> FourTiers() {
  return {"synthetic:agent", "--requests", "60",     "--payload",   "16KiB",
          "--hbm",           "2MiB",       "--ddr",  "8MiB",        "--flash",
          "64MiB",           "--disk",     "256MiB", "--placement", "all"};
}

TEST_F(ReplayCommandTest, RealBytesComeBackFromEveryTierWithNoneWrong) {
  const Json json = RunJson(FourTiers());
  EXPECT_GT(json["hits"], 0);
  EXPECT_GE(json["verified_blocks"], json["hits"]);
  EXPECT_EQ(json["wrong_bytes"], 0);
  uint64_t verified = 0;
  for (const Json& tier : json["tiers"]) {
    EXPECT_TRUE(tier["on"]) << tier["name"];
    verified += tier["verified_blocks"].get<uint64_t>();
  }
  // Blocks that a tier served behind one that went meanwhile are no hits of the request.
  EXPECT_GE(verified, json["verified_blocks"]);
  EXPECT_LE(verified,
            json["verified_blocks"].get<uint64_t>() + json["fetch_items"]["miss"].get<uint64_t>());
  EXPECT_GT(json["tiers"][1]["hits"], 0);
  EXPECT_GT(json["tiers"][2]["spilled_in"], 0);
  EXPECT_GT(json["tiers"][2]["hits"], 0);
}

TEST_F(ReplayCommandTest, TheDirectoryItMadeIsGoneAfterwards) {
  RunJson(FourTiers());
  EXPECT_FALSE(std::filesystem::exists(directory_.File("holdfast-data")));
}

TEST_F(ReplayCommandTest, SeveralRequestsAtATimeAreVerifiedToo) {
  std::vector<std::string> arguments = FourTiers();
  arguments.insert(arguments.end(), {"--concurrency", "4", "--hold", "mix"});
  const Json json = RunJson(arguments);
  EXPECT_EQ(json["requests"], 60);
  EXPECT_GE(json["verified_blocks"], json["hits"]);
  EXPECT_EQ(json["wrong_bytes"], 0);
  ASSERT_EQ(json["holds"].size(), 3u);
  uint64_t requests = 0;
  for (const Json& hold : json["holds"]) requests += hold["requests"].get<uint64_t>();
  EXPECT_EQ(requests, 60u);
}

TEST_F(ReplayCommandTest, ResultsAreCountsOfTheTrace) {
  directory_.Write("t", kTrace);
  const Json json = RunJson({"t", "--payload", "4KiB", "--ddr", "64MiB", "--flash", "0"});
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["references"], 9);
  EXPECT_EQ(json["distinct_blocks"], 4);
  EXPECT_EQ(json["hits"], 5);
  EXPECT_EQ(json["hit_tokens"], 5 * 512);
  EXPECT_EQ(json["verified_blocks"], 5);
  EXPECT_EQ(json["wrong_bytes"], 0);
  EXPECT_EQ(json["ceiling"]["hits"], 5);
  ASSERT_EQ(json["tiers"].size(), 4u);
  EXPECT_EQ(json["tiers"][1]["name"], "ddr");
  EXPECT_EQ(json["tiers"][1]["hits"], 5);
  EXPECT_EQ(json["interrupted"], false);
  for (const char* key :
       {"parse_seconds", "hash_seconds", "replay_seconds", "references_per_second",
        "requests_per_second", "bytes_per_second", "declined", "fetch_items", "put_items"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST_F(ReplayCommandTest, HoldsRunOnTheTimeOfTheTrace) {
  directory_.Write("t", kTrace);
  const std::vector<std::string> base = {"t",     "--payload", "4KiB", "--ddr",
                                         "64MiB", "--flash",   "0"};
  const auto hits = [&](const std::string& hold) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), {"--hold", hold});
    const Json json = RunJson(arguments);
    EXPECT_EQ(json["hits"], json["ceiling"]["ttl_hits"]);
    return json["hits"].get<uint64_t>();
  };
  EXPECT_EQ(hits("3s"), 0u);  // a deadline is the instant from which a block is not served
  EXPECT_EQ(hits("3001ms"), 2u);
  EXPECT_EQ(hits("400s"), 2u);
  EXPECT_EQ(hits("401s"), 5u);
}

TEST_F(ReplayCommandTest, WithoutBytesAndLimitsHitsAreTheCeiling) {
  for (const char* hold : {"none", "60s", "300s"}) {
    const Json json = RunJson({"synthetic:conversation", "--requests", "2000", "--bytes", "none",
                               "--ddr", "unlimited", "--flash", "0", "--hold", hold});
    const bool held = std::string(hold) != "none";
    EXPECT_EQ(json["hits"], json["ceiling"][held ? "ttl_hits" : "hits"]) << hold;
    EXPECT_EQ(json["hit_tokens"], json["ceiling"][held ? "ttl_hit_tokens" : "hit_tokens"]) << hold;
    EXPECT_GT(json["hits"], 0);
    EXPECT_EQ(json["verified_blocks"], 0);
  }
}

TEST_F(ReplayCommandTest, WithoutBytesNoMachineIsTooSmall) {
  directory_.Write("t", kTrace);
  const Json json = RunJson({"t", "--bytes", "none", "--ddr", "100TiB", "--flash", "1PiB"});
  EXPECT_EQ(json["hits"], 5);
  EXPECT_EQ(json["tiers"][1]["capacity_bytes"], 100ull << 40);
}

// In host memory alone: flash is paced by the machine's clock.
TEST_F(ReplayCommandTest, WithoutBytesARunRepeatsExactly) {
  const std::vector<std::string> arguments = {"synthetic:conversation",
                                              "--requests",
                                              "1000",
                                              "--bytes",
                                              "none",
                                              "--ddr",
                                              "2000b",
                                              "--flash",
                                              "0",
                                              "--hold",
                                              "mix",
                                              "--seed",
                                              "7"};
  const Json first = RunJson(arguments);
  const Json second = RunJson(arguments);
  EXPECT_EQ(first["hits"], second["hits"]);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(first["tiers"][i]["hits"], second["tiers"][i]["hits"]);
    EXPECT_EQ(first["tiers"][i]["dropped"], second["tiers"][i]["dropped"]);
  }
}

TEST_F(ReplayCommandTest, TheTraceMayComeThroughAPipe) {
  directory_.Write("t", kTrace);
  const Json json = RunJson({"-", "--payload", "4KiB", "--ddr", "64MiB", "--flash", "0"}, 0,
                            directory_.File("t"));
  EXPECT_EQ(json["hits"], 5);
}

TEST_F(ReplayCommandTest, TheTableAndTheFileSayTheSame) {
  directory_.Write("t", kTrace);
  const CommandResult result = Run({"t", "--payload", "4KiB", "--ddr", "64MiB", "--flash", "0",
                                    "--disk", "0", "--output", "out.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* word : {"tier", "hbm", "ddr", "flash", "disk", "total", "ceiling", "declined"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << '\n' << result.out;
  }
  EXPECT_NE(result.out.find("hits         5 blocks"), std::string::npos) << result.out;
  EXPECT_EQ(result.err, "");  // no progress where there is no terminal
  EXPECT_EQ(Json::parse(directory_.Read("out.json"))["hits"], 5);
}

TEST_F(ReplayCommandTest, AFileThatCannotBeWrittenIsFoundBeforeTheRun) {
  const CommandResult result = Run({"absent", "--output", "nowhere/out.json"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("nowhere/out.json"), std::string::npos) << result.err;
}

TEST_F(ReplayCommandTest, TheFileIsWrittenThoughStandardOutputIsFull) {
  directory_.Write("t", kTrace);
  const CommandResult result = RunShell(
      directory_, "\"$HOLDFAST\" replay t --flash 0 --payload 4KiB --output out.json >/dev/full");
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_EQ(Json::parse(directory_.Read("out.json"))["hits"], 5);
}

TEST_F(ReplayCommandTest, AReaderThatLeftIsNoNewsAndLeavesNothingBehind) {
  directory_.Write("t", kTrace);
  const CommandResult result = RunShell(directory_, R"(
      mkfifo pipe; exec 3<>pipe; exec 4>pipe; exec 3>&-
      "$HOLDFAST" replay t --payload 64KiB --ddr 64MiB --flash 64MiB >&4)");
  EXPECT_EQ(result.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(std::filesystem::exists(directory_.File("holdfast-data")));
}

TEST_F(ReplayCommandTest, ADirectoryThatNoStoreCouldUseIsGoneAgain) {
  directory_.Write("t", kTrace);
  EXPECT_EQ(Run({"t", "--flash", "1PiB", "--payload", "256MiB", "--ddr", "1GiB", "--dir", "a/b"})
                .exit_code,
            3);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("a")));
}

TEST_F(ReplayCommandTest, ADirectoryOfTheUserIsWarmTheNextTime) {
  directory_.Write("t", kTrace);
  const std::vector<std::string> arguments = {"t",     "--payload", "64KiB", "--ddr",
                                              "64MiB", "--flash",   "64MiB", "--hold",
                                              "1h",    "--drain",   "--dir", "data"};
  EXPECT_EQ(RunJson(arguments)["hits"], 5);
  const Json again = RunJson(arguments);
  EXPECT_EQ(again["entries_at_open"], 4);
  EXPECT_EQ(again["hits"], 9);
  EXPECT_EQ(again["verified_blocks"], 9);
}

// Puts other bytes under the keys of a replay, as a broken store would give back.
void PlantWrongBytes(const ReplayOptions& options, const std::string& directory) {
  const Result<Workload> workload = Workload::Read(options.trace, {});
  ASSERT_TRUE(workload.has_value()) << workload.error().ToString();
  Result<ReplayPlan> plan = PlanReplay(options, *workload);
  ASSERT_TRUE(plan.has_value()) << plan.error().ToString();
  plan->store.directory = directory;
  const auto store = Store::Open(plan->store);
  ASSERT_TRUE(store.has_value()) << store.error().ToString();
  const Result<SpaceId> space = (*store)->OpenSpace(plan->space);
  ASSERT_TRUE(space.has_value());
  std::vector<std::byte> packed;
  tools::AppendExternalKey(workload->ids(0)[0], packed);
  const Result<Blocks> blocks = Blocks::FromKeys(**store, *space, packed, {.linked = true});
  ASSERT_TRUE(blocks.has_value());
  std::vector<std::byte> payload(options.payload_bytes, std::byte{0x5a});
  const std::array extents = {Extent{payload.data(), payload.size()}};
  const std::array<uint32_t, 2> begins = {0, 1};
  std::array<Item, 1> items;
  const auto put = (*store)->Put(
      *blocks, {.kind = Memory::Kind::kExtents, .extents = extents, .extent_begin = begins},
      {.hold = plan->holds[0].hold}, items);
  ASSERT_TRUE(put.has_value()) << put.error().ToString();
  EXPECT_EQ(*put, 1u);
  const Instant until = Clock::System().Now() + std::chrono::seconds(30);
  EXPECT_TRUE((*store)->Drain(until).ok());
  EXPECT_TRUE((*store)->Close(until).ok());
}

TEST_F(ReplayCommandTest, AWrongByteEndsTheRunAndIsNamed) {
  directory_.Write("t", kTrace);
  std::filesystem::create_directory(directory_.File("data"));
  ReplayOptions options;
  options.trace = directory_.File("t");
  options.capacity = {tools::Size{}, tools::Size{.value = 64ull << 20},
                      tools::Size{.value = 64ull << 20}, tools::Size{}};
  options.payload_bytes = 64 << 10;
  options.hold = {.kind = tools::HoldChoice::Kind::k1h, .text = "1h"};
  PlantWrongBytes(options, directory_.File("data"));
  if (HasFatalFailure()) return;
  const std::vector<std::string> arguments = {"t",     "--payload", "64KiB", "--ddr",
                                              "64MiB", "--flash",   "64MiB", "--hold",
                                              "1h",    "--dir",     "data",  "--json"};
  const CommandResult result = Run(arguments);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("wrong byte: key "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("tier flash, offset 0"), std::string::npos) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_GT(json["wrong_bytes"], 60'000);
  EXPECT_EQ(json["wrong"]["tier"], "flash");
}

TEST_F(ReplayCommandTest, ASignalPrintsWhatThereIsAndLeavesNothingBehind) {
  directory_.Write("t", kTrace);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t pid = StartCommand(  // would take 4,030,000 s
        directory_, {"replay", "t", "--payload", "64KiB", "--ddr", "64MiB", "--flash", "64MiB",
                     "--speed", "0.0001", "--drain", "--json"});
    WaitForEntry(directory_, "holdfast-data");
    ASSERT_EQ(::kill(pid, signal), 0);
    const CommandResult result = WaitForCommand(directory_, pid);
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["interrupted"], true);
    EXPECT_LE(json["requests"], 1);
    EXPECT_FALSE(std::filesystem::exists(directory_.File("holdfast-data")));
  }
}

TEST_F(ReplayCommandTest, ATierThatCanReceiveNothingIsSaidOnce) {
  directory_.Write("t", kTrace);
  const Json json = RunJson({"t", "--bytes", "none", "--ddr", "1000b", "--flash", "1000b", "--disk",
                             "1000b", "--hold", "5m"});
  ASSERT_EQ(json["notes"].size(), 1u);
  EXPECT_NE(json["notes"][0].get<std::string>().find("disk can receive nothing under --hold 5m"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::testing
