// Two reference policies for the contract suite.
//
// ModelPolicy says by brute force what lru and fifo must do. WorthPolicy evicts what is least worth
// keeping for its bytes (greedy dual size with frequency): no part of the product, but proof that
// such a policy fits the interface, as it runs under the same suite.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "eviction/policy.h"

namespace holdfast::eviction::testing {

class ModelPolicy final : public Policy {
 public:
  explicit ModelPolicy(std::string_view name) : name_(name) {}

  std::string_view name() const noexcept override { return name_; }
  void Insert(EntryId id, ListId list, const Attributes&) override {
    entries_.push_back({id, list, ++now_});
  }
  void Touch(EntryId id) override {
    if (name_ == "lru") Find(id)->age = ++now_;
  }
  void Move(EntryId id, ListId list) override { Find(id)->list = list; }
  void Remove(EntryId id) override { entries_.erase(Find(id)); }
  EntryId Victim(ListId list) const override { return OldestSince(list, 0); }
  EntryId VictimAfter(EntryId id) const override {
    const auto entry =
        std::find_if(entries_.begin(), entries_.end(), [id](const Entry& e) { return e.id == id; });
    return OldestSince(entry->list, entry->age + 1);
  }
  bool Contains(EntryId id) const override { return ListOf(id) != kNoList; }
  ListId ListOf(EntryId id) const override {
    for (const Entry& entry : entries_) {
      if (entry.id == id) return entry.list;
    }
    return kNoList;
  }
  size_t size(ListId list) const override {
    return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(),
                                             [list](const Entry& e) { return e.list == list; }));
  }

 private:
  struct Entry {
    EntryId id;
    ListId list;
    uint64_t age;
  };

  std::vector<Entry>::iterator Find(EntryId id) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [id](const Entry& e) { return e.id == id; });
  }
  EntryId OldestSince(ListId list, uint64_t age) const {
    const Entry* oldest = nullptr;
    for (const Entry& entry : entries_) {
      if (entry.list != list || entry.age < age) continue;
      if (oldest == nullptr || entry.age < oldest->age) oldest = &entry;
    }
    return oldest == nullptr ? kNoEntry : oldest->id;
  }

  std::string_view name_;
  std::vector<Entry> entries_;
  uint64_t now_ = 0;
};

class WorthPolicy final : public Policy {
 public:
  explicit WorthPolicy(const PolicyOptions& options)
      : entries_(options.entries_max), orders_(options.lists) {}

  std::string_view name() const noexcept override { return "worth"; }
  void Insert(EntryId id, ListId list, const Attributes& attributes) override {
    entries_[id] = Entry{.list = list, .uses = 1, .attributes = attributes};
    Enqueue(id);
  }
  void Touch(EntryId id) override {
    Dequeue(id);
    ++entries_[id]->uses;
    Enqueue(id);
  }
  void Move(EntryId id, ListId list) override {
    orders_[entries_[id]->list].erase(KeyOf(id));
    entries_[id]->list = list;
    orders_[list].insert(KeyOf(id));
  }
  void Remove(EntryId id) override {
    Dequeue(id);
    entries_[id].reset();
  }
  void Evict(EntryId id) override {
    inflation_ = std::max(inflation_, entries_[id]->worth);
    Remove(id);
  }
  EntryId Victim(ListId list) const override { return IdAt(list, orders_[list].begin()); }
  EntryId VictimAfter(EntryId id) const override {
    const ListId list = entries_[id]->list;
    return IdAt(list, orders_[list].upper_bound(KeyOf(id)));
  }
  bool Contains(EntryId id) const override { return entries_[id].has_value(); }
  ListId ListOf(EntryId id) const override { return Contains(id) ? entries_[id]->list : kNoList; }
  size_t size(ListId list) const override { return orders_[list].size(); }
  void Update(EntryId id, const Attributes& attributes) override {
    Dequeue(id);
    entries_[id]->attributes = attributes;
    Enqueue(id);
  }

 private:
  struct Entry {
    ListId list = 0;
    uint32_t uses = 0;
    double worth = 0;
    uint64_t turn = 0;
    Attributes attributes;
  };
  using Key = std::tuple<double, uint64_t, EntryId>;
  using Order = std::set<Key>;

  Key KeyOf(EntryId id) const { return {entries_[id]->worth, entries_[id]->turn, id}; }
  EntryId IdAt(ListId list, Order::const_iterator at) const {
    return at == orders_[list].end() ? kNoEntry : std::get<2>(*at);
  }
  void Dequeue(EntryId id) { orders_[entries_[id]->list].erase(KeyOf(id)); }
  void Enqueue(EntryId id) {
    Entry& entry = *entries_[id];
    const auto bytes = static_cast<double>(std::max<uint64_t>(1, entry.attributes.bytes));
    entry.worth = inflation_ + entry.uses * entry.attributes.value / bytes;
    entry.turn = ++turn_;
    orders_[entry.list].insert(KeyOf(id));
  }

  std::vector<std::optional<Entry>> entries_;
  std::vector<Order> orders_;
  double inflation_ = 0;
  uint64_t turn_ = 0;
};

}  // namespace holdfast::eviction::testing
