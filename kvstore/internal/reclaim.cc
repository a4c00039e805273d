// Groups on their way out: flash segments and disk buckets that are expired, or whose space is
// needed. What is still wanted is written elsewhere first; the rest goes with its group.
#include <algorithm>

#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {

bool Core::BeginReclaim(int tier, HoldMillis now) {
  GroupedTier* t = ledger_.grouped(tier);
  Reclaim& r = reclaims_[tier];
  std::optional<GroupId> group = t->Expired(now);
  r.expired = group.has_value();
  if (!group.has_value() && t->NeedsRoom()) group = t->Victim(now);
  if (!group.has_value()) return false;
  r.active = true;
  r.group = *group;
  r.next = 0;
  r.moves = 0;
  r.rewritten_bytes = 0;
  r.copies.clear();
  r.keep.clear();
  t->BeginRetire(r.group);
  t->Live(r.group, r.copies);
  uint64_t live_bytes = 0;
  for (const LiveCopy& c : r.copies) live_bytes += ledger_.index[c.entry].frame_bytes();
  // Half a segment at most, or reclaiming would gain nothing.
  r.rewrite_bytes_max =
      tier == kDisk ? UINT64_MAX : std::max<uint64_t>(options_.segment_bytes, live_bytes) / 2;
  return true;
}

// Whether a copy in a group that goes is worth writing again.
bool Core::KeepCopy(int tier, EntryId id, const Reclaim& r, HoldMillis now) {
  const Entry& e = ledger_.index[id];
  if (e.moving) return false;
  const bool elsewhere = (e.copies & ~(3 << (2 * tier))) != 0;
  if (elsewhere) return false;  // the copies above turn dirty, and go down again in their time
  if (e.leases > 0) return true;
  const bool granted = e.charged_class != 0 && e.deadline > now;
  if (tier == kDisk) {
    return granted && r.expired &&
           e.deadline > ledger_.grouped(kDisk)->CopyEnd(ledger_.place(id, kDisk));
  }
  if ((granted || e.used_on_flash) && r.rewritten_bytes < r.rewrite_bytes_max) return true;
  const Ledger::Down down = ledger_.DownFrom(e, kFlash);
  return down.tier == kDisk &&
         (down.row == PlacementRow::kOnLeave || down.row == PlacementRow::kAtPut ||
          (down.row == PlacementRow::kAdmitted &&
           (ledger_.admission.HasCredit(e.frame_bytes(), run_clock_->Now()) || e.touches >= 2)));
}

// One locked section's worth of the group's copies: dropped, or kept for a move. True: all were
// looked at.
bool Core::SortCopies(int tier, HoldMillis now) {
  Reclaim& r = reclaims_[tier];
  const size_t end = std::min(r.copies.size(), r.next + kBlocksPerLock);
  for (; r.next < end; ++r.next) {
    const LiveCopy& c = r.copies[r.next];
    const Entry& e = ledger_.index[c.entry];
    if (!e.in_use || !e.readable(tier) || !(ledger_.place(c.entry, tier) == c.place)) continue;
    if (e.deadline <= now && e.leases == 0) {
      ledger_.Remove(c.entry, Why::kExpired);
    } else if (KeepCopy(tier, c.entry, r, now)) {
      if (tier == kFlash && (e.used_on_flash || e.charged_class != 0)) {
        r.rewritten_bytes += e.frame_bytes();
      }
      ledger_.SetLeaving(c.entry, tier);
      r.keep.push_back(c.entry);
    } else {
      ledger_.DropCopy(c.entry, tier, Why::kRoom);
    }
  }
  return r.next == r.copies.size();
}

// Starts moves of kept copies as pacing allows. True: none is left to start.
bool Core::MoveKept(int tier, HoldMillis now) {
  Reclaim& r = reclaims_[tier];
  while (!r.keep.empty()) {
    const EntryId id = r.keep.front();
    const Entry& e = ledger_.index[id];
    if (!e.in_use || e.copy(tier) != CopyState::kLeaving || e.moving) {
      r.keep.pop_front();
      continue;
    }
    const bool rewrite = tier == kDisk || e.used_on_flash || e.charged_class != 0 ||
                         !ledger_.on(kDisk) ||
                         ledger_.DownFrom(e, kFlash).row == PlacementRow::kNever;
    const int to = rewrite ? tier : int{kDisk};
    if (!MayMove(to, e.payload_bytes)) return false;
    const auto reason = rewrite ? Move::Reason::kRewrite : Move::Reason::kSpill;
    const uint32_t generation = e.generation;
    if (!StartMove(id, tier, to, reason, /*reclaim=*/true)) {
      if (r.moves > 0) return false;  // a frame or a place comes free with those
      // Nothing is under way that would make room: it is dropped, as the last resort of a full
      // tier.
      if (ledger_.index[id].generation == generation && ledger_.index[id].readable(tier)) {
        ledger_.DropCopy(id, tier, e.deadline <= now ? Why::kExpired : Why::kRoom);
      }
    }
    r.keep.pop_front();
  }
  return true;
}

bool Core::RunReclaims(HoldMillis now) {
  bool did = false;
  for (int tier : {int{kFlash}, int{kDisk}}) {
    if (tiers_[tier] == nullptr) continue;
    Section section(*this);
    Reclaim& r = reclaims_[tier];
    if (!r.active && (closed_ || !BeginReclaim(tier, now))) continue;
    const size_t before = r.next + r.keep.size();
    const uint32_t moves = r.moves;
    const bool sorted = SortCopies(tier, now);
    const bool started = MoveKept(tier, now);
    did = did || before != r.next + r.keep.size() || r.moves != moves;
    if (!sorted || !started || r.moves > 0) continue;
    // Moves that failed left copies behind.
    for (const LiveCopy& c : r.copies) {
      const Entry& e = ledger_.index[c.entry];
      if (e.in_use && e.readable(tier) && ledger_.place(c.entry, tier) == c.place) {
        ledger_.DropCopy(c.entry, tier, Why::kRoom);
      }
    }
    ledger_.grouped(tier)->Retire(r.group);
    r.active = false;
    did = room_changed_ = true;
  }
  return did;
}

}  // namespace holdfast::internal
