// Fetching: accept a request's blocks, copy what lies in host memory on the caller's thread, attach
// to loads for the rest.
#include <algorithm>
#include <cstring>

#include "kvstore/check.h"
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

using At = Operation::At;

Status BadFetch(const std::string& what) {
  return {StatusCode::kInvalidArgument, "fetch: " + what};
}

// A part of a payload: whole granules.
Status CheckPart(const FetchOptions& o) {
  if (o.offset == 0 && o.bytes == 0) return {};
  if (o.payload_bytes == 0) return BadFetch("payload_bytes is needed to fetch a part");
  if (o.offset >= o.payload_bytes || o.bytes == 0 || o.bytes > o.payload_bytes - o.offset) {
    return BadFetch("offset " + std::to_string(o.offset) + " and bytes " + std::to_string(o.bytes) +
                    " reach past payload_bytes " + std::to_string(o.payload_bytes));
  }
  const uint64_t granule = uint64_t{1} << GranuleBytesLog2(o.payload_bytes);
  const bool whole_end =
      (o.offset + o.bytes) % granule == 0 || o.offset + o.bytes == o.payload_bytes;
  if (o.offset % granule != 0 || !whole_end) {
    return BadFetch("a part must consist of whole granules of " + std::to_string(granule) +
                    " bytes");
  }
  return {};
}

// Copies contiguous bytes into pieces.
void Scatter(const std::byte* from, std::span<const Extent> to) {
  for (const Extent& x : to) {
    std::memcpy(x.data, from, x.bytes);
    from += x.bytes;
  }
}

}  // namespace

Result<OpId> Core::SubmitFetch(const Blocks& blocks, const Memory& target,
                               const FetchOptions& options, CompletionQueue* queue, uint64_t tag,
                               std::span<Item> results) {
  auto op = std::make_shared<Operation>();
  op->kind = Operation::Kind::kFetch;
  op->blocks = blocks;
  op->fetch = options;
  op->queue = queue;
  op->tag = tag;
  op->results = results;
  if (target.kind == Memory::Kind::kArena) {
    if (queue == nullptr) return BadFetch("an arena target needs a completion queue for its views");
    if (options.payload_bytes == 0) return BadFetch("an arena target needs payload_bytes");
    if (options.each)
      return BadFetch("an arena target gives its views in one completion: each is off");
    op->views = std::make_unique<ViewLease>(shared_from_this(), blocks.size());
  }
  return StartFetch(op, target);
}

Result<OpId> Core::SubmitPrefetch(const Blocks& blocks, Where to, const FetchOptions& options,
                                  CompletionQueue* queue, uint64_t tag, std::span<Item> results) {
  if (to != Where::kDdr && to != Where::kHbm) {
    return Status(StatusCode::kInvalidArgument, "prefetch: to is kDdr or kHbm");
  }
  auto op = std::make_shared<Operation>();
  op->kind = Operation::Kind::kPrefetch;
  op->blocks = blocks;
  op->fetch = options;
  op->fetch.keep = true;
  op->fetch.offset = op->fetch.bytes = 0;
  op->to = to;
  op->queue = queue;
  op->tag = tag;
  op->results = results;
  return StartFetch(op, Memory{});
}

Result<OpId> Core::StartFetch(const OperationPtr& op, const Memory& target) {
  HF_RETURN_IF_ERROR(CheckAlive());
  if (op->results.size() != op->size()) {
    return BadFetch(std::to_string(op->results.size()) + " results for " +
                    std::to_string(op->size()) + " blocks");
  }
  HF_RETURN_IF_ERROR(CheckPart(op->fetch));
  {
    Section section(*this);
    HF_RETURN_IF_ERROR(CheckMemory(target, *op));
    op->request = FoldRequest(op->fetch.request);
  }
  HF_RETURN_IF_ERROR(Register(op));
  const OpId id = op->id;
  RunBehindFence(op);
  if (!environment_.driver_thread) RunInline();
  return id;
}

void Core::RunFetch(const OperationPtr& op) {
  for (bool more = true; more;) {
    Section section(*this);
    if (op->completed || op->running) return;
    more = !op->accepted && (AcceptSome(op) || TouchSome(op, kBlocksPerLock));
    op->accepted = !more;
  }
  std::vector<Hit> hits;
  for (;;) {
    hits.clear();
    {
      Section section(*this);
      if (op->completed || op->running) return;
      const bool blocked = BeginFetch(op, hits);
      if (hits.empty()) {
        CompleteIfOver(op);
        if (!blocked && op->cursor < op->size()) continue;
        return;
      }
      op->running = true;
    }
    CopyHits(op, hits);
  }
}

// Decides which blocks are served, once; they are touched deepest first when that is over. True:
// more is to be looked up.
bool Core::AcceptSome(const OperationPtr& op) {
  const size_t n = op->size();
  if (op->accepting == n) return false;
  if (closed_ || !EpochCurrent(op->blocks)) {
    op->accepting = n;
    CutFrom(op, 0, Item::kMiss);
    return false;
  }
  op->touched.resize(n, kNoEntry);
  const HoldMillis now = HoldNow();
  const size_t end = std::min(n, op->accepting + kBlocksPerLock);
  bool on = true;
  ledger_.ForEach(op->blocks, op->accepting, end, [&](size_t i, EntryId id) {
    mutex_.AssertHeld();
    on = op->at[i] != At::kFinal;
    if (!on) return false;
    if (op->skips(i)) {
      Final(op, i, Item::kSkipped);
      return true;
    }
    const bool served = id != kNoEntry && ledger_.Served(ledger_.index[id], now);
    const uint64_t expected = op->fetch.payload_bytes != 0         ? op->fetch.payload_bytes
                              : op->memory == Memory::Kind::kArena ? 0
                                                                   : op->MemoryBytes(i);
    if (!served || (expected != 0 && expected != ledger_.index[id].payload_bytes)) {
      Final(op, i, Item::kMiss);
      on = !op->fetch.prefix;
      return on;
    }
    op->touched[i] = id;
    op->touch_left = i + 1;
    ledger_.PrefetchTouch(id);
    return true;
  });
  op->accepting = on ? end : n;
  return op->accepting < n;
}

// Touches so many of an operation's blocks, deepest first, then of their ancestors, so that the
// root ends most recent. True: more are left.
bool Core::TouchSome(const OperationPtr& op, size_t touches) {
  const HoldMillis now = HoldNow();
  for (; touches > 0 && op->touch_left > 0; --touches) {
    const size_t i = --op->touch_left;
    const EntryId id = op->touched[i];
    if (id == kNoEntry || !(ledger_.index[id].key == op->blocks.key(i))) continue;
    if (op->kind == Operation::Kind::kPut && op->results[i] > Item::kDowngraded) continue;
    ledger_.Touch(id, op->request, now);
    op->touch_at = id;
    op->touch_generation = ledger_.index[id].generation;
  }
  if (op->touch_left > 0) return true;
  while (op->touch_at != kNoEntry) {
    const Entry& e = ledger_.index[op->touch_at];
    const EntryId parent = e.generation == op->touch_generation ? ledger_.Parent(e) : kNoEntry;
    if (parent != kNoEntry && touches-- == 0) return true;
    op->touch_at = parent;
    if (parent == kNoEntry) break;
    ledger_.Touch(parent, op->request, now);
    op->touch_generation = ledger_.index[parent].generation;
  }
  return false;
}

// One locked section's worth. True: the next block waits for a window or a frame.
bool Core::BeginFetch(const OperationPtr& op, std::vector<Hit>& hits) {
  const size_t end = std::min(op->size(), op->cursor + kBlocksPerLock);
  for (; op->cursor < end; ++op->cursor) {
    const size_t i = op->cursor;
    if (op->at[i] != At::kNotBegun) continue;
    EntryId id = op->touched[i];
    if (id == kNoEntry || !(ledger_.index[id].key == op->blocks.key(i))) {
      id = ledger_.index.Find(op->blocks.key(i));
    }
    if (id == kNoEntry || ledger_.index[id].nearest() < 0) {  // went since it was accepted
      Final(op, i, Item::kMiss);
      continue;
    }
    const Entry& e = ledger_.index[id];
    if (e.readable(kHbm) && op->to == Where::kHbm && op->kind == Operation::Kind::kPrefetch) {
      Final(op, i, Item::kDone);
      continue;
    }
    const bool from_hbm = e.readable(kHbm) && !op->views && op->kind == Operation::Kind::kFetch;
    if (e.readable(kDdr) && e.frame_refs < UINT16_MAX && !from_hbm) {
      if (op->kind == Operation::Kind::kPrefetch) {
        if (op->to == Where::kHbm && ledger_.on(kHbm)) to_hbm_.push_back(id);
        Final(op, i, Item::kDone);
        continue;
      }
      if (ledger_.on(kHbm) && op->fetch.keep && !e.readable(kHbm) && !e.moving) {
        to_hbm_.push_back(id);
        step_wanted_ = outbox_.ring = true;
      }
      if (!frames_.bytes()) {  // nothing to copy
        CountHit(kDdr, e.payload_bytes);
        Final(op, i, Item::kDone);
        continue;
      }
      if (op->views) {
        CountHit(kDdr, e.payload_bytes);
        TakeHit(op, i, ledger_.Ref(id));
        continue;
      }
      op->at[i] = At::kCopying;
      hits.push_back({static_cast<uint32_t>(i), e.payload_bytes, ledger_.Ref(id)});
      continue;
    }
    if (!Attach(op, i, id) && !BeginLoad(op, i, id)) return true;
  }
  return false;
}

// An arena target: the frame itself is what the caller sees.
void Core::TakeHit(const OperationPtr& op, size_t i, const FrameRef& ref) {
  const Entry& e = ledger_.index[ref.id];
  const bool part = op->fetch.bytes != 0;
  if (views_ >= options_.views_max) {
    ledger_.Unref(ref);
    Final(op, i, Item::kMiss);
    return;
  }
  ++views_;
  op->views->views[i] = {.at = ref.at,
                         .offset = op->fetch.offset,
                         .bytes = part ? op->fetch.bytes : e.payload_bytes,
                         .ref = ref,
                         .staging_frame_bytes = 0};
  Final(op, i, Item::kDone);
}

bool Core::VerifyHit(const Operation& op, const Hit& hit) const {
  if (!options_.verify_ddr) return true;
  const FrameHeader* header = frames_.header(hit.ref.at);
  const Extent all{frames_.payload(hit.ref.at), header->fixed.payload_bytes};
  return header->fixed.key == op.blocks.key(hit.block) &&
         CheckPayload(header->fixed, 0, {&all, 1}) == FrameFault::kNone;
}

void Core::CopyHits(const OperationPtr& op, const std::vector<Hit>& hits) {
  std::vector<Extent> target;
  std::vector<bool> good(hits.size(), true);
  for (size_t h = 0; h < hits.size(); ++h) {
    good[h] = VerifyHit(*op, hits[h]);
    if (!good[h]) continue;
    op->ExtentsOf(hits[h].block, target);
    Scatter(frames_.payload(hits[h].ref.at) + op->fetch.offset, target);
  }
  Section section(*this);
  for (size_t h = 0; h < hits.size(); ++h) {
    const FrameRef& ref = hits[h].ref;
    const bool here = ledger_.index[ref.id].generation == ref.generation;
    ledger_.Unref(ref);
    if (!good[h]) {
      ++ledger_.stats[kDdr].corrupt;
      if (here && ledger_.index[ref.id].readable(kDdr) && ledger_.frame(ref.id) == ref.at) {
        ledger_.Remove(ref.id, Why::kCorrupt);
      }
    }
    Final(op, hits[h].block, good[h] ? Item::kDone : Item::kCorrupt);
    if (op->results[hits[h].block] == Item::kDone) CountHit(kDdr, hits[h].payload_bytes);
  }
  room_changed_ = true;
  if (!parked_.empty() || !starved_.empty()) outbox_.ring = true;
  op->running = false;
  CompleteIfOver(op);
}

// More of an operation can begin, on the driver's thread: copies become a job.
void Core::Continue(const OperationPtr& op) {
  if (op->completed || op->running || op->cursor >= op->size()) return;
  std::vector<Hit> hits;
  while (!BeginFetch(op, hits) && hits.empty() && op->cursor < op->size()) {
  }
  if (!hits.empty()) {
    op->running = true;
    outbox_.jobs.emplace_back([this, op, hits = std::move(hits)] {
      CopyHits(op, hits);
      RunFetch(op);
    });
    return;
  }
  CompleteIfOver(op);
}

void Core::CountHit(int tier, uint64_t bytes) {
  ++ledger_.stats[tier].hits;
  ledger_.stats[tier].hit_bytes += bytes;
}

}  // namespace holdfast::internal
