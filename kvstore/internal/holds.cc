#include "kvstore/internal/holds.h"

#include <algorithm>

#include "kvstore/check.h"

namespace holdfast::internal {
namespace {

uint64_t Share(uint64_t base, double share) {
  if (base == UINT64_MAX) return UINT64_MAX;
  return static_cast<uint64_t>(static_cast<double>(base) * share);
}

}  // namespace

Status Holds::Init(const StoreOptions& options, uint64_t budget_base_bytes, Index& index) {
  index_ = &index;
  refresh_on_touch_ = options.refresh_on_touch;
  total_budget_bytes_ = Share(budget_base_bytes, options.hold_share_max);
  for (const HoldClass& c : options.hold_classes) {
    Class one;
    one.name = c.name;
    one.ttl_ms = std::chrono::duration_cast<std::chrono::milliseconds>(c.ttl).count();
    one.budget_bytes = Share(budget_base_bytes, c.budget_share);
    classes_.push_back(std::move(one));
  }
  if (!classes_.empty() && !links_.Allocate(index.entries_max())) {
    return {StatusCode::kResourceExhausted, "no address space for the lists of holds"};
  }
  return {};
}

uint8_t Holds::ClassOf(Duration ttl) const noexcept {
  if (ttl <= Duration::zero()) return 0;
  for (uint8_t c = 1; c <= classes(); ++c) {
    if (ttl <= std::chrono::milliseconds(ttl_ms(c))) return c;
  }
  return kTooLong;
}

uint8_t Holds::ClassOfStored(uint64_t ttl_ms) const noexcept {
  if (ttl_ms == 0 || classes_.empty()) return 0;
  const uint8_t c = ClassOf(std::chrono::milliseconds(
      static_cast<int64_t>(std::min<uint64_t>(ttl_ms, uint64_t{1} << 40))));
  return c == kTooLong ? classes() : c;
}

bool Holds::Charge(Entry& e, uint8_t hold_class) noexcept {
  const uint64_t bytes = e.frame_bytes();
  const uint64_t freed = e.charged_class != 0 ? bytes : 0;
  Class& c = of(hold_class);
  if (bytes > c.budget_bytes - std::min(c.budget_bytes, c.granted_bytes)) return false;
  const uint64_t total = total_granted_bytes_ - freed;
  if (bytes > total_budget_bytes_ - std::min(total_budget_bytes_, total)) return false;
  Uncharge(e);
  c.granted_bytes += bytes;
  total_granted_bytes_ += bytes;
  ++c.granted;
  e.charged_class = hold_class & 7u;
  return true;
}

void Holds::Uncharge(Entry& e) noexcept {
  if (e.charged_class == 0) return;
  const uint64_t bytes = e.frame_bytes();
  of(e.charged_class).granted_bytes -= bytes;
  total_granted_bytes_ -= bytes;
  e.charged_class = 0;
}

bool Holds::Apply(EntryId id, uint8_t hold_class, HoldMillis now) noexcept {
  Entry& e = (*index_)[id];
  const uint8_t current = e.released ? uint8_t{0} : e.hold_class;
  const uint8_t wanted = std::max(current, hold_class);
  const bool renews = refresh_on_touch_ || hold_class >= current;
  HoldMillis deadline = now + ttl_ms(renews ? wanted : hold_class);
  if (e.deadline != kNoDeadline) deadline = std::max(deadline, e.deadline);
  e.released = 0;
  SetDeadline(id, wanted, deadline, kNoEntry);
  if (e.charged_class < wanted && !Charge(e, wanted)) ++of(wanted).downgraded;
  return e.charged_class >= hold_class;
}

void Holds::Refresh(EntryId id, HoldMillis now) noexcept {
  const Entry& e = (*index_)[id];
  if (!refresh_on_touch_ || e.hold_class == 0 || e.released) return;
  const HoldMillis deadline = now + ttl_ms(e.hold_class);
  if (deadline > e.deadline) SetDeadline(id, e.hold_class, deadline, kNoEntry);
}

void Holds::Inherit(EntryId child, EntryId parent) noexcept {
  const Entry& p = (*index_)[parent];
  Entry& c = (*index_)[child];
  if (p.deadline == kNoDeadline || c.deadline != kNoDeadline) return;
  SetDeadline(child, p.hold_class, p.deadline, parent);
  if (p.released) {
    c.released = 1;
  } else if (!Charge(c, p.hold_class)) {
    ++of(p.hold_class).downgraded;
  }
}

void Holds::Release(EntryId id) noexcept {
  Entry& e = (*index_)[id];
  if (e.hold_class == 0) return;
  Uncharge(e);
  e.released = 1;
}

void Holds::Restore(EntryId id, uint8_t hold_class, HoldMillis deadline, bool granted) noexcept {
  if (deadline == kNoDeadline || classes_.empty()) return;
  Entry& e = (*index_)[id];
  e.released = hold_class == 0 ? 1 : 0;
  SetDeadline(id, hold_class == 0 ? uint8_t{1} : hold_class, deadline, kNoEntry);
  if (granted && hold_class != 0 && !Charge(e, hold_class)) ++of(hold_class).downgraded;
}

void Holds::Forget(EntryId id) noexcept {
  Entry& e = (*index_)[id];
  if (e.hold_class == 0) return;
  Uncharge(e);
  Unlink(id);
  e.hold_class = 0;
  e.deadline = kNoDeadline;
}

void Holds::CountExpired(uint8_t hold_class) noexcept { ++of(hold_class).expired; }
void Holds::CountBroken(uint8_t hold_class) noexcept { ++of(hold_class).broken; }

EntryId Holds::Expired(HoldMillis now) const noexcept {
  for (const Class& c : classes_) {
    if (c.head != kNoEntry && (*index_)[c.head].deadline <= now) return c.head;
  }
  return kNoEntry;
}

HoldMillis Holds::NextDeadline() const noexcept {
  HoldMillis next = kNoDeadline;
  for (const Class& c : classes_) {
    if (c.head != kNoEntry) next = std::min(next, (*index_)[c.head].deadline);
  }
  return next;
}

void Holds::SetDeadline(EntryId id, uint8_t hold_class, HoldMillis deadline,
                        EntryId hint) noexcept {
  Entry& e = (*index_)[id];
  if (e.hold_class == hold_class && e.deadline == deadline) return;
  if (e.hold_class != 0) Unlink(id);
  e.hold_class = hold_class & 7u;
  e.deadline = deadline;
  // Nearly always the list's end, or right behind the parent whose deadline it is.
  EntryId after = hint != kNoEntry ? hint : of(hold_class).tail;
  while (after != kNoEntry && (*index_)[after].deadline > deadline) {
    after = links_[after].prev_plus_1 - 1;
  }
  Link(id, after);
}

// Behind `after`, or in front of all when that is kNoEntry.
void Holds::Link(EntryId id, EntryId after) noexcept {
  Class& c = of((*index_)[id].hold_class);
  const EntryId next = after == kNoEntry ? c.head : links_[after].next_plus_1 - 1;
  links_[id] = {after + 1, next + 1};  // kNoEntry + 1 is 0
  if (after == kNoEntry) {
    c.head = id;
  } else {
    links_[after].next_plus_1 = id + 1;
  }
  if (next == kNoEntry) {
    c.tail = id;
  } else {
    links_[next].prev_plus_1 = id + 1;
  }
}

void Holds::Unlink(EntryId id) noexcept {
  Class& c = of((*index_)[id].hold_class);
  const Links l = links_[id];
  if (l.prev_plus_1 == 0) {
    c.head = l.next_plus_1 - 1;
  } else {
    links_[l.prev_plus_1 - 1].next_plus_1 = l.next_plus_1;
  }
  if (l.next_plus_1 == 0) {
    c.tail = l.prev_plus_1 - 1;
  } else {
    links_[l.next_plus_1 - 1].prev_plus_1 = l.prev_plus_1;
  }
}

std::vector<HoldStats> Holds::Stats() const {
  std::vector<HoldStats> all;
  all.reserve(classes_.size());
  for (const Class& c : classes_) {
    HoldStats s;
    s.name = c.name;
    s.ttl = std::chrono::milliseconds(c.ttl_ms);
    s.budget_bytes = c.budget_bytes;
    s.granted_bytes = c.granted_bytes;
    s.granted = c.granted;
    s.downgraded = c.downgraded;
    s.broken = c.broken;
    s.expired = c.expired;
    all.push_back(std::move(s));
  }
  return all;
}

uint64_t Holds::memory_bytes() const noexcept {
  return links_.empty() ? 0 : uint64_t{index_->ids_end()} * sizeof(Links);
}

}  // namespace holdfast::internal
