// Crosses the whole range of the 27-bit stamps, which takes 2^27 calls.
#include <gtest/gtest.h>

#include "eviction/ordered_lists.h"

namespace holdfast::eviction {
namespace {

// Entry 0 is as old as the stamps reach, so that its own stamp comes round again and would look
// younger than the one of entry 1.
TEST(OrderedLists, EntryNeverUsedAgainStaysOldestWhenTheStampsComeRound) {
  auto created = OrderedLists::Create({.entries_max = 8, .lists = 2});
  ASSERT_TRUE(created.has_value());
  OrderedLists lists = *std::move(created);
  lists.Insert(0, 0);
  lists.Insert(1, 1);
  lists.Insert(2, 1);
  constexpr uint32_t kRange = 1u << 27;
  for (uint32_t i = 0; i < kRange - 10; ++i) lists.Renew(1);
  for (int i = 0; i < 15; ++i) lists.Renew(2);
  lists.Move(0, 1);
  EXPECT_EQ(lists.Oldest(1), 0u);
  EXPECT_EQ(lists.NextNewer(0), 1u);
}

}  // namespace
}  // namespace holdfast::eviction
