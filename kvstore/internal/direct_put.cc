// Puts without a ddr tier: straight from the caller's memory into the next tier that is on, or
// through a staging frame where alignment does not allow that.
#include <algorithm>
#include <cstring>

#include "kvstore/check.h"
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

using At = Operation::At;

bool Aligned(std::span<const Extent> extents, const TierLimits& limits) {
  if (limits.extents_max != 0 && extents.size() + 1 > limits.extents_max) return false;
  return std::all_of(extents.begin(), extents.end(), [&](const Extent& x) {
    return (reinterpret_cast<uint64_t>(x.data) | x.bytes) % limits.alignment == 0;
  });
}

}  // namespace

Core::Begun Core::BeginDirectPut(const OperationPtr& op, size_t i, uint64_t payload_bytes) {
  const int tier = ledger_.on(kFlash) ? int{kFlash} : ledger_.on(kDisk) ? int{kDisk} : int{kHbm};
  auto put = std::make_unique<DirectPut>();
  put->tier = tier;
  put->op = op;
  put->block = static_cast<uint32_t>(i);
  put->payload_bytes = payload_bytes;
  if (options_.bytes) {
    op->ExtentsOf(i, put->extents);
    const TierLimits limits = tiers_[tier]->limits();
    if (!Aligned(put->extents, limits) || payload_bytes % limits.alignment != 0 ||
        payload_bytes != op->MemoryBytes(i)) {
      put->frame = frames_.Allocate(FrameBytes(payload_bytes), HostFrames::Use::kStaging);
      if (put->frame == kNoFrame) return Begun::kWait;
      ++counters_.bounced;
    }
  }
  const EntryId id = AddEntry(*op, i, payload_bytes);
  const auto give_up = [&](uint64_t& counter) {
    mutex_.AssertHeld();
    if (put->frame != kNoFrame) {
      frames_.Free(put->frame, FrameBytes(payload_bytes), HostFrames::Use::kStaging);
    }
    op->cut = std::min(op->cut, i);
    ++counter;
    Final(op, i, Item::kDeclined);
    return Begun::kNow;
  };
  if (id == kNoEntry) return give_up(counters_.declined_index);
  put->item = HoldAtPut(*op, i, id);
  const std::optional<Place> place = AllocateIn(tier, ledger_.ShapeOf(id));
  if (!place.has_value()) {
    ledger_.Remove(id, Why::kMoved);
    if (put->frame != kNoFrame) {
      frames_.Free(put->frame, FrameBytes(payload_bytes), HostFrames::Use::kStaging);
    }
    return Begun::kWait;
  }
  Entry& e = ledger_.index[id];
  e.set_copy(tier, CopyState::kArriving);
  put->id = id;
  put->generation = e.generation;
  put->target = *place;
  put->stamp = e.last_touch;
  op->touched[i] = id;
  op->last_put = id;
  op->last_put_generation = e.generation;
  op->at[i] = At::kOnDevice;
  FrameOp& io = put->io;
  io.kind = FrameOpKind::kWrite;
  io.place = *place;
  io.header = TakeHeader();
  FillPlacement(id, *io.header);
  io.tag = reinterpret_cast<uint64_t>(static_cast<Transfer*>(put.get()));
  ++transfers_;
  if (!options_.bytes) {
    outbox_.submits.push_back(put.release());
    return Begun::kYes;
  }
  // The checksum pass belongs to a worker, not to the lock.
  DirectPut* raw = put.release();
  outbox_.jobs.emplace_back([this, raw] { WriteDirectPut(raw); });
  return Begun::kYes;
}

// On a worker: checksums the payload, copying it when it bounces, and submits the write.
void Core::WriteDirectPut(DirectPut* put) {
  FrameHeader* header = put->io.header;
  const FramePlacement placement = header->placement;
  if (put->frame != kNoFrame) {
    std::byte* payload = frames_.payload(put->frame);
    FillFrame(*put->op, put->block, put->payload_bytes, header->fixed, payload);
    put->extents.assign(1, {payload, RoundUp(put->payload_bytes, kPageBytes)});
  } else {
    InitFixed(IdentityOf(*put->op, put->block), put->payload_bytes, header->fixed);
    ChecksumPayload(put->extents, nullptr, header->fixed);
    SealFixed(header->fixed);
  }
  header->placement = placement;
  put->io.payload = put->extents;
  Submit(put);
  waiter_->Ring();
}

void Core::OnDirectPut(std::unique_ptr<DirectPut> put) {
  ledger_.stats[put->tier].write_latency.Add(put->io.finished - put->io.submitted);
  GiveHeader(put->io.header);
  const OperationPtr op = put->op;
  Entry& e = ledger_.index[put->id];
  const bool here = e.generation == put->generation;
  const bool good = put->io.outcome == FrameOutcome::kDone;
  const uint64_t payload_bytes = put->payload_bytes;
  if (put->frame != kNoFrame) {
    frames_.Free(put->frame, FrameBytes(payload_bytes), HostFrames::Use::kStaging);
  }
  Item item = put->item;
  if (good && here) {
    ledger_.SetLive(put->id, put->tier, put->target);
    if (put->tier >= kFlash) {
      ledger_.grouped(put->tier)->Touched(put->target, put->stamp, e.last_touch);
    }
    TierStats& stats = ledger_.stats[put->tier];
    ++stats.put_in;
    stats.payload_written_bytes += payload_bytes;
    ++counters_.put;
    ledger_.admission.Spend(FrameBytes(payload_bytes), run_clock_->Now());
  } else {
    tiers_[put->tier]->Free(put->target);
    if (!good) {
      ++ledger_.stats[put->tier].failed;
      ledger_.stats[put->tier].last_errno = put->io.os_errno;
    }
    if (here) ledger_.Abandon(put->id, put->tier, Why::kMoved);
    op->cut = std::min(op->cut, size_t{put->block});
    item = Item::kDeclined;
  }
  Final(op, put->block, item);
  Published(put->id, item != Item::kDeclined);
  room_changed_ = true;
  if (op->finals == op->size() && !op->running) TouchPut(op);
  CompleteIfOver(op);
}

}  // namespace holdfast::internal
