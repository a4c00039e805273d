#include "trace/synthetic.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trace/quantiles.h"

namespace holdfast {
namespace {

std::vector<Request> Generate(const std::string& spec, const ReaderOptions& options) {
  std::vector<Request> requests;
  auto reader = OpenTrace(spec, options);
  EXPECT_TRUE(reader.has_value());
  for (;;) {
    Result<std::optional<Request>> next = (*reader)->Next();
    EXPECT_TRUE(next.has_value());
    if (!*next) return requests;
    requests.push_back(**std::move(next));
  }
}

bool Same(const Request& a, const Request& b) {
  return a.timestamp_ms == b.timestamp_ms && a.input_length == b.input_length &&
         a.output_length == b.output_length && a.hash_ids == b.hash_ids && a.session == b.session;
}

class Synthetic : public ::testing::TestWithParam<std::string> {};

TEST_P(Synthetic, SameSeedGivesTheSameRequestsAndAnotherSeedOthers) {
  const std::vector<Request> first = Generate(GetParam(), {.requests_max = 300, .seed = 5});
  const std::vector<Request> again = Generate(GetParam(), {.requests_max = 300, .seed = 5});
  const std::vector<Request> other = Generate(GetParam(), {.requests_max = 300, .seed = 6});
  ASSERT_EQ(first.size(), 300u);
  size_t equal_to_other = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_TRUE(Same(first[i], again[i])) << i;
    equal_to_other += Same(first[i], other[i]) ? 1 : 0;
  }
  EXPECT_LT(equal_to_other, 3u);
}

TEST_P(Synthetic, LongerRunBeginsWithTheShorterOne) {
  const std::vector<Request> few = Generate(GetParam(), {.requests_max = 100});
  const std::vector<Request> many = Generate(GetParam(), {.requests_max = 400});
  for (size_t i = 0; i < few.size(); ++i) ASSERT_TRUE(Same(few[i], many[i])) << i;
}

TEST_P(Synthetic, RowsObeyTheRulesOfTheFileDialect) {
  for (Tail tail : {Tail::kKeep, Tail::kDrop}) {
    int64_t last_ms = 0;
    for (const Request& request : Generate(GetParam(), {.tail = tail, .requests_max = 2000})) {
      const uint64_t full = request.input_length / 512;
      const uint64_t partial = request.input_length % 512 == 0 ? 0 : 1;
      ASSERT_EQ(request.hash_ids.size(), full + (tail == Tail::kKeep ? partial : 0));
      ASSERT_GE(request.timestamp_ms, last_ms);
      ASSERT_GT(request.input_length, 0u);
      ASSERT_GT(request.output_length, 0u);
      last_ms = request.timestamp_ms;
    }
  }
}

// An id names a block behind one prefix: it never appears behind another one, nor twice in a row.
TEST_P(Synthetic, EqualIdsFollowEqualPrefixes) {
  std::map<uint64_t, uint64_t> parent_of;
  constexpr uint64_t kRoot = UINT64_MAX;
  for (const Request& request :
       Generate(GetParam(), {.tail = Tail::kKeep, .requests_max = 2000, .seed = 3})) {
    uint64_t parent = kRoot;
    for (uint64_t id : request.hash_ids) {
      ASSERT_EQ(parent_of.try_emplace(id, parent).first->second, parent);
      parent = id;
    }
  }
}

TEST_P(Synthetic, DroppingTailsLeavesTheOtherIdsAsTheyAre) {
  const std::vector<Request> kept =
      Generate(GetParam(), {.tail = Tail::kKeep, .requests_max = 500});
  const std::vector<Request> dropped =
      Generate(GetParam(), {.tail = Tail::kDrop, .requests_max = 500});
  for (size_t i = 0; i < kept.size(); ++i) {
    std::vector<uint64_t> ids = kept[i].hash_ids;
    ids.resize(dropped[i].hash_ids.size());
    ASSERT_EQ(ids, dropped[i].hash_ids);
  }
}

TEST_P(Synthetic, AnyBlockSizeWorks) {
  for (uint32_t block_tokens : {1u, 16u, 500u, 2048u, 1u << 31}) {
    for (const Request& request :
         Generate(GetParam(), {.block_tokens = block_tokens, .requests_max = 20})) {
      ASSERT_EQ(request.hash_ids.size(), request.input_length / block_tokens);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Generators, Synthetic,
                         ::testing::Values("synthetic:conversation", "synthetic:agent"),
                         [](const auto& instance) { return instance.param.substr(10); });

TEST(SyntheticConversation, SessionsShareTheirFirstBlockAndTicksAreThreeSeconds) {
  for (const Request& request : Generate("synthetic:conversation", {.requests_max = 1000})) {
    ASSERT_EQ(request.hash_ids.front(), 0u);
    ASSERT_EQ(request.timestamp_ms % 3000, 0);
  }
}

TEST(SyntheticAgent, SessionsShareNothingAnd32AreOpenAtATime) {
  std::map<uint64_t, std::string> owner;
  std::map<std::string, std::pair<int64_t, int64_t>> span;
  const std::vector<Request> requests = Generate("synthetic:agent", {.requests_max = 3000});
  for (const Request& request : requests) {
    for (uint64_t id : request.hash_ids) {
      ASSERT_EQ(owner.try_emplace(id, request.session).first->second, request.session);
    }
    auto& [first, last] = span.try_emplace(request.session, request.timestamp_ms, 0).first->second;
    last = request.timestamp_ms;
  }
  const int64_t middle_ms = requests[1500].timestamp_ms;
  int open = 0;
  for (const auto& [session, times] : span) {
    open += times.first <= middle_ms && middle_ms <= times.second ? 1 : 0;
  }
  EXPECT_GE(open, 24);  // a lane between two of its sessions has none
  EXPECT_LE(open, 32);
}

TEST(OpenTrace, UnknownGeneratorIsRefusedWithTheKnownOnes) {
  auto reader = OpenTrace("synthetic:chat", {});
  ASSERT_FALSE(reader.has_value());
  EXPECT_EQ(reader.error().message(),
            "no generator is called 'synthetic:chat'; known are synthetic:conversation and "
            "synthetic:agent");
}

TEST(Quantiles, AreLinearBetweenTheirKnots) {
  static constexpr internal::Knot kKnots[] = {{0, -100}, {500, 100}, {500, 1000}, {1000, 3000}};
  const internal::Quantiles quantiles(kKnots);
  constexpr internal::Rank kHalf = 1u << 31;
  EXPECT_EQ(quantiles.At(0), -100);
  EXPECT_EQ(quantiles.At(kHalf / 2), 0);
  EXPECT_EQ(quantiles.At(kHalf), 1000);
  EXPECT_EQ(quantiles.At(kHalf + kHalf / 2), 2000);
  EXPECT_GE(quantiles.At(UINT32_MAX), 2999);
}

// Reference values of splitmix64 for seed 1234567.
TEST(Random, IsSplitMix64) {
  internal::Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
}

}  // namespace
}  // namespace holdfast
