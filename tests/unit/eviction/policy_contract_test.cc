// What every policy must do, and exactly what lru and fifo do.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eviction/policy.h"
#include "tests/testing/random_seed.h"
#include "tests/unit/eviction/model_policy.h"

namespace holdfast::eviction {
namespace {

std::unique_ptr<Policy> Create(const std::string& name, const PolicyOptions& options) {
  if (name == "worth") return std::make_unique<testing::WorthPolicy>(options);
  auto policy = CreatePolicy(name, options);
  EXPECT_TRUE(policy.has_value());
  return *std::move(policy);
}

std::vector<EntryId> Order(const Policy& policy, ListId list) {
  std::vector<EntryId> order;
  for (EntryId id = policy.Victim(list); id != kNoEntry; id = policy.VictimAfter(id)) {
    order.push_back(id);
    if (order.size() > policy.size(list)) break;  // a cycle: fails the caller's comparison
  }
  return order;
}

using Ids = std::vector<EntryId>;

class PolicyContract : public ::testing::TestWithParam<std::string> {};

TEST_P(PolicyContract, EmptyListHasNoVictim) {
  auto policy = Create(GetParam(), {.entries_max = 4, .lists = 2});
  EXPECT_EQ(policy->Victim(0), kNoEntry);
  EXPECT_EQ(policy->Victim(1), kNoEntry);
  EXPECT_EQ(policy->size(1), 0u);
  EXPECT_FALSE(policy->Contains(3));
  EXPECT_EQ(policy->ListOf(3), kNoList);
}

TEST_P(PolicyContract, EntryIsInExactlyTheListItWasPutInto) {
  auto policy = Create(GetParam(), {.entries_max = 4, .lists = 3});
  policy->Insert(2, 1, {});
  EXPECT_TRUE(policy->Contains(2));
  EXPECT_EQ(policy->ListOf(2), 1);
  EXPECT_EQ(policy->Victim(1), 2u);
  EXPECT_EQ(policy->VictimAfter(2), kNoEntry);
  policy->Move(2, 2);
  EXPECT_EQ(policy->ListOf(2), 2);
  EXPECT_EQ(policy->Victim(1), kNoEntry);
  EXPECT_EQ(policy->Victim(2), 2u);
  EXPECT_EQ(policy->size(1), 0u);
  EXPECT_EQ(policy->size(2), 1u);
}

TEST_P(PolicyContract, RemovedAndEvictedEntriesAreGoneAndTheirIdsUsableAgain) {
  auto policy = Create(GetParam(), {.entries_max = 2});
  policy->Insert(0, 0, {});
  policy->Insert(1, 0, {});
  policy->Remove(0);
  policy->Evict(1);
  EXPECT_FALSE(policy->Contains(0));
  EXPECT_FALSE(policy->Contains(1));
  EXPECT_EQ(policy->size(0), 0u);
  policy->Insert(1, 0, {});
  EXPECT_EQ(Order(*policy, 0), Ids{1});
}

TEST_P(PolicyContract, HintsChangeNeitherPresenceNorPlace) {
  auto policy = Create(GetParam(), {.entries_max = 8});
  for (EntryId id = 0; id < 8; ++id) policy->Insert(id, 0, {.bytes = 1, .value = 1.0 + id});
  const Ids before = Order(*policy, 0);
  policy->Prefetch(5);
  policy->SetTime(1'000'000);
  policy->Update(0, {.bytes = 1, .value = 1.0});
  EXPECT_EQ(Order(*policy, 0), before);
}

// Random calls, and after each of them: the lists partition the entries, sizes agree, and the walk
// over the victims meets every entry once.
TEST_P(PolicyContract, ListsPartitionTheEntriesUnderRandomCalls) {
  constexpr EntryId kEntries = 24;
  constexpr ListId kLists = 3;
  std::mt19937 random(holdfast::testing::RandomSeed());
  const auto draw = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  auto policy = Create(GetParam(), {.entries_max = kEntries, .lists = kLists});
  std::vector<ListId> expected(kEntries, kNoList);
  for (int step = 0; step < 3000; ++step) {
    const EntryId id = draw(kEntries);
    const auto list = static_cast<ListId>(draw(kLists));
    const uint32_t action = draw(5);
    if (expected[id] == kNoList) {
      policy->Insert(id, list, {.bytes = 1 + draw(9), .value = 1.0 * (draw(9))});
      expected[id] = list;
    } else if (action == 0) {
      policy->Remove(id);
      expected[id] = kNoList;
    } else if (action == 1) {
      const EntryId victim = policy->Victim(expected[id]);
      expected[victim] = kNoList;
      policy->Evict(victim);
    } else if (action == 2) {
      policy->Move(id, list);
      expected[id] = list;
    } else {
      policy->Touch(id);
    }
    std::vector<ListId> found(kEntries, kNoList);
    for (ListId l = 0; l < kLists; ++l) {
      const Ids order = Order(*policy, l);
      ASSERT_EQ(order.size(), policy->size(l));
      for (EntryId entry : order) {
        ASSERT_EQ(found[entry], kNoList) << "met twice: " << entry;
        ASSERT_EQ(policy->ListOf(entry), l);
        found[entry] = l;
      }
    }
    ASSERT_EQ(found, expected) << "step " << step;
  }
}

std::vector<std::string> ContractNames() {
  std::vector<std::string> names(PolicyNames().begin(), PolicyNames().end());
  names.emplace_back("worth");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyContract, ::testing::ValuesIn(ContractNames()),
                         [](const auto& instance) { return instance.param; });

class PolicyModel : public ::testing::TestWithParam<std::string> {};

// More steps than the stamp clock has before its first wrap; at most 60 entries, so that Move
// always finds the exact place.
TEST_P(PolicyModel, OrderEqualsTheModelUnderRandomCalls) {
  constexpr EntryId kEntries = 60;
  constexpr ListId kLists = 4;
  std::mt19937 random(holdfast::testing::RandomSeed());
  const auto draw = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  auto policy = Create(GetParam(), {.entries_max = kEntries, .lists = kLists});
  testing::ModelPolicy model(GetParam());
  for (int step = 0; step < 8000; ++step) {
    const EntryId id = draw(kEntries);
    const auto list = static_cast<ListId>(draw(kLists));
    const uint32_t action = draw(8);
    for (Policy* each : {policy.get(), static_cast<Policy*>(&model)}) {
      if (!each->Contains(id)) {
        each->Insert(id, list, {});
      } else if (action == 0) {
        each->Remove(id);
      } else if (action < 4) {
        each->Move(id, list);
      } else {
        each->Touch(id);
      }
    }
    for (ListId l = 0; l < kLists; ++l) {
      ASSERT_EQ(Order(*policy, l), Order(model, l)) << "step " << step << " list " << int{l};
      ASSERT_EQ(policy->size(l), model.size(l));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyModel, ::testing::Values("lru", "fifo"),
                         [](const auto& instance) { return instance.param; });

TEST(Lru, BlocksTouchedDeepestFirstGoDeepestFirst) {
  auto lru = Create("lru", {.entries_max = 6});
  for (EntryId id : {0, 1, 2, 3, 4, 5}) lru->Insert(id, 0, {.position = id});
  for (EntryId id : {2, 1, 0}) lru->Touch(id);  // a request whose prompt is 0, 1, 2
  EXPECT_EQ(Order(*lru, 0), (Ids{3, 4, 5, 2, 1, 0}));
}

TEST(Fifo, UseChangesNothing) {
  auto fifo = Create("fifo", {.entries_max = 3});
  for (EntryId id : {2, 0, 1}) fifo->Insert(id, 0, {});
  fifo->Touch(2);
  EXPECT_EQ(Order(*fifo, 0), (Ids{2, 0, 1}));
}

TEST(Worth, CheapEntriesGoFirstAndUseMakesAnEntryWorthMore) {
  auto worth = Create("worth", {.entries_max = 3});
  worth->Insert(0, 0, {.bytes = 1, .value = 5});
  worth->Insert(1, 0, {.bytes = 1, .value = 1});
  worth->Insert(2, 0, {.bytes = 1, .value = 3});
  EXPECT_EQ(Order(*worth, 0), (Ids{1, 2, 0}));
  worth->Touch(2);
  EXPECT_EQ(Order(*worth, 0), (Ids{1, 0, 2}));
}

TEST(CreatePolicy, UnknownNameIsRefusedWithTheKnownOnes) {
  auto policy = CreatePolicy("lfu", {.entries_max = 1});
  ASSERT_FALSE(policy.has_value());
  EXPECT_EQ(policy.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(policy.error().message(), "no eviction policy is called 'lfu'; known are lru fifo");
}

TEST(CreatePolicy, OptionsOutOfRangeAreRefused) {
  const std::vector<PolicyOptions> wrong = {{.entries_max = 0},
                                            {.entries_max = kEntriesMax + 1},
                                            {.entries_max = 1, .lists = 0},
                                            {.entries_max = 1, .lists = kListsMax + 1}};
  for (const PolicyOptions& options : wrong) {
    auto policy = CreatePolicy("lru", options);
    ASSERT_FALSE(policy.has_value());
    EXPECT_EQ(policy.error().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(CreatePolicy("lru", {.entries_max = kEntriesMax, .lists = kListsMax}).has_value());
}

TEST(PolicyDeathTest, MisuseByTheCallerEndsTheProcess) {
  auto lru = Create("lru", {.entries_max = 2});
  lru->Insert(0, 0, {});
  EXPECT_DEATH(lru->Insert(0, 0, {}), "check failed");
  EXPECT_DEATH(lru->Insert(2, 0, {}), "check failed");
  EXPECT_DEATH(lru->Insert(1, 1, {}), "check failed");
  EXPECT_DEATH(lru->Touch(1), "check failed");
  EXPECT_DEATH(lru->Remove(1), "check failed");
}

}  // namespace
}  // namespace holdfast::eviction
