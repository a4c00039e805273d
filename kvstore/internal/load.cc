// Loads: one read brings a cold block up for everybody who waits for it.
#include <algorithm>
#include <cstring>

#include "kvstore/check.h"
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

using At = Operation::At;

bool Covers(const Load& load, uint64_t offset, uint64_t bytes) {
  if (load.bytes == 0) return true;
  return bytes != 0 && load.offset <= offset && offset + bytes <= load.offset + load.bytes;
}

void CopyPieces(std::span<const Extent> from, std::span<const Extent> to) {
  size_t f = 0;
  uint64_t used = 0;
  for (const Extent& x : to) {
    for (uint64_t done = 0; done < x.bytes;) {
      const uint64_t n = std::min(x.bytes - done, from[f].bytes - used);
      std::memcpy(x.data + done, from[f].data + used, n);
      done += n;
      used += n;
      if (used == from[f].bytes) {
        ++f;
        used = 0;
      }
    }
  }
}

// The bytes of `from` that start `skip` bytes in, `bytes` long.
std::vector<Extent> Part(std::span<const Extent> from, uint64_t skip, uint64_t bytes) {
  std::vector<Extent> part;
  for (const Extent& x : from) {
    if (skip >= x.bytes) {
      skip -= x.bytes;
      continue;
    }
    const uint64_t n = std::min(x.bytes - skip, bytes);
    if (n > 0) part.push_back({x.data + skip, n});
    bytes -= n;
    skip = 0;
  }
  return part;
}

}  // namespace

// Joins a read of the same block that is already under way.
bool Core::Attach(const OperationPtr& op, size_t i, EntryId id) {
  const auto it = loads_.find(id);
  if (it == loads_.end() || it->second->generation != ledger_.index[id].generation) return false;
  Load& load = *it->second;
  if (!Covers(load, op->fetch.offset, op->fetch.bytes)) return false;
  if (load.frame == kNoFrame && (op->views || op->kind == Operation::Kind::kPrefetch)) return false;
  op->at[i] = At::kWaiting;
  load.attached.push_back({op, static_cast<uint32_t>(i)});
  ++counters_.shared_reads;
  return true;
}

// Whether the tier can read straight into the caller's memory; then fills in the extents.
bool Core::DirectTarget(const Operation& op, size_t i, const Entry& e, Load& load) {
  if (op.views || op.kind == Operation::Kind::kPrefetch ||
      (op.fetch.keep && ledger_.on(kDdr) && e.copy(kDdr) == CopyState::kAbsent)) {
    return false;
  }
  if (!options_.bytes) return true;
  const TierLimits limits = tiers_[load.tier]->limits();
  op.ExtentsOf(i, load.extents);
  if (limits.extents_max != 0 && load.extents.size() + 1 > limits.extents_max) return false;
  const uint64_t length = op.fetch.bytes != 0 ? op.fetch.bytes : e.payload_bytes;
  if (limits.alignment <= 1) return true;
  if (length % limits.alignment != 0) return false;
  return std::all_of(load.extents.begin(), load.extents.end(), [&](const Extent& x) {
    return (reinterpret_cast<uint64_t>(x.data) | x.bytes) % limits.alignment == 0;
  });
}

// False: no frame or no window for it now; it begins when one comes free.
bool Core::BeginLoad(const OperationPtr& op, size_t i, EntryId id) {
  if (op->window >= options_.fetch_window) return false;
  Entry& e = ledger_.index[id];
  auto load = std::make_unique<Load>();
  load->id = id;
  load->generation = e.generation;
  load->tier = e.nearest();
  if (load->tier == kDdr) load->tier = e.readable(kFlash) ? int{kFlash} : int{kDisk};
  load->offset = op->fetch.offset;
  load->bytes = op->fetch.bytes;
  if (DirectTarget(*op, i, e, *load)) {
    op->at[i] = At::kOnDevice;
  } else {
    const uint64_t frame_bytes = e.frame_bytes();
    const bool keep = (op->fetch.keep || op->kind == Operation::Kind::kPrefetch) &&
                      ledger_.on(kDdr) && e.copy(kDdr) == CopyState::kAbsent;
    if (keep) {
      load->use = HostFrames::Use::kDdr;
      load->frame = MakeDdrFrame(frame_bytes);
      // Making room may have taken the copy that was to be read.
      if (e.generation != load->generation || !e.readable(load->tier)) {
        if (load->frame != kNoFrame) frames_.Free(load->frame, frame_bytes, load->use);
        if (e.generation == load->generation && e.nearest() >= 0) return BeginLoad(op, i, id);
        Final(op, i, Item::kMiss);
        return true;
      }
    }
    if (load->frame == kNoFrame && op->kind != Operation::Kind::kPrefetch) {
      load->use = HostFrames::Use::kStagingUrgent;
      load->frame = frames_.Allocate(frame_bytes, load->use);
    }
    if (load->frame == kNoFrame) {
      if (op->kind == Operation::Kind::kPrefetch) {
        Final(op, i, Item::kDeclined);
        return true;
      }
      if (op->window == 0) starved_.push_back(op);
      return false;
    }
    load->frame_bytes = frame_bytes;
    load->arriving = load->use == HostFrames::Use::kDdr;
    if (load->arriving) {  // a ddr copy is whole
      e.set_copy(kDdr, CopyState::kArriving);
      load->offset = load->bytes = 0;
    }
    if (!op->fetch.keep && op->kind == Operation::Kind::kFetch && !op->views) ++counters_.bounced;
    op->at[i] = At::kWaiting;
  }
  ++op->window;
  load->attached.push_back({op, static_cast<uint32_t>(i)});
  loads_.try_emplace(id, load.get());
  StartLoad(std::move(load));
  return true;
}

void Core::StartLoad(std::unique_ptr<Load> load) {
  const Entry& e = ledger_.index[load->id];
  FrameOp& io = load->io;
  io = FrameOp{};
  io.kind = FrameOpKind::kRead;
  io.place = ledger_.place(load->id, load->tier);
  io.header = TakeHeader();
  io.expect = ledger_.ExpectOf(load->id);
  io.offset = load->offset;
  io.tag = reinterpret_cast<uint64_t>(static_cast<Transfer*>(load.get()));
  if (load->frame != kNoFrame && options_.bytes) {
    const uint64_t length = load->bytes != 0 ? load->bytes : e.payload_bytes;
    load->extents.assign(
        1, {frames_.payload(load->frame) + load->offset, RoundUp(length, kPageBytes)});
  }
  io.payload = load->extents;
  ++transfers_;
  ++fetching_;
  outbox_.submits.push_back(load.release());
}

void Core::OnLoad(std::unique_ptr<Load> load) {
  last_load_ = run_clock_->Now();
  --fetching_;
  TierStats& stats = ledger_.stats[load->tier];
  stats.read_latency.Add(load->io.finished - load->io.submitted);
  const Entry& e = ledger_.index[load->id];
  const bool here = e.generation == load->generation;
  bool good = load->io.outcome == FrameOutcome::kDone;
  if (good && options_.bytes && here &&
      static_cast<uint32_t>(load->io.header->placement.write_id) !=
          ledger_.write_id_low(load->id)) {
    good = false;
    load->io.outcome = FrameOutcome::kCorrupt;
  }
  if (good) {
    LoadDone(std::move(load));
    return;
  }
  GiveHeader(load->io.header);
  const bool corrupt = load->io.outcome == FrameOutcome::kCorrupt;
  // A copy that went or was rewritten before the read reached it proves nothing against the medium.
  const bool there =
      here && e.readable(load->tier) && ledger_.place(load->id, load->tier) == load->io.place;
  if (there || !corrupt) {
    ++(corrupt ? stats.corrupt : stats.failed);
    if (!corrupt) stats.last_errno = load->io.os_errno;
    load->failed = corrupt ? Item::kCorrupt : Item::kFailed;
  }
  // Not served again. An arriving ddr copy keeps the entry until the retry is over.
  if (there) ledger_.DropCopy(load->id, load->tier, Why::kCorrupt);
  if (!RetryLoad(load)) LoadFailed(std::move(load));
}

// Another live copy is tried once, for all who wait.
bool Core::RetryLoad(std::unique_ptr<Load>& load) {
  const Entry& e = ledger_.index[load->id];
  if (load->retried || e.generation != load->generation) return false;
  int next = -1;
  for (int t = 0; t < kTiers; ++t) {
    if (t != kDdr && e.readable(t)) next = t;
  }
  if (next < 0) return false;
  const uint64_t alignment = tiers_[next]->limits().alignment;
  for (const Extent& x : load->extents) {
    if ((reinterpret_cast<uint64_t>(x.data) | x.bytes) % alignment != 0) return false;
  }
  load->retried = true;
  load->tier = next;
  StartLoad(std::move(load));
  return true;
}

void Core::LoadFailed(std::unique_ptr<Load> load) {
  if (const auto it = loads_.find(load->id); it != loads_.end() && it->second == load.get()) {
    loads_.erase(it);
  }
  const Entry& e = ledger_.index[load->id];
  if (load->arriving && e.generation == load->generation)
    ledger_.Abandon(load->id, kDdr, Why::kCorrupt);
  if (load->frame != kNoFrame) frames_.Free(load->frame, load->frame_bytes, load->use);
  room_changed_ = true;
  bool first = true;
  for (const Load::Attached& a : load->attached) {
    if (std::exchange(first, false)) --a.op->window;
    Final(a.op, a.block, load->failed);
    CompleteIfOver(a.op);
  }
}

void Core::LoadDone(std::unique_ptr<Load> load) {
  if (const auto it = loads_.find(load->id); it != loads_.end() && it->second == load.get()) {
    loads_.erase(it);
  }
  Entry& e = ledger_.index[load->id];
  const bool here = e.generation == load->generation;
  if (load->frame != kNoFrame && options_.bytes) {
    std::memcpy(frames_.header(load->frame), load->io.header, sizeof(FrameHeader));
  }
  GiveHeader(load->io.header);
  load->io.header = nullptr;
  FrameRef ref;
  if (load->arriving && here) {
    ledger_.SetLive(load->id, kDdr, Ledger::PlaceOf(load->frame));
    ++ledger_.stats[kDdr].promoted;
    ref = ledger_.Ref(load->id);
    load->frame = kNoFrame;
  } else if (load->use == HostFrames::Use::kDdr && load->frame != kNoFrame) {
    // Erased meanwhile: what was accepted completes, from a frame that nobody owns.
    frames_.Orphan(load->frame, load->frame_bytes, 1);
    ref = {load->frame, load->id, load->generation};
    load->frame = kNoFrame;
  }
  bool copies = false;
  for (Load::Attached& a : load->attached) {
    if (a.op->at[a.block] == At::kFinal) continue;
    if (a.op->at[a.block] == At::kWaiting && a.op->kind == Operation::Kind::kFetch &&
        !a.op->views) {
      a.op->at[a.block] = At::kCopying;
      copies = copies || options_.bytes;
    }
  }
  if (!copies) {
    FinishLoad(*load, ref);
    return;
  }
  const std::shared_ptr<Load> shared = std::move(load);
  outbox_.jobs.emplace_back([this, shared, ref] { CopyAttached(shared, ref); });
}

// On a worker: everybody who waits gets their copy, before the owner of the memory read into is
// told.
void Core::CopyAttached(const std::shared_ptr<Load>& load, const FrameRef& ref) {
  const FrameAt frame = ref.at != kNoFrame ? ref.at : load->frame;
  std::vector<Extent> target;
  for (const Load::Attached& a : load->attached) {
    {
      MutexLock lock(mutex_);
      if (a.op->at[a.block] != At::kCopying) continue;
    }
    a.op->ExtentsOf(a.block, target);
    const FetchOptions& o = a.op->fetch;
    uint64_t length = 0;
    for (const Extent& x : target) length += x.bytes;
    std::vector<Extent> source;
    if (frame != kNoFrame) {
      source.push_back({frames_.payload(frame) + o.offset, length});
    } else {
      source = Part(load->extents, o.offset - load->offset, length);
    }
    CopyPieces(source, target);
  }
  Section section(*this);
  FinishLoad(*load, ref);
}

void Core::FinishLoad(Load& load, const FrameRef& ref) {
  bool staging_given = false;
  bool first = true;
  const uint64_t payload_bytes = load.io.expect.payload_bytes;
  for (const Load::Attached& a : load.attached) {
    if (std::exchange(first, false)) --a.op->window;
    Operation& op = *a.op;
    if (op.at[a.block] != At::kFinal) {
      if (a.block < op.cut) CountHit(load.tier, payload_bytes);  // else it ends as a miss
      if (op.views) {
        const uint64_t bytes = op.fetch.bytes != 0 ? op.fetch.bytes : payload_bytes;
        const bool ddr = ref.at != kNoFrame && ledger_.index[ref.id].generation == ref.generation &&
                         ledger_.index[ref.id].readable(kDdr) && ledger_.frame(ref.id) == ref.at;
        if (views_ < options_.views_max && ddr) {
          TakeHit(a.op, a.block, ledger_.Ref(ref.id));
        } else if (views_ < options_.views_max && ref.at == kNoFrame && !staging_given) {
          // Only the first can own a staging frame; the others read again.
          staging_given = true;
          ++views_;
          op.views->views[a.block] = {load.frame, op.fetch.offset, bytes, {}, load.frame_bytes};
          Final(a.op, a.block, Item::kDone);
        } else {
          Final(a.op, a.block, Item::kMiss);
        }
      } else {
        if (op.to == Where::kHbm && op.kind == Operation::Kind::kPrefetch) {
          to_hbm_.push_back(load.id);
        }
        Final(a.op, a.block, Item::kDone);
      }
    }
    CompleteIfOver(a.op);
  }
  if (ref.at != kNoFrame) ledger_.Unref(ref);
  if (load.frame != kNoFrame && !staging_given) {
    frames_.Free(load.frame, load.frame_bytes, load.use);
  }
  room_changed_ = true;
  outbox_.ring = true;
  for (const Load::Attached& a : load.attached) Continue(a.op);
}

}  // namespace holdfast::internal
