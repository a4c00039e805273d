// What lru and fifo share: everything but the meaning of a use.
#pragma once

#include <memory>
#include <utility>

#include "eviction/ordered_lists.h"
#include "eviction/policy.h"

namespace holdfast::eviction::internal {

class ListPolicy : public Policy {
 public:
  explicit ListPolicy(OrderedLists lists) : lists_(std::move(lists)) {}

  void Insert(EntryId id, ListId list, const Attributes&) override { lists_.Insert(id, list); }
  void Move(EntryId id, ListId list) override { lists_.Move(id, list); }
  void Remove(EntryId id) override { lists_.Remove(id); }
  EntryId Victim(ListId list) const override { return lists_.Oldest(list); }
  EntryId VictimAfter(EntryId id) const override { return lists_.NextNewer(id); }
  bool Contains(EntryId id) const override { return lists_.Contains(id); }
  ListId ListOf(EntryId id) const override { return lists_.ListOf(id); }
  size_t size(ListId list) const override { return lists_.size(list); }
  void Prefetch(EntryId id) const override { lists_.Prefetch(id); }

 protected:
  OrderedLists lists_;
};

// The factories, one for each file.
std::unique_ptr<Policy> CreateLru(OrderedLists lists);
std::unique_ptr<Policy> CreateFifo(OrderedLists lists);

}  // namespace holdfast::eviction::internal
