#include "tools/replay_plan.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::tools {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kFrame = FrameBytes(2 * kMiB);

Workload ThreeBlocks() {
  const std::string path = ::testing::TempDir() + "replay_plan_test.jsonl";
  std::ofstream(path)
      << R"({"timestamp": 0, "input_length": 1536, "output_length": 1, "hash_ids": [1, 2, 3]})";
  Result<Workload> workload = Workload::Read(path, {});
  std::filesystem::remove(path);
  EXPECT_TRUE(workload.has_value());
  return std::move(*workload);
}

ReplayPlan Plan(const ReplayOptions& options) {
  Result<ReplayPlan> plan = PlanReplay(options, ThreeBlocks());
  EXPECT_TRUE(plan.has_value()) << plan.error().message();
  return plan.has_value() ? std::move(*plan) : ReplayPlan();
}

std::string PlanError(const ReplayOptions& options) {
  const Result<ReplayPlan> plan = PlanReplay(options, ThreeBlocks());
  EXPECT_FALSE(plan.has_value());
  return plan.has_value() ? "" : std::string(plan.error().message());
}

HoldChoice Ttl(Duration ttl) { return {.kind = HoldChoice::Kind::kTtl, .text = "own", .ttl = ttl}; }

const HoldChoice kMix = {.kind = HoldChoice::Kind::kMix, .text = "mix"};

TEST(ReplayPlan, ItsStoreOptionsPassTheStoresOwnCheck) {
  for (const uint64_t payload : {uint64_t{1}, uint64_t{4096}, 2 * kMiB, 64 * kMiB}) {
    ReplayOptions options;
    options.payload_bytes = payload;
    options.hold = kMix;
    options.capacity = {Size{.value = 1024 * kMiB}, Size{.value = 1024 * kMiB},
                        Size{.value = 2048 * kMiB}, Size{.value = 1024 * kMiB}};
    ReplayPlan plan = Plan(options);
    EXPECT_TRUE(plan.needs_directory);
    plan.store.directory = "somewhere";
    const Result<StoreOptions> checked = CheckOptions(plan.store);
    EXPECT_TRUE(checked.has_value()) << payload << ": " << checked.error().message();
  }
}

TEST(ReplayPlan, UnlimitedHoldsEveryDistinctBlockAndLiftsEveryLimit) {
  ReplayOptions options;
  options.bytes = false;
  options.hold = Ttl(seconds(300));
  options.capacity = {Size{}, Size{.kind = Size::Kind::kUnlimited}, Size{}, Size{}};
  const ReplayPlan plan = Plan(options);
  EXPECT_GE(plan.store.ddr_bytes, 3 * kFrame);
  EXPECT_GE(plan.store.index_entries_max, 3u);
  EXPECT_EQ(plan.store.hold_share_max, 1.0);
  EXPECT_EQ(plan.store.lease_share_max, 1.0);
  ASSERT_EQ(plan.store.hold_classes.size(), 1u);
  EXPECT_EQ(plan.store.hold_classes[0].budget_share, 1.0);
  EXPECT_FALSE(plan.needs_directory);
  const Result<StoreOptions> checked = CheckOptions(plan.store);
  ASSERT_TRUE(checked.has_value()) << checked.error().message();
  EXPECT_GE(checked->ddr_bytes, 3 * kFrame);
}

TEST(ReplayPlan, UnlimitedWithBytesIsRefused) {
  ReplayOptions options;
  options.capacity[1] = {.kind = Size::Kind::kUnlimited};
  EXPECT_NE(PlanError(options).find("--ddr: 'unlimited' needs --bytes none"), std::string::npos);
}

TEST(ReplayPlan, BlocksAreFramesOfThePayload) {
  ReplayOptions options;
  options.bytes = false;
  options.capacity = {Size{}, Size{.kind = Size::Kind::kBlocks, .value = 2000},
                      Size{.kind = Size::Kind::kBlocks, .value = 8000}, Size{}};
  const Result<StoreOptions> checked = CheckOptions(Plan(options).store);
  ASSERT_TRUE(checked.has_value()) << checked.error().message();
  EXPECT_EQ(checked->ddr_bytes / kFrame, 2000u);
  EXPECT_EQ(checked->flash_bytes / kFrame, 8000u);
}

TEST(ReplayPlan, AnOwnDurationIsPlacedLikeTheNextLongerClass) {
  const std::vector<HoldClass> defaults = StoreOptions().hold_classes;
  const std::array<std::pair<Duration, size_t>, 4> cases = {
      {{seconds(60), 0}, {minutes(5), 0}, {minutes(6), 1}, {std::chrono::hours(2), 1}}};
  for (const auto& [ttl, like] : cases) {
    ReplayOptions options;
    options.hold = Ttl(ttl);
    const ReplayPlan plan = Plan(options);
    ASSERT_EQ(plan.store.hold_classes.size(), 1u);
    EXPECT_EQ(plan.store.hold_classes[0].ttl, ttl);
    EXPECT_EQ(plan.store.hold_classes[0].flash, defaults[like].flash);
    EXPECT_EQ(plan.store.hold_classes[0].disk, defaults[like].disk);
    ASSERT_EQ(plan.holds.size(), 1u);
    EXPECT_EQ(plan.holds[0].hold.ttl, ttl);
  }
}

TEST(ReplayPlan, MixSpreadsRequestsOverThreeHoldsByTheSeed) {
  ReplayOptions options;
  options.hold = kMix;
  const ReplayPlan plan = Plan(options);
  ASSERT_EQ(plan.holds.size(), 3u);
  EXPECT_EQ(plan.holds[0].hold.ttl, Duration::zero());
  EXPECT_EQ(plan.holds[1].hold.ttl, minutes(5));
  EXPECT_EQ(plan.holds[2].hold.ttl, minutes(60));
  constexpr size_t kRequests = 3000;
  std::array<size_t, 3> counts{};
  size_t as_other_seed = 0;
  for (size_t request = 0; request < kRequests; ++request) {
    const size_t hold = HoldOfRequest(3, /*seed=*/1, request);
    ++counts[hold];
    EXPECT_EQ(hold, HoldOfRequest(3, 1, request));
    as_other_seed += hold == HoldOfRequest(3, 2, request) ? 1 : 0;
  }
  for (const size_t count : counts) EXPECT_NEAR(static_cast<double>(count), 1000, 150);
  EXPECT_LT(as_other_seed, kRequests / 2);
}

TEST(ReplayPlan, ATierThatCanReceiveNothingIsNamedInOneLine) {
  ReplayOptions options;
  options.capacity = {Size{}, Size{.value = 1024 * kMiB}, Size{.value = 1024 * kMiB},
                      Size{.value = 1024 * kMiB}};
  const ReplayPlan none = Plan(options);
  ASSERT_EQ(none.notes.size(), 1u);
  EXPECT_NE(none.notes[0].find("disk can receive nothing under --hold none"), std::string::npos);

  options.hold = {.kind = HoldChoice::Kind::k1h, .text = "1h"};
  EXPECT_TRUE(Plan(options).notes.empty());

  options.hold = {};
  options.place_all = true;
  EXPECT_TRUE(Plan(options).notes.empty());

  options.place_all = false;
  options.capacity[2] = Size{};  // disk takes the row of flash
  EXPECT_TRUE(Plan(options).notes.empty());
}

TEST(ReplayPlan, AnUnknownPolicyIsAnsweredWithTheKnownOnes) {
  ReplayOptions options;
  options.policy = "random";
  const std::string error = PlanError(options);
  EXPECT_NE(error.find("--policy: 'random'"), std::string::npos);
  EXPECT_NE(error.find("lru"), std::string::npos);
}

// The least that is taken of each tier is what the store takes, and a page less is refused in words
// of the command line.
TEST(ReplayPlan, SizesAreCheckedAsTheStoreDoesAndNamedAsOptions) {
  constexpr std::array<const char*, 4> kOptions = {"--hbm", "--ddr", "--flash", "--disk"};
  for (const bool bytes : {true, false}) {
    for (const uint64_t payload : {uint64_t{1}, uint64_t{16'384}, 2 * kMiB, 256 * kMiB}) {
      for (size_t tier = 0; tier < kOptions.size(); ++tier) {
        ReplayOptions options;
        options.bytes = bytes;
        options.payload_bytes = payload;
        options.capacity = {};
        uint64_t below = 0;  // refused
        uint64_t least = 64ull << 30;
        while (least - below > kPageBytes) {
          options.capacity[tier].value = RoundUp((below + least) / 2, kPageBytes);
          if (options.capacity[tier].value == least) break;
          (PlanReplay(options, ThreeBlocks()).has_value() ? least : below) =
              options.capacity[tier].value;
        }
        options.capacity[tier].value = least;
        ReplayPlan plan = Plan(options);
        plan.store.directory = "somewhere";
        EXPECT_TRUE(CheckOptions(plan.store).has_value()) << kOptions[tier] << ' ' << payload;
        options.capacity[tier].value = least - kPageBytes;
        const std::string error = PlanError(options);
        EXPECT_EQ(error.rfind(std::string(kOptions[tier]) + ": '", 0), 0u) << error;
        EXPECT_EQ(error.find('_'), std::string::npos) << error;
      }
    }
  }
}

TEST(ReplayPlan, MoreThanAnIndexOrAnArenaTakesIsRefusedInWordsOfTheCommandLine) {
  ReplayOptions options;
  options.capacity[2] = {.value = 1ull << 60};
  EXPECT_EQ(
      PlanError(options),
      "--payload: '2MiB' is not large enough: tiers of 1.00 EiB are more than 53,687,088 blocks");
  options.capacity[2] = {};
  options.capacity[1] = {.value = 100ull << 40};
  EXPECT_EQ(PlanError(options), "--ddr: '100TiB' is not at most 8TiB; more needs --bytes none");
  options.bytes = false;
  Plan(options);
}

TEST(ReplayPlan, NoTierAtAllIsRefused) {
  ReplayOptions options;
  options.capacity = {};
  EXPECT_NE(PlanError(options).find("at least one tier"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::tools
