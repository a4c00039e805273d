// Looking: Find, FindPrefix and its leases, Want.
#include <algorithm>

#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {

void Core::Find(const Blocks& blocks, std::span<Where> out) {
  std::fill(out.begin(), out.end(), Where::kAbsent);
  if (!CheckAlive().ok() || blocks.size() == 0) return;
  const size_t n = std::min(out.size(), blocks.size());
  for (size_t first = 0; first < n; first += kBlocksPerLock) {
    Section section(*this);
    if (!EpochCurrent(blocks)) return;
    const HoldMillis now = HoldNow();
    ledger_.ForEach(blocks, first, std::min(n, first + kBlocksPerLock), [&](size_t i, EntryId id) {
      mutex_.AssertHeld();
      if (id == kNoEntry) return true;
      const Entry& e = ledger_.index[id];
      if (ledger_.Served(e, now)) {
        out[i] = ToWhere(e.nearest());
      } else if (e.putting && now < e.deadline) {
        out[i] = Where::kArriving;
      }
      return true;
    });
  }
}

Match Core::FindPrefix(const Blocks& blocks, size_t first, Duration lease) {
  Match match{.first = first, .count = 0, .lease = {}};
  if (Forked() || first >= blocks.size()) return match;
  auto state = std::make_unique<PinLease>(shared_from_this());
  const bool pins = lease > Duration::zero();
  if (pins) state->pins.reserve(blocks.size() - first);
  state->until = run_clock_->Now() + std::min<Duration>(lease, std::chrono::hours(24));
  bool more = true;
  for (size_t at = first; at < blocks.size() && more; at += kBlocksPerLock) {
    Section section(*this);
    if (closed_ || !EpochCurrent(blocks)) break;
    const size_t end = std::min(blocks.size(), at + kBlocksPerLock);
    const HoldMillis now = HoldNow();
    counters_.lookups += end - at;
    const size_t before = match.count;
    ledger_.ForEach(blocks, at, end, [&](size_t, EntryId id) {
      mutex_.AssertHeld();
      more = id != kNoEntry && ledger_.Served(ledger_.index[id], now);
      if (!more) return false;
      if (pins && !ledger_.MayPin(id)) {
        ++counters_.matches_cut;
        more = false;
        return false;
      }
      if (pins) {
        ledger_.Pin(id);
        state->pins.push_back({id, ledger_.index[id].generation});
      }
      ++match.count;
      return true;
    });
    counters_.matched += match.count - before;
  }
  if (state->pins.empty()) {
    state->ended = true;
  } else {
    Section section(*this);
    auto it = leases_.end();  // listed by end; nearly always the last
    while (it != leases_.begin() && (*std::prev(it))->until > state->until) --it;
    state->at = leases_.insert(it, state.get());
    ++counters_.leases;
  }
  match.lease = Lease(std::move(state));
  return match;
}

void Core::Unpin(PinLease& lease) {
  for (const PinLease::Pin& pin : lease.pins) {
    if (ledger_.index[pin.id].generation == pin.generation) ledger_.Unpin(pin.id);
  }
  lease.pins.clear();
  lease.ended = true;
  leases_.erase(lease.at);
  --counters_.leases;
  room_changed_ = true;
}

void Core::EndPins(PinLease* lease) {
  if (Forked()) return;
  Section section(*this);
  if (!lease->ended) Unpin(*lease);
}

bool Core::EndLeases(Instant now) {
  Section section(*this);
  bool did = false;
  while (!leases_.empty() && leases_.front()->until <= now) {
    Unpin(*leases_.front());
    ++counters_.leases_expired;
    did = true;
  }
  return did;
}

void Core::EndViews(const ViewLease& lease) {
  if (Forked()) return;
  for (size_t first = 0; first < lease.views.size(); first += kBlocksPerLock) {
    Section section(*this);
    if (first == 0 && lease.held) held_.erase(*lease.held);
    const size_t end = std::min(lease.views.size(), first + kBlocksPerLock);
    for (size_t i = first; i < end; ++i) {
      const ViewLease::View& view = lease.views[i];
      if (view.at == kNoFrame) continue;
      if (view.staging_frame_bytes > 0) {
        frames_.Free(view.at, view.staging_frame_bytes, HostFrames::Use::kStaging);
      } else {
        ledger_.Unref(view.ref);
      }
      --views_;
      room_changed_ = true;
    }
    outbox_.ring = !parked_.empty() || !starved_.empty();
  }
}

void Core::EndReserved(FrameAt at, uint64_t frame_bytes, HeldList::iterator held) {
  if (Forked()) return;
  Section section(*this);
  held_.erase(held);
  frames_.Free(at, frame_bytes, HostFrames::Use::kDdr);
  --views_;
  room_changed_ = true;
  outbox_.ring = !parked_.empty() || !starved_.empty();
}

void Core::Want(const Blocks& blocks, Hold hold, uint64_t request, std::span<bool> out) {
  std::fill(out.begin(), out.end(), false);
  if (!CheckAlive().ok()) return;
  const size_t n = std::min(out.size(), blocks.size());
  for (size_t first = 0; first < n; first += kBlocksPerLock) {
    Section section(*this);
    if (!EpochCurrent(blocks)) return;
    const uint8_t hold_class = ledger_.holds.ClassOf(hold.ttl);
    if (hold_class == Holds::kTooLong) return;
    const HoldMillis now = HoldNow();
    const uint16_t folded = FoldRequest(request);
    ledger_.ForEach(blocks, first, std::min(n, first + kBlocksPerLock), [&](size_t i, EntryId id) {
      mutex_.AssertHeld();
      if (id != kNoEntry && (ledger_.Served(ledger_.index[id], now) || ledger_.index[id].putting)) {
        return true;  // here already
      }
      if (hold_class == 0) ledger_.admission.Remember(blocks.key(i), folded);
      // Host memory keeps whatever fits; without it the lower tier takes every put.
      out[i] = ledger_.on(kDdr) || ledger_.on(kFlash) || ledger_.on(kDisk);
      return true;
    });
  }
}

}  // namespace holdfast::internal
