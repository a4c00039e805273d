// Putting: decide under the lock, copy and checksum on the caller's thread, publish under the lock.
#include <algorithm>
#include <cstring>

#include "kvstore/check.h"
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

using At = Operation::At;

constexpr size_t kPutsPerSection = 64;    // looked at, where they are here already
constexpr size_t kCopiesPerSection = 16;  // frames taken before the lock is given back to copy

Status BadPut(const std::string& what) { return {StatusCode::kInvalidArgument, "put: " + what}; }

}  // namespace

Result<OpId> Core::SubmitPut(const Blocks& blocks, const Memory& source, const PutOptions& options,
                             CompletionQueue* queue, uint64_t tag, std::span<Item> results) {
  HF_RETURN_IF_ERROR(CheckAlive());
  auto op = std::make_shared<Operation>();
  op->kind = Operation::Kind::kPut;
  op->blocks = blocks;
  op->put = options;
  op->put.holds = {};
  op->queue = queue;
  op->tag = tag;
  op->results = results;
  if (results.size() != op->size()) {
    return BadPut(std::to_string(results.size()) + " results for " + std::to_string(op->size()) +
                  " blocks");
  }
  if (source.kind == Memory::Kind::kArena) return BadPut("an arena source is SubmitCommit's");
  if (!options.holds.empty() && options.holds.size() != op->size()) {
    return BadPut(std::to_string(options.holds.size()) + " holds for " +
                  std::to_string(op->size()) + " blocks");
  }
  Status status;
  {
    Section section(*this);
    if (options.holds.empty()) {
      op->hold_classes.push_back(ClassFor(options.hold, status));
    } else {
      for (const Hold& h : options.holds) op->hold_classes.push_back(ClassFor(h, status));
    }
    HF_RETURN_IF_ERROR(std::move(status));
    HF_RETURN_IF_ERROR(CheckMemory(source, *op));
    op->request = FoldRequest(options.request);
  }
  for (size_t i = 0; i < op->size(); ++i) {
    if (op->skips(i)) continue;
    const uint64_t has = op->MemoryBytes(i);
    const uint64_t bytes = options.payload_bytes != 0 ? options.payload_bytes : has;
    if (bytes == 0 || bytes > options_.payload_bytes_max || (options_.bytes && bytes > has)) {
      return BadPut(
          "block " + std::to_string(i) + " has a payload of " + std::to_string(bytes) +
          " bytes in memory of " + std::to_string(has) +
          "; it must be 1 to payload_bytes_max = " + std::to_string(options_.payload_bytes_max));
    }
  }
  HF_RETURN_IF_ERROR(Register(op));
  op->give_up = op->started + std::min<Duration>(options.wait_max, std::chrono::hours(1));
  const OpId id = op->id;
  RunBehindFence(op);
  if (!environment_.driver_thread) RunInline();
  return id;
}

void Core::RunPut(const OperationPtr& op) {
  std::vector<PutItem> items;
  for (;;) {
    items.clear();
    bool more = false;
    {
      Section section(*this);
      if (op->completed || op->running) return;
      more = BeginPuts(op, items);
      if (items.empty() && !more) {
        if (op->finals == op->size() && TouchSome(op, kBlocksPerLock)) continue;
        CompleteIfOver(op);
        return;
      }
      op->running = true;
    }
    if (frames_.bytes()) {
      for (const PutItem& item : items) {
        FillFrame(*op, item.block, item.payload_bytes, frames_.header(item.frame)->fixed,
                  frames_.payload(item.frame));
      }
    }
    Section section(*this);
    for (const PutItem& item : items) Publish(op, item);
    op->running = false;
    if (op->parked) {
      outbox_.ring = true;  // the driver may have passed over it while it ran
      return;
    }
  }
}

// Begins blocks until enough copies are at hand, room is short or all are begun. True: go on.
bool Core::BeginPuts(const OperationPtr& op, std::vector<PutItem>& items) {
  if (!op->accepted) {
    op->accepted = true;
    op->touched.assign(op->size(), kNoEntry);
    op->touch_left = op->size();
  }
  const bool closed = closed_ || (op->size() > 0 && !EpochCurrent(op->blocks));
  const size_t begin = op->cursor;
  items.reserve(kCopiesPerSection);
  for (; op->cursor < op->size(); ++op->cursor) {
    const size_t i = op->cursor;
    const bool full = items.size() >= kCopiesPerSection || op->cursor - begin >= kPutsPerSection;
    if (full) return true;
    if (op->at[i] == At::kFinal) continue;
    if (closed) {
      Final(op, i, Item::kDeclined);
      continue;
    }
    if (op->skips(i)) {
      Final(op, i, Item::kSkipped);
      continue;
    }
    if (op->blocks.linked() &&
        op->cut <= i) {  // from the first that is declined or fails the rest would be orphans
      ++counters_.declined_orphan;
      Final(op, i, Item::kDeclined);
      continue;
    }
    if (BeginPut(op, i, items) == Begun::kWait) {
      ParkPut(op);
      return !items.empty();
    }
  }
  return false;
}

Core::Begun Core::BeginPut(const OperationPtr& op, size_t i, std::vector<PutItem>& items) {
  const uint64_t payload_bytes = op->put.payload_bytes != 0 ? op->put.payload_bytes
                                 : op->reserved != kNoFrame ? op->reserved_bytes
                                                            : op->MemoryBytes(i);
  EntryId id = ledger_.index.Find(op->blocks.key(i));
  if (id != kNoEntry) {
    Entry& e = ledger_.index[id];
    if (e.putting) {  // somebody else's put of it is arriving: this one ends with that
      op->at[i] = At::kWaiting;
      putters_[id].push_back({op, static_cast<uint32_t>(i)});
      op->last_put = id;
      op->last_put_generation = e.generation;
      return Begun::kYes;
    }
    if (ledger_.Served(e, HoldNow())) {
      const bool same = e.payload_bytes == payload_bytes;
      if (!same) op->cut = std::min(op->cut, i);
      Final(op, i, same ? PutPresent(op, i, id) : Item::kDeclined);
      return Begun::kNow;
    }
    ledger_.Remove(id, Why::kExpired);
  }
  if (!ledger_.on(kDdr)) return BeginDirectPut(op, i, payload_bytes);
  const uint64_t frame_bytes = FrameBytes(payload_bytes);
  FrameAt frame = op->reserved;
  if (frame == kNoFrame) {
    if (frame_bytes > frames_.ddr_capacity()) {
      op->cut = std::min(op->cut, i);
      ++counters_.declined_admission;
      Final(op, i, Item::kDeclined);
      return Begun::kNow;
    }
    frame = MakeDdrFrame(frame_bytes);
    if (frame == kNoFrame) return Begun::kWait;
  }
  id = AddEntry(*op, i, payload_bytes);
  if (id == kNoEntry) {
    frames_.Free(frame, frame_bytes, HostFrames::Use::kDdr);
    op->reserved = kNoFrame;
    op->cut = std::min(op->cut, i);
    ++counters_.declined_index;
    Final(op, i, Item::kDeclined);
    return Begun::kNow;
  }
  op->reserved = kNoFrame;
  Entry& e = ledger_.index[id];
  e.set_copy(kDdr, CopyState::kArriving);
  op->touched[i] = id;
  op->last_put = id;
  op->last_put_generation = e.generation;
  op->at[i] = At::kCopying;
  items.push_back(
      {static_cast<uint32_t>(i), id, e.generation, frame, payload_bytes, HoldAtPut(*op, i, id)});
  return Begun::kYes;
}

// A put of what is here already: a touch, and the hold that was asked for.
Item Core::PutPresent(const OperationPtr& op, size_t i, EntryId id) {
  op->touched[i] = id;
  const bool follows =
      op->last_put != kNoEntry && ledger_.index[op->last_put].generation == op->last_put_generation;
  if (op->blocks.linked() && follows) ledger_.LinkParent(id, op->last_put);
  op->last_put = id;
  op->last_put_generation = ledger_.index[id].generation;
  ++counters_.present;
  return HoldAtPut(*op, i, id) == Item::kDowngraded ? Item::kDowngraded : Item::kPresent;
}

EntryId Core::AddEntry(const Operation& op, size_t i, uint64_t payload_bytes) {
  uint32_t root = 0;
  if (!ledger_.RootKnown(op.blocks.root(), root)) root = ledger_.RootNumber(op.blocks.root());
  EntryId id = ledger_.Add(op.blocks.key(i), root, op.blocks.position(i),
                           static_cast<uint32_t>(payload_bytes));
  if (id == kNoEntry && MakeIndexRoom()) {
    id = ledger_.Add(op.blocks.key(i), root, op.blocks.position(i),
                     static_cast<uint32_t>(payload_bytes));
  }
  if (id == kNoEntry) return id;
  Entry& e = ledger_.index[id];
  e.putting = 1;
  e.last_request = op.request;
  e.touches = 1;
  ledger_.set_write_id(id, next_write_id_);
  ++next_write_id_;
  if (e.hold_class == 0 && ledger_.admission.limited()) {
    ledger_.admission.Remember(e.key, op.request);
  }
  EntryId parent = kNoEntry;
  if (i > 0 && op.blocks.linked() && op.last_put != kNoEntry &&
      ledger_.index[op.last_put].generation == op.last_put_generation) {
    parent = op.last_put;
  } else if (const BlockKey key = op.blocks.parent(i); !(key == BlockKey{})) {
    parent = ledger_.index.Find(key);
  }
  if (parent != kNoEntry && ledger_.index[parent].root == root &&
      ledger_.index[parent].position + 1 == e.position) {
    ledger_.LinkParent(id, parent);
  }
  return id;
}

// kDone or kDowngraded.
Item Core::HoldAtPut(const Operation& op, size_t i, EntryId id) {
  const uint8_t hold_class = op.hold_class(i);
  const HoldMillis now = HoldNow();
  if (hold_class == 0) {
    const EntryId parent = ledger_.Parent(ledger_.index[id]);
    if (parent != kNoEntry && ledger_.index[id].deadline == kNoDeadline) {
      ledger_.holds.Inherit(id, parent);
    }
    return Item::kDone;
  }
  // The rest of a chain follows root first by itself, unless it asks for more than its parent did.
  if (i == 0 || !op.blocks.linked() || hold_class > op.hold_class(i - 1)) {
    ledger_.TouchAncestors(id, hold_class, op.request, now);
  }
  return ledger_.ApplyHold(id, hold_class, now) ? Item::kDone : Item::kDowngraded;
}

FrameIdentity Core::IdentityOf(const Operation& op, size_t i) {
  FrameIdentity identity;
  identity.key = op.blocks.key(i);
  identity.root = op.blocks.root();
  identity.parent = op.blocks.parent(i);
  identity.index = op.blocks.position(i) & 0xffffffu;
  identity.external = op.blocks.external(i);
  return identity;
}

// Copies block i into the frame, hashing it in the same pass; a committed payload is there already.
void Core::FillFrame(const Operation& op, size_t i, uint64_t payload_bytes, FrameFixed& fixed,
                     std::byte* payload) {
  InitFixed(IdentityOf(op, i), payload_bytes, fixed);
  if (op.reserved_bytes != 0) {
    const Extent all{payload, payload_bytes};
    ChecksumPayload({&all, 1}, nullptr, fixed);
  } else {
    std::vector<Extent> source;
    op.ExtentsOf(i, source);
    uint64_t left = payload_bytes;
    for (Extent& x : source) {
      x.bytes = std::min(x.bytes, left);
      left -= x.bytes;
    }
    ChecksumPayload(source, payload, fixed);
  }
  std::memset(payload + payload_bytes, 0, RoundUp(payload_bytes, kPageBytes) - payload_bytes);
  SealFixed(fixed);
}

void Core::Publish(const OperationPtr& op, const PutItem& item) {
  Entry& e = ledger_.index[item.id];
  const bool here = e.generation == item.generation;
  if (!here || e.copy(kDdr) != CopyState::kArriving) {  // erased meanwhile
    frames_.Free(item.frame, FrameBytes(item.payload_bytes), HostFrames::Use::kDdr);
    Final(op, item.block, Item::kDeclined);
    return;
  }
  ledger_.SetLive(item.id, kDdr, Ledger::PlaceOf(item.frame));
  ++ledger_.stats[kDdr].put_in;
  ++counters_.put;
  Final(op, item.block, item.item);
  Published(item.id, true);
  const Ledger::Down down = ledger_.DownFrom(e, kDdr);
  if (down.row == PlacementRow::kAtPut) {
    at_put_.push_back(item.id);
    step_wanted_ = outbox_.ring = true;
  }
  if (ledger_.on(kHbm)) {
    to_hbm_.push_back(item.id);
    step_wanted_ = outbox_.ring = true;
  }
}

// Tells the puts that attached to one.
void Core::Published(EntryId id, bool kept) {
  if (putters_.empty()) return;
  const auto it = putters_.find(id);
  if (it == putters_.end()) return;
  const std::vector<Load::Attached> attached = std::move(it->second);
  putters_.erase(it);
  for (const Load::Attached& a : attached) {
    if (a.op->at[a.block] == At::kFinal) continue;
    Final(a.op, a.block, kept ? PutPresent(a.op, a.block, id) : Item::kDeclined);
    if (a.op->finals == a.op->size() && !a.op->running) TouchPut(a.op);
    CompleteIfOver(a.op);
  }
}

// All touches of a put that ends on the driver.
void Core::TouchPut(const OperationPtr& op) {
  while (TouchSome(op, kBlocksPerLock)) {
  }
}

// ------------------------------------------------------------------ waiting for room

void Core::ParkPut(const OperationPtr& op) {
  op->parked = true;
  parked_.push_back(op);
  step_wanted_ = true;
  outbox_.ring = true;
}

// Puts in the order they came, and fetches that found no frame.
bool Core::RetryPuts(Instant now) {
  Section section(*this);
  if (parked_.empty() && starved_.empty()) return false;
  const bool patient = parked_.empty() || (now < parked_.front()->give_up && !closed_);
  if (!room_changed_ && patient) return false;
  room_changed_ = false;
  bool did = false;
  std::vector<OperationPtr> starved;
  starved.swap(starved_);
  for (const OperationPtr& op : starved) {
    const size_t before = op->cursor;
    Continue(op);
    did = did || op->cursor != before || op->completed;
  }
  while (!parked_.empty()) {
    const OperationPtr op = parked_.front();
    if (op->completed || !op->parked) {
      parked_.pop_front();
      continue;
    }
    if (op->running) break;
    const bool over = now >= op->give_up || closed_;
    if (!over) {
      const size_t i = op->cursor;
      const uint64_t bytes =
          op->put.payload_bytes != 0 ? op->put.payload_bytes : op->MemoryBytes(i);
      if (ledger_.on(kDdr) && !MakeRoom(kDdr, FrameBytes(bytes))) break;
    }
    parked_.pop_front();
    op->parked = false;
    did = true;
    if (over) {
      for (; op->cursor < op->size(); ++op->cursor) {
        if (op->at[op->cursor] == At::kFinal) continue;
        ++counters_.declined_busy;
        Final(op, op->cursor, Item::kDeclined);
      }
      if (op->finals == op->size()) TouchPut(op);
      CompleteIfOver(op);
      continue;
    }
    outbox_.jobs.emplace_back([this, op] { RunPut(op); });
    break;  // its turn; the next when that has room
  }
  return did;
}

// ------------------------------------------------------------------ reserve and commit

Result<Lease> Core::Reserve(uint64_t payload_bytes) {
  HF_RETURN_IF_ERROR(CheckAlive());
  if (options_.ddr_bytes == 0 || !options_.bytes) {
    return Status(StatusCode::kFailedPrecondition, "reserve: the ddr tier is off");
  }
  if (payload_bytes == 0 || payload_bytes > options_.payload_bytes_max) {
    return BadPut("reserve of " + std::to_string(payload_bytes) +
                  " bytes; it must be 1 to payload_bytes_max");
  }
  Section section(*this);
  const FrameAt frame =
      views_ < options_.views_max ? MakeDdrFrame(FrameBytes(payload_bytes)) : kNoFrame;
  if (frame == kNoFrame) {
    outbox_.ring = true;
    return Status(StatusCode::kResourceExhausted, "reserve: no frame is free; try again later");
  }
  ++views_;
  return Lease(std::make_unique<FrameLease>(shared_from_this(), frame, payload_bytes,
                                            held_.insert(held_.end(), {run_clock_->Now(), 1})));
}

Result<OpId> Core::SubmitCommit(Lease frame, const Blocks& one, const PutOptions& options,
                                CompletionQueue* queue, uint64_t tag, std::span<Item> results) {
  HF_RETURN_IF_ERROR(CheckAlive());
  auto* state = dynamic_cast<FrameLease*>(frame.state());
  if (state == nullptr || !state->valid() || state->core() != this) {
    return BadPut("commit: the lease is not one of Reserve of this store");
  }
  if (one.size() != 1 || results.size() != 1)
    return BadPut("commit: takes one block and one result");
  auto op = std::make_shared<Operation>();
  op->kind = Operation::Kind::kPut;
  op->blocks = one;
  op->put = options;
  op->put.holds = {};
  op->memory = Memory::Kind::kExtents;
  op->queue = queue;
  op->tag = tag;
  op->results = results;
  op->reserved_bytes = options.payload_bytes != 0 ? options.payload_bytes : state->payload_bytes();
  if (FrameBytes(op->reserved_bytes) != FrameBytes(state->payload_bytes())) {
    return BadPut("commit: payload_bytes does not fill the frame that was reserved");
  }
  op->put.payload_bytes = op->reserved_bytes;
  Status status;
  {
    Section section(*this);
    op->hold_classes.push_back(ClassFor(options.hold, status));
    op->request = FoldRequest(options.request);
  }
  HF_RETURN_IF_ERROR(std::move(status));
  HF_RETURN_IF_ERROR(Register(op));
  const uint64_t frame_bytes = FrameBytes(state->payload_bytes());
  const FrameAt at = state->Take();
  op->reserved = at;
  const OpId id = op->id;
  RunPut(op);
  {
    Section section(*this);
    --views_;
    held_.erase(state->held());
    if (op->reserved != kNoFrame) frames_.Free(at, frame_bytes, HostFrames::Use::kDdr);
    op->reserved = kNoFrame;
  }
  if (!environment_.driver_thread) RunInline();
  return id;
}

}  // namespace holdfast::internal
