// Ledger's choice of victims of hbm and ddr: expired; clean; not granted; granted, earliest
// deadline first. Within each the policy's order. Never one in use, never the last copy of a leased
// block or of one with resident children: the policy is asked for its next choice.
#include "kvstore/internal/ledger.h"

namespace holdfast::internal {
namespace {

// How far a list is walked for a better choice before the lock has been held long enough.
constexpr int kChoicesMax = 256;

}  // namespace

bool Ledger::MayDrop(const Entry& e, int t) const noexcept {
  if (t == kDdr && e.frame_refs > 0) return false;
  if (e.moving) return false;
  const bool last = (e.copies & ~(3 << (2 * t))) == 0;
  return !last || (e.leases == 0 && e.children == 0);
}

Ledger::Victim Ledger::FirstOf(int t, uint8_t list, Instant run_now) {
  const eviction::Policy& order = *policy(t);
  Victim waits;
  EntryId orphaning = kNoEntry;
  int steps = 0;
  for (EntryId id = order.Victim(list); id != eviction::kNoEntry && steps < kChoicesMax;
       id = order.VictimAfter(id), ++steps) {
    const Entry& e = index[id];
    if (!MayDrop(e, t)) {
      ++evictions_refused;
      const bool only_children =
          e.children > 0 && e.leases == 0 && !e.moving && (t != kDdr || e.frame_refs == 0);
      if (only_children && orphaning == kNoEntry) orphaning = id;
      if (e.moving && waits.id == kNoEntry) waits = {id, true};
      continue;
    }
    if (!MustMove(id, t, run_now)) return {id, false};
    if (waits.id == kNoEntry) waits = {id, true};
  }
  if (waits.id != kNoEntry || orphaning == kNoEntry) return waits;
  // Nothing but parents of residents as far as was looked: the tier must not wedge.
  return {orphaning, MustMove(orphaning, t, run_now)};
}

Ledger::Victim Ledger::FindVictim(int t, HoldMillis now, Instant run_now) {
  if (const EntryId id = holds.Expired(now); id != kNoEntry) {
    const Entry& e = index[id];
    if (e.readable(t) && !e.moving && (t != kDdr || e.frame_refs == 0)) return {id, false};
  }
  Victim best;
  for (uint8_t list : {uint8_t{kClean}, uint8_t{kLoose}}) {
    const Victim v = FirstOf(t, list, run_now);
    if (v.id != kNoEntry && !v.must_move) return v;
    if (best.id == kNoEntry) best = v;
  }
  if (best.id != kNoEntry) return best;
  HoldMillis earliest = kNoDeadline;
  for (uint8_t c = 0; c < kClassesMax; ++c) {
    const Victim v = FirstOf(t, static_cast<uint8_t>(kGranted + c), run_now);
    if (v.id == kNoEntry || index[v.id].deadline > earliest) continue;
    if (best.id != kNoEntry && !best.must_move && v.must_move) continue;
    best = v;
    earliest = index[v.id].deadline;
  }
  return best;
}

EntryId Ledger::FindSpill(uint64_t enough, HoldMillis now, Instant run_now) {
  const eviction::Policy& order = *policy(kDdr);
  uint64_t could_go = order.size(kClean);
  if (could_go >= enough) return kNoEntry;
  for (EntryId id = order.Victim(kLoose); id != eviction::kNoEntry && could_go < enough;
       id = order.VictimAfter(id), ++could_go) {
    if (index[id].moving) continue;
    if (MustMove(id, kDdr, run_now)) return id;
  }
  for (uint8_t c = 0; c < kClassesMax && could_go < enough; ++c) {
    const auto list = static_cast<uint8_t>(kGranted + c);
    for (EntryId id = order.Victim(list); id != eviction::kNoEntry && could_go < enough;
         id = order.VictimAfter(id), ++could_go) {
      const Entry& e = index[id];
      if (!e.moving && e.deadline > now && MustMove(id, kDdr, run_now)) return id;
    }
  }
  return kNoEntry;
}

EntryId Ledger::OwnerOf(FrameAt at) {
  if (!keep_owners_) {
    keep_owners_ = true;
    for (EntryId id = 0; id < index.ids_end(); ++id) {
      if (index[id].in_use && index[id].readable(kDdr)) owners_[ddr_at_[id]] = id;
    }
  }
  const auto it = owners_.find(at);
  return it == owners_.end() ? kNoEntry : it->second;
}

}  // namespace holdfast::internal
