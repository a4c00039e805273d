// Making room in hbm and ddr. Room is made by dropping; a copy that has to go down first is queued
// for that, and the put waits for the write, within its patience.
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

constexpr int kDropsPerCall = 64;

}  // namespace

FrameAt Core::MakeDdrFrame(uint64_t frame_bytes) {
  if (!MakeRoom(kDdr, frame_bytes)) return kNoFrame;
  FrameAt at = frames_.Allocate(frame_bytes, HostFrames::Use::kDdr);
  if (at == kNoFrame) {  // bytes are free, but in pages of other sizes
    TakePage(frame_bytes);
    at = frames_.Allocate(frame_bytes, HostFrames::Use::kDdr);
  }
  return at;
}

bool Core::MakeRoom(int tier, uint64_t frame_bytes) {
  const auto fits = [&] {
    if (tier == kDdr) return frames_.DdrHasRoom(frame_bytes);
    // The tier's own word: slots of copies on their way count, too. It keeps no headers.
    return tiers_[kHbm]->usage().used_bytes + frame_bytes - kPageBytes <=
           tiers_[kHbm]->limits().capacity_bytes;
  };
  const HoldMillis now = HoldNow();
  for (int drops = 0; !fits(); ++drops) {
    if (drops == kDropsPerCall) return false;
    const Ledger::Victim v = ledger_.FindVictim(tier, now, run_clock_->Now());
    if (v.id == kNoEntry) return false;
    const Entry& e = ledger_.index[v.id];
    if (v.must_move) {
      MoveSoon(v.id);
      return false;
    }
    if (e.deadline <= now) {
      ledger_.Remove(v.id, Why::kExpired);
    } else {
      ledger_.DropCopy(v.id, tier, Why::kRoom);
    }
  }
  return true;
}

void Core::MoveSoon(EntryId id) {
  Entry& e = ledger_.index[id];
  if (!e.moving && !e.urgent) {
    e.urgent = 1;
    urgent_.push_back(id);
  }
  step_wanted_ = outbox_.ring = true;
}

// Empties the page that can change its frame size most cheaply, as far as its frames may go now.
void Core::TakePage(uint64_t frame_bytes) {
  std::vector<FrameAt> frames;
  frames_.PageToTake(frame_bytes, frames);
  for (FrameAt at : frames) {
    const EntryId id = ledger_.OwnerOf(at);
    if (id == kNoEntry) continue;
    const Entry& e = ledger_.index[id];
    if (e.frame_refs > 0 || e.moving || (e.leases > 0 && !e.live_below(kDdr))) continue;
    if (ledger_.MustMove(id, kDdr, run_clock_->Now())) {
      MoveSoon(id);
    } else {
      ledger_.DropCopy(id, kDdr, Why::kRoom);
    }
  }
}

bool Core::MakeIndexRoom() {
  for (int t : {int{kDdr}, int{kHbm}}) {
    if (!ledger_.on(t)) continue;
    const Ledger::Victim v = ledger_.FindVictim(t, HoldNow(), run_clock_->Now());
    if (v.id == kNoEntry || v.must_move || ledger_.index[v.id].leases > 0) continue;
    ledger_.Remove(v.id, Why::kRoom);
    return true;
  }
  return false;
}

std::optional<Place> Core::AllocateIn(int tier, const Shape& shape) {
  std::optional<Place> place = tiers_[tier]->Allocate(shape);
  if (place.has_value()) return place;
  step_wanted_ = outbox_.ring = true;
  if (tier == kHbm && MakeRoom(kHbm, FrameBytes(shape.payload_bytes))) {
    return tiers_[tier]->Allocate(shape);
  }
  return std::nullopt;
}

}  // namespace holdfast::internal
