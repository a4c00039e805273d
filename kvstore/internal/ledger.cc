#include "kvstore/internal/ledger.h"

#include <algorithm>

#include "kvstore/check.h"

namespace holdfast::internal {

Status Ledger::Init(const StoreOptions& options, std::array<Tier*, kTiers> tiers,
                    HostFrames* frames, Instant run_now) {
  tiers_ = tiers;
  frames_ = frames;
  ddr_on_ = options.ddr_bytes > 0;
  lease_share_max_ = options.lease_share_max;
  HF_RETURN_IF_ERROR(index.Init(static_cast<uint32_t>(options.index_entries_max)));
  const bool unlimited = options.hold_share_max >= 1e9;
  const uint64_t base = options.flash_bytes > 0
                            ? options.flash_bytes
                            : options.hbm_bytes + options.ddr_bytes + options.disk_bytes;
  HF_RETURN_IF_ERROR(holds.Init(options, unlimited ? UINT64_MAX : base, index));
  const bool below = options.flash_bytes > 0 || options.disk_bytes > 0;
  HF_RETURN_IF_ERROR(admission.Init(below ? options.write_bytes_per_day : UINT64_MAX,
                                    options.flash_bytes / FrameBytes(options.payload_bytes_typical),
                                    run_now));
  flash_rows_ = {options.unheld_flash};
  disk_rows_ = {options.unheld_disk};
  for (const HoldClass& c : options.hold_classes) {
    flash_rows_.push_back(c.flash);
    disk_rows_.push_back(c.disk);
  }
  const uint32_t n = index.entries_max();
  bool ok = true;
  for (int t : {int{kHbm}, int{kDdr}}) {
    if (!on(t)) continue;
    HF_ASSIGN_OR_RETURN(
        policies_[t], eviction::CreatePolicy(options.policy, {.entries_max = n, .lists = kLists}));
  }
  ok = ddr_at_.Allocate(n) && write_ids_.Allocate(n);
  if (on(kHbm)) ok = ok && hbm_at_.Allocate(n);
  if (on(kFlash)) ok = ok && flash_at_.Allocate(n);
  if (on(kDisk)) ok = ok && disk_at_.Allocate(n);
  if (!ok) return {StatusCode::kResourceExhausted, "no address space for the places of copies"};
  persistent_ = on(kFlash) || on(kDisk);
  for (int t = 0; t < kTiers; ++t) stats[t].where = ToWhere(t);
  return {};
}

// ------------------------------------------------------------------ placement

Ledger::Down Ledger::DownFrom(const Entry& e, int from) const noexcept {
  // A downgraded or released block is placed like one without a hold.
  const uint8_t c = e.charged_class;
  if (from == kHbm && ddr_on_) return {kDdr, PlacementRow::kOnLeave};
  if (from <= kDdr) {
    if (on(kFlash)) return {kFlash, flash_rows_[c]};
    if (on(kDisk)) return {kDisk, flash_rows_[c]};  // a tier that is off is skipped
    return {};
  }
  if (from == kFlash && on(kDisk)) return {kDisk, disk_rows_[c]};
  return {};
}

bool Ledger::MustMove(EntryId id, int from, Instant run_now) noexcept {
  Entry& e = index[id];
  if (e.live_below(from)) return false;
  if (e.refused) return false;
  const Down down = DownFrom(e, from);
  switch (down.row) {
    case PlacementRow::kNever:
      return false;
    case PlacementRow::kOnLeave:
    case PlacementRow::kAtPut:
      return true;
    case PlacementRow::kAdmitted:
      break;
  }
  if (admission.HasCredit(e.frame_bytes(), run_now) || e.touches >= 2 ||
      admission.Remembered(e.key)) {
    return true;
  }
  e.refused = 1;
  ++spills_refused;
  return false;
}

// ------------------------------------------------------------------ key spaces

uint32_t Ledger::RootNumber(const RootKey& root) {
  const auto [it, added] = root_numbers_.try_emplace(root, static_cast<uint32_t>(roots_.size()));
  if (added) roots_.push_back({root, false});
  return it->second;
}

bool Ledger::RootKnown(const RootKey& root, uint32_t& number) const noexcept {
  const auto it = root_numbers_.find(root);
  if (it == root_numbers_.end()) return false;
  number = it->second;
  return true;
}

// ------------------------------------------------------------------ entries

EntryId Ledger::Add(const BlockKey& key, uint32_t root, uint32_t position, uint32_t payload_bytes) {
  const EntryId id = index.Insert(key);
  if (id == kNoEntry) return id;
  Entry& e = index[id];
  e.root = root;
  e.position = position & 0xffffffu;
  e.payload_bytes = payload_bytes;
  e.last_touch = ++stamp_;
  ddr_at_[id] = kNoFrame;
  return id;
}

void Ledger::LinkParent(EntryId child, EntryId parent) noexcept {
  Entry& c = index[child];
  if (parent == kNoEntry || parent == child || Parent(c) != kNoEntry) return;
  c.parent = parent;
  c.parent_generation = index[parent].generation & 0xffu;
  ++index[parent].children;
}

EntryId Ledger::Parent(const Entry& e) const noexcept {
  if (e.parent == kNoEntry) return kNoEntry;
  const Entry& p = index[e.parent];
  const bool same = p.in_use && (p.generation & 0xffu) == e.parent_generation && p.root == e.root &&
                    p.position + 1 == e.position;
  return same ? e.parent : kNoEntry;
}

// Gives back what a readable copy occupies.
void Ledger::FreeCopy(EntryId id, int t, Why why) {
  Entry& e = index[id];
  e.set_copy(t, CopyState::kAbsent);
  --stats[t].copies;
  stats[t].used_bytes -= e.bytes_in(t);
  if (why == Why::kRoom) ++stats[t].dropped;
  if (why == Why::kExpired) ++stats[t].expired;
  if (t <= kDdr) {
    if (why == Why::kRoom) {
      policy(t)->Evict(id);
    } else {
      policy(t)->Remove(id);
    }
  }
  if (t != kDdr) {
    tiers_[t]->Free(place(id, t));
    return;
  }
  const FrameAt at = ddr_at_[id];
  if (keep_owners_) owners_.erase(at);
  if (e.frame_refs > 0) {
    frames_->Orphan(at, e.frame_bytes(), e.frame_refs);
    e.frame_refs = 0;
  } else {
    frames_->Free(at, e.frame_bytes(), HostFrames::Use::kDdr);
  }
  ddr_at_[id] = kNoFrame;
}

void Ledger::Remove(EntryId id, Why why) {
  Entry& e = index[id];
  for (int t = 0; t < kTiers; ++t) {
    if (e.readable(t)) FreeCopy(id, t, why);
  }
  if (e.leases > 0) leased_bytes_[e.lease_tier] -= e.bytes_in(e.lease_tier);
  if (e.charged_class != 0 && (why == Why::kRoom || why == Why::kCorrupt)) {
    holds.CountBroken(e.charged_class);
  }
  if (why == Why::kExpired && e.hold_class != 0) holds.CountExpired(e.hold_class);
  if (e.hold_class != 0 && persistent_) forgotten.push_back(e.key);
  holds.Forget(id);
  if (const EntryId parent = Parent(e); parent != kNoEntry) --index[parent].children;
  index.Erase(id);
}

void Ledger::Touch(EntryId id, uint16_t request, HoldMillis now) {
  Entry& e = index[id];
  const uint32_t before = e.last_touch;
  e.last_touch = ++stamp_;
  if (e.readable(kHbm)) policy(kHbm)->Touch(id);
  if (e.readable(kDdr)) policy(kDdr)->Touch(id);
  if (e.readable(kFlash)) {
    grouped(kFlash)->Touched(flash_at_[id], before, e.last_touch);
  }
  if (e.readable(kDisk)) grouped(kDisk)->Touched(disk_at_[id], before, e.last_touch);
  if (e.last_request == request) return;
  e.last_request = request;
  // By another request: a put that waited for room touches what it spilled itself.
  e.used_on_flash = e.readable(kFlash) ? 1 : 0;
  e.refused = 0;
  if (e.touches < 255) ++e.touches;
  if (e.hold_class == 0) {
    if (admission.limited()) admission.Remember(e.key, request);
    return;
  }
  const HoldMillis deadline = e.deadline;
  holds.Refresh(id, now);
  NoteDeadline(id, deadline);
}

void Ledger::PrefetchTouch(EntryId id) const noexcept {
  if (policies_[kDdr] != nullptr) policies_[kDdr]->Prefetch(id);
}

void Ledger::TouchAncestors(EntryId id, uint8_t hold_class, uint16_t request, HoldMillis now) {
  // Deepest first, so that the root ends most recent. A chain is as long as a prompt.
  for (EntryId a = Parent(index[id]); a != kNoEntry; a = Parent(index[a])) {
    Touch(a, request, now);
    if (hold_class != 0) ApplyHold(a, hold_class, now);
  }
}

bool Ledger::ApplyHold(EntryId id, uint8_t hold_class, HoldMillis now) {
  const HoldMillis before = index[id].deadline;
  const bool granted = holds.Apply(id, hold_class, now);
  NoteDeadline(id, before);
  Relist(id);
  return granted;
}

void Ledger::Release(EntryId id) {
  holds.Release(id);
  Relist(id);
  if (persistent_) moved_deadlines.push_back(id);
}

void Ledger::NoteDeadline(EntryId id, HoldMillis before) {
  const Entry& e = index[id];
  if (!persistent_ || e.deadline == before) return;
  if (e.readable(kFlash)) grouped(kFlash)->SetEnd(flash_at_[id], e.deadline);
  if (!e.live_below(kDdr)) return;  // the copy that will be written carries it
  const int64_t step = std::max<int64_t>(holds.ttl_ms(e.hold_class) / 8, 1);
  if (before == kNoDeadline || before / step != e.deadline / step) moved_deadlines.push_back(id);
}

// ------------------------------------------------------------------ copies

Place Ledger::place(EntryId id, int t) const noexcept {
  if (t == kFlash) return flash_at_[id];
  if (t == kDisk) return disk_at_[id];
  return {0, t == kHbm ? hbm_at_[id] : ddr_at_[id]};
}

Shape Ledger::ShapeOf(EntryId id) const noexcept {
  const Entry& e = index[id];
  return {.payload_bytes = e.payload_bytes,
          .hold_class = e.charged_class,
          .deadline = e.deadline,
          .entry = id,
          .touched = e.last_touch,
          .rewrite = false};
}

FrameExpect Ledger::ExpectOf(EntryId id) const noexcept {
  const Entry& e = index[id];
  FrameExpect expect;
  expect.key = e.key;
  expect.root = roots_[e.root].key;
  expect.index = e.position;
  expect.payload_bytes = e.payload_bytes;
  return expect;
}

uint8_t Ledger::ListFor(const Entry& e, int t) const noexcept {
  if (e.live_below(t)) return kClean;
  if (e.charged_class == 0) return kLoose;
  return static_cast<uint8_t>(kGranted + e.charged_class - 1);
}

void Ledger::Relist(EntryId id) {
  const Entry& e = index[id];
  for (int t : {int{kHbm}, int{kDdr}}) {
    if (!e.readable(t)) continue;
    const uint8_t list = ListFor(e, t);
    if (policy(t)->ListOf(id) != list) policy(t)->Move(id, list);
  }
}

void Ledger::SetLive(EntryId id, int t, Place at) {
  Entry& e = index[id];
  HF_CHECK(!e.readable(t));
  e.set_copy(t, CopyState::kLive);
  e.putting = 0;
  if (t == kHbm) hbm_at_[id] = at.slot;
  if (t == kFlash) {
    flash_at_[id] = at;
    e.used_on_flash = 0;
  }
  if (t == kDisk) disk_at_[id] = at;
  if (t == kDdr) {
    ddr_at_[id] = at.slot;
    if (keep_owners_) owners_[at.slot] = id;
  }
  ++stats[t].copies;
  stats[t].used_bytes += e.bytes_in(t);
  if (t <= kDdr) {
    policy(t)->Insert(id, ListFor(e, t),
                      {.bytes = e.frame_bytes(), .position = e.position, .fingerprint = e.key.lo});
  }
  Relist(id);
}

void Ledger::SetLeaving(EntryId id, int t) {
  index[id].set_copy(t, CopyState::kLeaving);
  Relist(id);
}

void Ledger::Relocate(EntryId id, int t, Place at) {
  Entry& e = index[id];
  tiers_[t]->Free(place(id, t));
  (t == kFlash ? flash_at_ : disk_at_)[id] = at;
  e.set_copy(t, CopyState::kLive);
  if (t == kFlash) e.used_on_flash = 0;
  Relist(id);
}

void Ledger::DropCopy(EntryId id, int t, Why why) {
  Entry& e = index[id];
  HF_CHECK(e.readable(t));
  if ((e.copies & ~(3 << (2 * t))) == 0) {  // its last copy
    if (e.children > 0 && why == Why::kRoom) stats[t].orphaned += e.children;
    Remove(id, why);
    return;
  }
  FreeCopy(id, t, why);
  Relist(id);
}

void Ledger::Abandon(EntryId id, int t, Why why) {
  Entry& e = index[id];
  HF_CHECK(e.copy(t) == CopyState::kArriving);
  e.set_copy(t, CopyState::kAbsent);
  if (e.copies == 0) Remove(id, why);
}

FrameRef Ledger::Ref(EntryId id) noexcept {
  Entry& e = index[id];
  HF_CHECK(e.frame_refs < UINT16_MAX);
  ++e.frame_refs;
  return {ddr_at_[id], id, e.generation};
}

void Ledger::Unref(const FrameRef& ref) {
  Entry& e = index[ref.id];
  if (e.generation == ref.generation && e.readable(kDdr) && ddr_at_[ref.id] == ref.at) {
    --e.frame_refs;
  } else {
    frames_->ReleaseOrphan(ref.at);
  }
}

void Ledger::Pin(EntryId id) noexcept {
  Entry& e = index[id];
  if (e.leases++ > 0) return;
  e.lease_tier = static_cast<uint8_t>(std::max(e.lowest(), 0)) & 3u;
  leased_bytes_[e.lease_tier] += e.bytes_in(e.lease_tier);
}

void Ledger::Unpin(EntryId id) noexcept {
  Entry& e = index[id];
  if (--e.leases == 0) leased_bytes_[e.lease_tier] -= e.bytes_in(e.lease_tier);
}

bool Ledger::MayPin(EntryId id) const noexcept {
  const Entry& e = index[id];
  if (e.leases > 0) return e.leases < UINT32_MAX;
  const int t = e.lowest();
  if (t < 0) return true;
  const uint64_t capacity =
      t == kDdr ? frames_->ddr_capacity() : tiers_[t]->limits().capacity_bytes;
  return static_cast<double>(leased_bytes_[t] + e.bytes_in(t)) <=
         lease_share_max_ * static_cast<double>(capacity);
}

uint64_t Ledger::memory_bytes() const noexcept {
  uint64_t per_entry = sizeof(FrameAt) + sizeof(uint32_t);
  if (on(kHbm)) per_entry += sizeof(uint32_t) + 12;
  if (on(kDdr)) per_entry += 12;
  if (on(kFlash)) per_entry += sizeof(Place);
  if (on(kDisk)) per_entry += sizeof(Place);
  return index.memory_bytes() + holds.memory_bytes() + per_entry * index.ids_end() +
         roots_.capacity() * sizeof(Root);
}

}  // namespace holdfast::internal
