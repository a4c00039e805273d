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
  // Half a segment at most, or reclaiming would gain nothing.
  r.rewrite_bytes_max = tier == kDisk ? UINT64_MAX : t->limits().frame_bytes_max / 2;
  return true;
}

// The tier that a copy in a group that goes is written to again; -1: it goes with its group.
int Core::KeepIn(int tier, EntryId id, const Reclaim& r, HoldMillis now) {
  const Entry& e = ledger_.index[id];
  const bool elsewhere = (e.copies & ~(3 << (2 * tier))) != 0;
  const bool granted = e.charged_class != 0 && e.deadline > now;
  // Copies above turn dirty and go down again in their time. A granted one stays written down.
  if (e.moving || (elsewhere && !(granted && tier == kFlash && !e.live_below(kFlash)))) return -1;
  if (e.leases > 0 && !elsewhere) return tier;
  if (tier == kDisk) {
    const HoldMillis end = ledger_.grouped(kDisk)->CopyEnd(ledger_.place(id, kDisk));
    return granted && r.expired && e.deadline > end ? kDisk : -1;
  }
  if ((granted || e.used_on_flash) && r.rewritten_bytes < r.rewrite_bytes_max) return kFlash;
  if (elsewhere) return -1;
  const Ledger::Down down = ledger_.DownFrom(e, kFlash);
  const bool leaves = down.row == PlacementRow::kOnLeave || down.row == PlacementRow::kAtPut;
  const bool admitted =
      down.row == PlacementRow::kAdmitted &&
      (e.touches >= 2 || ledger_.admission.HasCredit(e.frame_bytes(), run_clock_->Now()));
  return leaves || admitted ? down.tier : -1;
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
    } else if (const int to = KeepIn(tier, c.entry, r, now); to >= 0) {
      if (to == tier) r.rewritten_bytes += e.frame_bytes();
      ledger_.SetLeaving(c.entry, tier);
      r.keep.push_back({c.entry, to});
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
    const auto [id, to] = r.keep.front();
    const Entry& e = ledger_.index[id];
    if (!e.in_use || e.copy(tier) != CopyState::kLeaving || e.moving) {
      r.keep.pop_front();
      continue;
    }
    if (!MayMove(to, e.payload_bytes)) return false;
    const auto reason = to == tier ? Move::Reason::kRewrite : Move::Reason::kSpill;
    const uint32_t generation = e.generation;
    if (!StartMove(id, tier, to, reason, /*reclaim=*/true)) {
      if (r.moves > 0) return false;  // a frame or a place comes free with those
      // Where nothing is under way that would make room it is dropped, as the last resort of a full
      // tier.
      if (RoomIsComing(to, e, to == tier)) return false;
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
