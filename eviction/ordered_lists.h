// OrderedLists: doubly linked lists over dense ids, each sorted by the time of its entries' stamps.
//
// The mechanism under the policies that keep an order of arrival or use. The links are intrusive:
// 12 bytes an entry hold both links, the list and a stamp that counts insertions and renewals. The
// stamp is what lets an entry that changes its list find its place there.
//
// Threading: thread-compatible.
// Memory: one anonymous mapping, advised to huge pages; 12 * (entries_max + lists) bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "eviction/policy.h"
#include "kvstore/status.h"

namespace holdfast::eviction {

class OrderedLists {
 public:
  static Result<OrderedLists> Create(const PolicyOptions& options);

  void Insert(EntryId id, ListId list);  // as the newest
  void Renew(EntryId id);                // to the newest end of its list
  void Move(EntryId id, ListId list);
  void Remove(EntryId id);

  EntryId Oldest(ListId list) const;
  EntryId NextNewer(EntryId id) const;
  bool Contains(EntryId id) const;
  ListId ListOf(EntryId id) const;
  size_t size(ListId list) const;
  void Prefetch(EntryId id) const { __builtin_prefetch(&nodes_[id], 1); }

 private:
  // `packed` is the stamp above five bits of list number plus one; 0, as the kernel delivers it,
  // is an absent entry. The ends of a list meet in a sentinel node behind the entries: the entry
  // that is newer than the sentinel is the oldest of the list, the one older than it the newest.
  struct Node {
    uint32_t older;
    uint32_t newer;
    uint32_t packed;
  };
  static_assert(sizeof(Node) == 12);

  static constexpr uint32_t kListBits = 5;
  static constexpr uint32_t kListMask = (1u << kListBits) - 1;
  static constexpr uint32_t kStampMask = UINT32_MAX >> kListBits;
  // Ages saturate here, half way round the clock; Tick keeps the stamps of older entries from
  // being overtaken by it.
  static constexpr uint32_t kAgeMax = kStampMask / 2 + 1;
  static constexpr int kMoveStepsMax = 64;
  static_assert(kListsMax <= kListMask);
  static_assert(kEntriesMax < kAgeMax);

  struct Unmap {
    size_t bytes = 0;
    void operator()(Node* nodes) const;
  };

  OrderedLists(std::unique_ptr<Node[], Unmap> nodes, const PolicyOptions& options);

  uint32_t Sentinel(uint32_t list) const { return entries_max_ + list; }
  uint32_t ListAt(uint32_t at) const { return (nodes_[at].packed & kListMask) - 1; }
  uint32_t Age(uint32_t at) const;
  void SetAge(uint32_t at, uint32_t list, uint32_t age);
  void Tick();
  void Unlink(uint32_t at);
  void LinkAfter(uint32_t older, uint32_t at);
  void LinkByAge(EntryId id, ListId list);
  EntryId OrNone(uint32_t at) const { return at < entries_max_ ? at : kNoEntry; }

  std::unique_ptr<Node[], Unmap> nodes_;
  uint32_t entries_max_;
  uint32_t lists_;
  uint32_t clock_;
  uint32_t hand_ = 0;  // the entry whose age is looked at next
  uint32_t ids_end_ = 0;
  std::vector<uint32_t> sizes_;
};

}  // namespace holdfast::eviction
