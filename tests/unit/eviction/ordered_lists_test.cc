#include "eviction/ordered_lists.h"

#include <vector>

#include <gtest/gtest.h>

namespace holdfast::eviction {
namespace {

using Ids = std::vector<EntryId>;

OrderedLists Create(uint32_t entries_max, ListId lists) {
  auto created = OrderedLists::Create({.entries_max = entries_max, .lists = lists});
  EXPECT_TRUE(created.has_value());
  return *std::move(created);
}

Ids Order(const OrderedLists& lists, ListId list) {
  Ids order;
  for (EntryId id = lists.Oldest(list); id != kNoEntry; id = lists.NextNewer(id)) {
    order.push_back(id);
  }
  return order;
}

TEST(OrderedLists, MovedEntryTakesThePlaceOfItsAge) {
  OrderedLists lists = Create(8, 2);
  for (EntryId id = 0; id < 8; ++id) lists.Insert(id, id % 2);
  lists.Move(4, 1);
  lists.Move(0, 1);
  lists.Move(6, 1);
  EXPECT_EQ(Order(lists, 1), (Ids{0, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Order(lists, 0), Ids{2});
}

TEST(OrderedLists, OldAndNewEntriesFindTheirPlaceInAListOfAnyLength) {
  constexpr EntryId kMany = 10'000;
  OrderedLists lists = Create(kMany + 4, 2);
  lists.Insert(kMany, 1);  // older than all of list 0
  for (EntryId id = 0; id < kMany; ++id) {
    lists.Insert(id, 0);
    if (id == 9) lists.Insert(kMany + 1, 1);
    if (id == kMany - 11) lists.Insert(kMany + 2, 1);
  }
  lists.Insert(kMany + 3, 1);
  for (EntryId id = kMany; id < kMany + 4; ++id) lists.Move(id, 0);
  const Ids order = Order(lists, 0);
  ASSERT_EQ(order.size(), kMany + 4);
  EXPECT_EQ(order.front(), kMany);
  EXPECT_EQ(order[11], kMany + 1);
  EXPECT_EQ(order[kMany + 3 - 11], kMany + 2);
  EXPECT_EQ(order.back(), kMany + 3);
}

// The middle of a long list is out of reach: the entry lands 64 steps from the nearer end.
TEST(OrderedLists, MoveIntoALongListWalksABoundedNumberOfSteps) {
  constexpr EntryId kMany = 1000;
  OrderedLists lists = Create(kMany + 2, 2);
  for (EntryId id = 0; id < kMany; ++id) {
    lists.Insert(id, 0);
    if (id == 400) lists.Insert(kMany, 1);
    if (id == 600) lists.Insert(kMany + 1, 1);
  }
  lists.Move(kMany, 0);
  lists.Move(kMany + 1, 0);
  const Ids order = Order(lists, 0);
  EXPECT_EQ(order[64], kMany);
  EXPECT_EQ(order[order.size() - 1 - 64], kMany + 1);
}

TEST(OrderedLists, RenewedEntryIsTheNewestOfItsListOnly) {
  OrderedLists lists = Create(4, 2);
  lists.Insert(0, 0);
  lists.Insert(1, 0);
  lists.Insert(2, 1);
  lists.Insert(3, 1);
  lists.Renew(0);
  EXPECT_EQ(Order(lists, 0), (Ids{1, 0}));
  EXPECT_EQ(Order(lists, 1), (Ids{2, 3}));
}

}  // namespace
}  // namespace holdfast::eviction
