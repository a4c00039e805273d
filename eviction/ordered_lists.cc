#include "eviction/ordered_lists.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <sys/mman.h>

#include "kvstore/check.h"

namespace holdfast::eviction {

void OrderedLists::Unmap::operator()(Node* nodes) const { ::munmap(nodes, bytes); }

Result<OrderedLists> OrderedLists::Create(const PolicyOptions& options) {
  if (options.entries_max < 1 || options.entries_max > kEntriesMax) {
    return Status(StatusCode::kInvalidArgument, "entries_max is " +
                                                    std::to_string(options.entries_max) +
                                                    ", not 1 to " + std::to_string(kEntriesMax));
  }
  if (options.lists < 1 || options.lists > kListsMax) {
    return Status(StatusCode::kInvalidArgument, "lists is " + std::to_string(options.lists) +
                                                    ", not 1 to " + std::to_string(kListsMax));
  }
  const size_t bytes = (size_t{options.entries_max} + options.lists) * sizeof(Node);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  "cannot map " + std::to_string(bytes) + " bytes of list nodes");
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a kernel without huge pages is slower only
  return OrderedLists(std::unique_ptr<Node[], Unmap>(static_cast<Node*>(memory), Unmap{bytes}),
                      options);
}

// The clock starts shortly before its wrap, so that every test and every long run crosses it.
OrderedLists::OrderedLists(std::unique_ptr<Node[], Unmap> nodes, const PolicyOptions& options)
    : nodes_(std::move(nodes)),
      entries_max_(options.entries_max),
      lists_(options.lists),
      clock_(kStampMask - 1000),
      sizes_(options.lists) {
  for (uint32_t list = 0; list < lists_; ++list) {
    const uint32_t at = Sentinel(list);
    nodes_[at] = {.older = at, .newer = at, .packed = list + 1};
  }
}

uint32_t OrderedLists::Age(uint32_t at) const {
  return std::min((clock_ - (nodes_[at].packed >> kListBits)) & kStampMask, kAgeMax);
}

void OrderedLists::SetAge(uint32_t at, uint32_t list, uint32_t age) {
  nodes_[at].packed = ((clock_ - age) & kStampMask) << kListBits | (list + 1);
}

// One step of the clock, and a look at one entry: each is seen once in entries_max steps, in time
// to be stamped "very old" before the clock comes round to its stamp again.
void OrderedLists::Tick() {
  clock_ = (clock_ + 1) & kStampMask;
  if (hand_ >= ids_end_) hand_ = 0;
  if (nodes_[hand_].packed != 0 && Age(hand_) == kAgeMax) SetAge(hand_, ListAt(hand_), kAgeMax);
  ++hand_;
}

void OrderedLists::Unlink(uint32_t at) {
  const Node& node = nodes_[at];
  nodes_[node.older].newer = node.newer;
  nodes_[node.newer].older = node.older;
}

void OrderedLists::LinkAfter(uint32_t older, uint32_t at) {
  const uint32_t newer = nodes_[older].newer;
  nodes_[at].older = older;
  nodes_[at].newer = newer;
  nodes_[older].newer = at;
  nodes_[newer].older = at;
}

void OrderedLists::Insert(EntryId id, ListId list) {
  HF_CHECK(id < entries_max_ && list < lists_);
  HF_CHECK(nodes_[id].packed == 0);
  ids_end_ = std::max(ids_end_, id + 1);
  Tick();
  SetAge(id, list, 0);
  LinkAfter(nodes_[Sentinel(list)].older, id);
  ++sizes_[list];
}

void OrderedLists::Renew(EntryId id) {
  HF_CHECK(Contains(id));
  const uint32_t list = ListAt(id);
  Tick();
  SetAge(id, list, 0);
  const uint32_t sentinel = Sentinel(list);
  if (nodes_[id].newer == sentinel) return;
  Unlink(id);
  LinkAfter(nodes_[sentinel].older, id);
}

void OrderedLists::Remove(EntryId id) {
  HF_CHECK(Contains(id));
  --sizes_[ListAt(id)];
  Unlink(id);
  nodes_[id].packed = 0;
}

void OrderedLists::Move(EntryId id, ListId list) {
  HF_CHECK(Contains(id) && list < lists_);
  const uint32_t from = ListAt(id);
  if (from == list) return;
  Unlink(id);
  --sizes_[from];
  ++sizes_[list];
  LinkByAge(id, list);
}

// Walks from the end of the list whose age is nearer. Where the steps run out the entry takes the
// age of the place it gets, so that the list stays sorted.
void OrderedLists::LinkByAge(EntryId id, ListId list) {
  uint32_t age = Age(id);
  const uint32_t sentinel = Sentinel(list);
  const uint32_t oldest = nodes_[sentinel].newer;
  uint32_t after = nodes_[sentinel].older;  // the newest, until an older neighbour is found
  int steps = 0;
  if (after != sentinel && Age(after) < age) {
    const int64_t to_oldest = int64_t{Age(oldest)} - age;
    if (to_oldest < int64_t{age} - Age(after)) {
      after = sentinel;
      uint32_t next = oldest;
      while (next != sentinel && Age(next) > age && steps++ < kMoveStepsMax) {
        after = next;
        next = nodes_[next].newer;
      }
      if (next != sentinel) age = std::max(age, Age(next));
    } else {
      while (after != sentinel && Age(after) < age && steps++ < kMoveStepsMax) {
        after = nodes_[after].older;
      }
      if (after != sentinel) age = std::min(age, Age(after));
    }
  }
  SetAge(id, list, age);
  LinkAfter(after, id);
}

EntryId OrderedLists::Oldest(ListId list) const {
  HF_CHECK(list < lists_);
  return OrNone(nodes_[Sentinel(list)].newer);
}

EntryId OrderedLists::NextNewer(EntryId id) const {
  HF_CHECK(Contains(id));
  return OrNone(nodes_[id].newer);
}

bool OrderedLists::Contains(EntryId id) const {
  return id < entries_max_ && nodes_[id].packed != 0;
}

ListId OrderedLists::ListOf(EntryId id) const {
  return Contains(id) ? static_cast<ListId>(ListAt(id)) : kNoList;
}

size_t OrderedLists::size(ListId list) const {
  HF_CHECK(list < lists_);
  return sizes_[list];
}

}  // namespace holdfast::eviction
