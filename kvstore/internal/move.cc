// Moves: copies that the store writes elsewhere by its own decision: spills, writes at put,
// rewrites out of a group that goes, promotions to hbm. Paced so that fetches keep the device.
#include <algorithm>
#include <cstring>

#include "kvstore/check.h"
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

constexpr uint32_t kMovesMax = 2;  // to one device
constexpr uint32_t kPromotionsMax = 4;

}  // namespace

// Depth protects a fetch, not priority: two frames and so many bytes at most, one while fetches
// run. Paused, now and then one, so that puts come through.
bool Core::MayMove(int tier, uint64_t bytes) {
  const PacedTier& paced = paced_[tier];
  if (tier <= kDdr) return paced.moves < kPromotionsMax;
  const Instant now = run_clock_->Now();
  const bool quiet = fetching_ == 0 && now - last_load_ >= options_.fetch_quiet;
  if (!quiet && options_.pause_spills_for_fetches) {
    return paced.moves == 0 && now - paced.latest >= kPausedSpillEvery;
  }
  if (paced.moves == 0) return true;
  return paced.moves < (quiet ? kMovesMax : 1) &&
         paced.bytes + bytes <= options_.spill_bytes_in_flight;
}

void Core::FillPlacement(EntryId id, FrameHeader& header) {
  const Entry& e = ledger_.index[id];
  FramePlacement& p = header.placement;
  const uint64_t write_id = p.write_id;
  p = FramePlacement{};
  // Only the low word is kept in the index; a frame in memory or just read knows the whole.
  p.write_id = static_cast<uint32_t>(write_id) == ledger_.write_id_low(id) && write_id != 0
                   ? write_id
                   : ((next_write_id_ - 1) & ~uint64_t{UINT32_MAX}) | ledger_.write_id_low(id);
  if (p.write_id >= next_write_id_) p.write_id -= uint64_t{1} << 32;
  p.deadline_ms = e.deadline;
  p.hold_ttl_ms = e.released ? 0 : static_cast<uint64_t>(ledger_.holds.ttl_ms(e.hold_class));
  p.granted = e.charged_class != 0 ? 1 : 0;
  p.touches = e.touches;
}

// False: not now (no place, no frame). The entry is then as before.
bool Core::StartMove(EntryId id, int from, int to, Move::Reason reason, bool reclaim) {
  Entry& e = ledger_.index[id];
  auto move = std::make_unique<Move>();
  move->id = id;
  move->generation = e.generation;
  move->from = from;
  move->to = to;
  move->reason = reason;
  move->reclaim = reclaim;
  move->bytes = e.payload_bytes;
  const bool from_ddr = from == kDdr || e.readable(kDdr);
  if (to != kDdr) {
    Shape shape = ledger_.ShapeOf(id);
    shape.rewrite = reason == Move::Reason::kRewrite;
    const std::optional<Place> place = AllocateIn(to, shape);
    if (!place.has_value()) return false;
    move->target = *place;
    move->stamp = shape.touched;
  }
  if (!from_ddr) {
    move->use = to == kDdr ? HostFrames::Use::kDdr : HostFrames::Use::kStaging;
    move->frame =
        to == kDdr ? MakeDdrFrame(e.frame_bytes()) : frames_.Allocate(e.frame_bytes(), move->use);
    if (move->frame == kNoFrame || e.generation != move->generation) {
      if (move->frame != kNoFrame) {
        frames_.Free(move->frame, FrameBytes(move->bytes), move->use);
      }
      if (to != kDdr) tiers_[to]->Free(move->target);
      return false;
    }
  } else {
    move->source = ledger_.Ref(id);
  }
  e.moving = 1;
  ++paced_[to].moves;
  paced_[to].bytes += move->bytes;
  paced_[to].latest = run_clock_->Now();
  move->io.header = TakeHeader();
  if (reclaim) ++reclaims_[from].moves;
  SubmitMove(std::move(move), from_ddr);
  return true;
}

// Starts the read of the source, or the write of the frame.
void Core::SubmitMove(std::unique_ptr<Move> move, bool write) {
  const EntryId id = move->id;
  FrameHeader* header = move->io.header;
  FrameOp& io = move->io;
  io = FrameOp{};
  io.header = header;
  io.tag = reinterpret_cast<uint64_t>(static_cast<Transfer*>(move.get()));
  move->writing = write;
  const FrameAt frame = move->source.at != kNoFrame ? move->source.at : move->frame;
  const uint64_t padded = RoundUp(move->bytes, kPageBytes);
  if (options_.bytes) move->extents.assign(1, {frames_.payload(frame), padded});
  io.payload = move->extents;
  if (write) {
    move->tier = move->to;
    io.kind = FrameOpKind::kWrite;
    io.place = move->target;
    if (options_.bytes && move->source.at != kNoFrame) {
      std::memcpy(header, frames_.header(frame), sizeof(FrameHeader));
    }
    FillPlacement(id, *header);
  } else {
    move->tier = move->from;
    io.kind = FrameOpKind::kRead;
    io.place = ledger_.place(id, move->from);
    io.expect = ledger_.ExpectOf(id);
  }
  ++transfers_;
  outbox_.submits.push_back(move.release());
}

void Core::OnMove(std::unique_ptr<Move> move) {
  const Entry& e = ledger_.index[move->id];
  const bool here = e.generation == move->generation;
  const bool good = move->io.outcome == FrameOutcome::kDone;
  TierStats& stats = ledger_.stats[move->tier];
  if (!good) {
    ++(move->io.outcome == FrameOutcome::kCorrupt ? stats.corrupt : stats.failed);
    if (move->io.os_errno != 0) stats.last_errno = move->io.os_errno;
  }
  if (!move->writing) {
    if (good && here && e.readable(move->from)) {
      MoveRead(std::move(move));
      return;
    }
    if (!good && here && e.readable(move->from) &&
        ledger_.place(move->id, move->from) == move->io.place) {
      ledger_.DropCopy(move->id, move->from, Why::kCorrupt);
    }
    if (move->to != kDdr) tiers_[move->to]->Free(move->target);
    EndMove(*move);
    return;
  }
  stats.write_latency.Add(move->io.finished - move->io.submitted);
  if (!good || !here || e.live(move->to)) {
    tiers_[move->to]->Free(move->target);
    // What cannot go down may be dropped: the tier above must not wedge.
    if (here && !good) ledger_.index[move->id].refused = 1;
    EndMove(*move);
    return;
  }
  stats.payload_written_bytes += move->bytes;
  if (move->to >= kFlash) {
    ledger_.admission.Spend(FrameBytes(move->bytes), run_clock_->Now());
  }
  if (move->to >= kFlash) {
    ledger_.grouped(move->to)->Touched(move->target, move->stamp, e.last_touch);
  }
  if (e.readable(move->to)) {  // rewritten, or written again while its old copy there leaves
    ledger_.Relocate(move->id, move->to, move->target);
  } else {
    ledger_.SetLive(move->id, move->to, move->target);
  }
  switch (move->reason) {
    case Move::Reason::kSpill:
      ++stats.spilled_in;
      break;
    case Move::Reason::kAtPut:
      ++stats.put_in;
      break;
    case Move::Reason::kRewrite:
      ++stats.rewritten;
      break;
    case Move::Reason::kPromote:
      ++stats.promoted;
      break;
  }
  EndMove(*move);
}

// The source is in a frame now: it becomes the ddr copy, or is written on.
void Core::MoveRead(std::unique_ptr<Move> move) {
  if (move->to != kDdr) {
    SubmitMove(std::move(move), /*write=*/true);
    return;
  }
  if (ledger_.index[move->id].copy(kDdr) == CopyState::kAbsent) {
    if (options_.bytes) {
      std::memcpy(frames_.header(move->frame), move->io.header, sizeof(FrameHeader));
    }
    ledger_.SetLive(move->id, kDdr, Ledger::PlaceOf(move->frame));
    move->frame = kNoFrame;
    ++ledger_.stats[kDdr].spilled_in;
  }
  EndMove(*move);
}

void Core::EndMove(Move& move) {
  GiveHeader(move.io.header);
  --paced_[move.to].moves;
  paced_[move.to].bytes -= move.bytes;
  if (move.source.at != kNoFrame) ledger_.Unref(move.source);
  if (move.frame != kNoFrame) frames_.Free(move.frame, FrameBytes(move.bytes), move.use);
  Entry& e = ledger_.index[move.id];
  if (e.generation == move.generation) e.moving = 0;
  if (move.reclaim) --reclaims_[move.from].moves;
  room_changed_ = step_wanted_ = true;
}

// Whether a tier below that has no place for a copy now will have one by itself: a group is being
// prepared, flushed or taken back. A rewrite out of a group cannot wait for that group.
bool Core::RoomIsComing(int tier, const Entry& e, bool rewrite) {
  if (tier < kFlash || tier_failing_[tier]) return false;
  const GroupedTier* t = ledger_.grouped(tier);
  const uint64_t longest = t->limits().frame_bytes_max;
  if (longest != 0 && e.frame_bytes() > longest) return false;
  if (rewrite ? t->usage().groups_free > 0 : !t->NeedsRoom()) return true;
  if (paced_[tier].moves > 0 || t->in_flight() > 0) return true;
  return !rewrite && (reclaims_[tier].active || t->usage().undurable_bytes > 0 ||
                      t->NextStep() != Instant::max());
}

// Entries that wait in a queue for their move. True: one was started.
bool Core::StartQueued(std::deque<EntryId>& queue, Move::Reason reason) {
  bool did = false;
  const auto pop = [&] {
    mutex_.AssertHeld();
    ledger_.index[queue.front()].urgent = 0;
    queue.pop_front();
  };
  for (size_t looks = 0; !queue.empty() && looks < kBlocksPerLock; ++looks) {
    const EntryId id = queue.front();
    Entry& e = ledger_.index[id];
    const bool up = reason == Move::Reason::kPromote;
    const int from = up ? int{kDdr} : e.readable(kDdr) ? int{kDdr} : int{kHbm};
    // A drain goes past ddr: only below it a copy lasts.
    const Ledger::Down down = up ? Ledger::Down{kHbm, PlacementRow::kOnLeave}
                                 : ledger_.DownFrom(e, &queue == &draining_ ? int{kDdr} : from);
    if (!e.in_use || e.moving || !e.readable(from) || down.tier < 0 || e.readable(down.tier) ||
        e.frame_refs == UINT16_MAX || (!up && e.live_below(from))) {
      pop();
      continue;
    }
    if (reason == Move::Reason::kAtPut &&
        !ledger_.admission.HasCredit(e.frame_bytes(), run_clock_->Now())) {
      pop();  // the budget wins; it goes when it leaves ddr
      continue;
    }
    if (!MayMove(down.tier, e.payload_bytes)) return did;
    const uint32_t generation = e.generation;
    if (!StartMove(id, from, down.tier, reason, /*reclaim=*/false)) {
      if (up || e.generation != generation) {
        pop();  // a promotion is a wish
        continue;
      }
      // No place below. Somebody makes room there, or else this copy may be dropped unspilled.
      if (&queue == &urgent_ && !RoomIsComing(down.tier, e, /*rewrite=*/false)) {
        e.refused = 1;
        pop();
      }
      return did;
    }
    pop();
    did = true;
  }
  return did;
}

bool Core::StartMoves() {
  Section section(*this);
  bool did = StartQueued(urgent_, Move::Reason::kSpill);
  did = StartQueued(at_put_, Move::Reason::kAtPut) || did;
  did = StartQueued(draining_, Move::Reason::kSpill) || did;
  did = StartQueued(to_hbm_, Move::Reason::kPromote) || did;
  const int below = ledger_.on(kFlash) ? int{kFlash} : int{kDisk};
  if (!ledger_.on(kDdr) || !ledger_.on(below) || closed_) return did;
  // Ahead of need: the cold end of ddr is kept clean once ddr is nearly full.
  const uint64_t typical = FrameBytes(options_.payload_bytes_typical);
  const uint64_t frames = frames_.ddr_capacity() / typical;
  const uint64_t ahead = std::max<uint64_t>(
      4, static_cast<uint64_t>(options_.spill_ahead_share * static_cast<double>(frames)));
  const uint64_t free = (frames_.ddr_capacity() - frames_.ddr_used()) / typical;
  while (free < ahead && MayMove(below, options_.payload_bytes_typical)) {
    const EntryId id = ledger_.FindSpill(ahead - free, HoldNow(), run_clock_->Now());
    if (id == kNoEntry || !StartMove(id, kDdr, below, Move::Reason::kSpill, false)) break;
    did = true;
  }
  return did;
}

}  // namespace holdfast::internal
