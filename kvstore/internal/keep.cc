// Keeping: touches, holds, releases, erasures, epochs.
#include <algorithm>

#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

// The longest time a blocking verb waits for the meta store.
constexpr Duration kMetaPatience = std::chrono::seconds(60);

}  // namespace

void Core::Touch(const Blocks& blocks, uint64_t request) {
  if (Forked() || blocks.size() == 0) return;
  uint16_t folded = 0;
  EntryId first = kNoEntry;
  // Deepest first, so that the root ends most recent.
  for (size_t end = blocks.size(); end > 0;) {
    const size_t begin = end - std::min(end, kBlocksPerLock);
    Section section(*this);
    if (closed_ || !EpochCurrent(blocks)) return;
    if (folded == 0) folded = FoldRequest(request);
    const HoldMillis now = HoldNow();
    std::array<EntryId, kBlocksPerLock> ids{};
    ledger_.ForEach(blocks, begin, end, [&](size_t i, EntryId id) {
      mutex_.AssertHeld();
      const bool served = id != kNoEntry && ledger_.Served(ledger_.index[id], now);
      ids[i - begin] = served ? id : kNoEntry;
      if (served) ledger_.PrefetchTouch(id);
      return true;
    });
    for (size_t i = end; i-- > begin;) {
      if (ids[i - begin] == kNoEntry) continue;
      first = ids[i - begin];
      ledger_.Touch(first, folded, now);
    }
    end = begin;
    if (end == 0 && first != kNoEntry) ledger_.TouchAncestors(first, 0, folded, now);
  }
}

Status Core::SetHold(const Blocks& blocks, Hold hold, std::span<bool> granted) {
  HF_RETURN_IF_ERROR(CheckAlive());
  if (!granted.empty() && granted.size() != blocks.size()) {
    return {StatusCode::kInvalidArgument, "set_hold: granted must be empty or one per block"};
  }
  std::fill(granted.begin(), granted.end(), false);
  Status status;
  uint8_t hold_class = 0;
  {
    Section section(*this);
    hold_class = ClassFor(hold, status);
  }
  HF_RETURN_IF_ERROR(std::move(status));
  if (hold_class == 0) {
    return {StatusCode::kInvalidArgument, "set_hold: ttl must be above 0; Release ends a hold"};
  }
  for (size_t first = 0; first < blocks.size(); first += kBlocksPerLock) {
    Section section(*this);
    if (!EpochCurrent(blocks)) return {};
    const HoldMillis now = HoldNow();
    bool ancestors = first == 0 || !blocks.linked();
    const size_t end = std::min(blocks.size(), first + kBlocksPerLock);
    ledger_.ForEach(blocks, first, end, [&](size_t i, EntryId id) {
      mutex_.AssertHeld();
      if (id == kNoEntry || !ledger_.Served(ledger_.index[id], now)) return true;
      if (ancestors) {
        ledger_.TouchAncestors(id, hold_class, 0, now);
        ancestors = !blocks.linked();
      }
      const bool kept = ledger_.ApplyHold(id, hold_class, now);
      if (!granted.empty()) granted[i] = kept;
      return true;
    });
    step_wanted_ = outbox_.ring = true;
  }
  if (!environment_.driver_thread) RunInline();
  return {};
}

// ------------------------------------------------------------------ durable verbs

void Core::SubmitMeta(MetaBatch batch, const OperationPtr& op) {
  if (meta_ == nullptr || batch.empty()) {
    Section section(*this);
    Complete(op);
    return;
  }
  {
    Section section(*this);
    ++meta_waiting_;
  }
  meta_->SubmitSync(std::move(batch), [this, op](Status status) {
    {
      MutexLock lock(meta_mutex_);
      meta_done_.emplace_back(op, std::move(status));
    }
    waiter_->Ring();
  });
}

bool Core::MetaDone() {
  std::vector<std::pair<OperationPtr, Status>> done;
  if (meta_ != nullptr) meta_->Poll();
  {
    MutexLock lock(meta_mutex_);
    done.swap(meta_done_);
  }
  if (done.empty()) return false;
  Section section(*this);
  for (auto& [op, status] : done) {
    --meta_waiting_;
    const bool good = status.ok();
    if (!good) ++counters_.meta_failed;
    if (op == nullptr) continue;
    op->good = good ? op->size() : 0;
    if (!op->completed) Complete(op);
  }
  return true;
}

Result<OperationPtr> Core::StartMeta(const Blocks& blocks, CompletionQueue* queue, uint64_t tag) {
  HF_RETURN_IF_ERROR(CheckAlive());
  auto op = std::make_shared<Operation>();
  op->kind = Operation::Kind::kMeta;
  op->queue = queue;
  op->tag = tag;
  HF_RETURN_IF_ERROR(Register(op));
  op->blocks = blocks;
  return op;
}

// The operation completes when `batch` is durable.
OpId Core::FinishMeta(MetaBatch batch, const OperationPtr& op) {
  const OpId id = op->id;
  SubmitMeta(std::move(batch), op);
  if (!environment_.driver_thread) RunInline();
  return id;
}

Result<OpId> Core::SubmitRelease(const Blocks& blocks, CompletionQueue* queue, uint64_t tag) {
  HF_ASSIGN_OR_RETURN(const OperationPtr op, StartMeta(blocks, queue, tag));
  MetaBatch batch;
  for (size_t first = 0; first < blocks.size(); first += kBlocksPerLock) {
    Section section(*this);
    if (!EpochCurrent(blocks)) break;
    const size_t end = std::min(blocks.size(), first + kBlocksPerLock);
    ledger_.ForEach(blocks, first, end, [&](size_t, EntryId id) {
      mutex_.AssertHeld();
      if (id == kNoEntry) return true;
      const Entry& e = ledger_.index[id];
      if (e.hold_class == 0 || e.released) return true;
      ledger_.Release(id);
      ++counters_.released;
      batch.deadlines.push_back({.key = e.key,
                                 .write_id = next_write_id_ - 1,
                                 .deadline = e.deadline,
                                 .hold_ttl_ms = 0,
                                 .granted = false});
      return true;
    });
  }
  return FinishMeta(persistent_ ? std::move(batch) : MetaBatch{}, op);
}

Result<OpId> Core::SubmitErase(const Blocks& blocks, CompletionQueue* queue, uint64_t tag) {
  HF_ASSIGN_OR_RETURN(const OperationPtr op, StartMeta(blocks, queue, tag));
  MetaBatch batch;
  for (size_t first = 0; first < blocks.size(); first += kBlocksPerLock) {
    Section section(*this);
    if (!EpochCurrent(blocks)) break;
    const size_t end = std::min(blocks.size(), first + kBlocksPerLock);
    for (size_t i = first; i < end; ++i) {
      // Keys that are not here, too: a copy may lie on a medium that is found again at open.
      if (persistent_) {
        batch.tombstones.push_back({.key = blocks.key(i), .write_id = next_write_id_ - 1});
      }
      const EntryId id = ledger_.index.Find(blocks.key(i));
      if (id == kNoEntry) continue;
      ++counters_.erased;
      const bool putting = ledger_.index[id].putting;
      ledger_.Remove(id, Why::kErased);
      if (putting) Published(id, false);
    }
    room_changed_ = true;
  }
  return FinishMeta(std::move(batch), op);
}

Status Core::NewEpoch(SpaceId space) {
  HF_RETURN_IF_ERROR(CheckAlive());
  auto op = std::make_shared<Operation>();
  op->kind = Operation::Kind::kMeta;
  SpaceEpoch record;
  {
    Section section(*this);
    if (space >= spaces_.size() || space == 0) {
      return {StatusCode::kInvalidArgument,
              "new_epoch: space " + std::to_string(space) + " is not open"};
    }
  }
  HF_RETURN_IF_ERROR(Register(op));
  {
    Section section(*this);
    SpaceRecord& s = spaces_[space];
    s.dead_roots.push_back(s.key.root);
    ledger_.KillRoot(s.root);
    ++s.key.epoch;
    s.key.root = SpaceRoot(
        s.spec,
        options_.keep_secret ? std::span<const std::byte>(secret_) : std::span<const std::byte>(),
        s.key.epoch);
    s.root = ledger_.RootNumber(s.key.root);
    record = {s.identity, s.key.epoch, s.dead_roots};
    sweep_ = 0;
    step_wanted_ = outbox_.ring = true;
  }
  MetaBatch batch;
  if (persistent_) batch.epochs.push_back(std::move(record));
  const OpId id = op->id;
  SubmitMeta(std::move(batch), op);
  const uint64_t failed_before = Stats().meta_failed;
  HF_RETURN_IF_ERROR(Wait(id, run_clock_->Now() + kMetaPatience));
  if (Stats().meta_failed != failed_before) {
    return {StatusCode::kIoError, "new_epoch: in effect, but it could not be made durable"};
  }
  return {};
}

// Blocks of dead epochs go in the background; they are absent already.
bool Core::SweepDeadRoots() {
  Section section(*this);
  if (sweep_ == kNoEntry) return false;
  const EntryId end = std::min<EntryId>(sweep_ + kBlocksPerLock, ledger_.index.ids_end());
  for (; sweep_ < end; ++sweep_) {
    const Entry& e = ledger_.index[sweep_];
    if (e.in_use && ledger_.RootDead(e.root) && !e.putting) ledger_.Remove(sweep_, Why::kErased);
  }
  if (sweep_ >= ledger_.index.ids_end()) sweep_ = kNoEntry;
  room_changed_ = true;
  return true;
}

// Deadlines that moved, records that nobody needs, and the time.
bool Core::SyncMeta(HoldMillis now) {
  if (!persistent_ || meta_ == nullptr) return false;
  MetaBatch batch;
  {
    Section section(*this);
    if (ledger_.moved_deadlines.empty() && ledger_.forgotten.empty() &&
        now < hold_persisted_ + 10'000) {
      return false;
    }
    const size_t n = std::min(ledger_.moved_deadlines.size(), kBlocksPerLock);
    for (size_t i = 0; i < n; ++i) {
      const Entry& e =
          ledger_.index[ledger_.moved_deadlines[ledger_.moved_deadlines.size() - 1 - i]];
      if (!e.in_use || e.hold_class == 0) continue;
      batch.deadlines.push_back(
          {.key = e.key,
           .write_id = next_write_id_ - 1,
           .deadline = e.deadline,
           .hold_ttl_ms =
               e.released ? 0 : static_cast<uint64_t>(ledger_.holds.ttl_ms(e.hold_class)),
           .granted = e.charged_class != 0});
    }
    ledger_.moved_deadlines.resize(ledger_.moved_deadlines.size() - n);
    const size_t m = std::min(ledger_.forgotten.size(), kBlocksPerLock);
    batch.forget_deadlines.assign(ledger_.forgotten.end() - static_cast<ptrdiff_t>(m),
                                  ledger_.forgotten.end());
    ledger_.forgotten.resize(ledger_.forgotten.size() - m);
    if (now >= hold_persisted_ + 10'000) {
      hold_persisted_ = now;
      batch.hold_now = now;
      batch.write_id_next = next_write_id_;
    }
    // A block may be forgotten and held again between two turns: the newer word stands.
    for (const DeadlineRecord& d : batch.deadlines) std::erase(batch.forget_deadlines, d.key);
    if (batch.empty()) return true;
    ++meta_waiting_;
  }
  meta_->SubmitSync(std::move(batch), [this](Status status) {
    {
      MutexLock lock(meta_mutex_);
      meta_done_.emplace_back(nullptr, std::move(status));
    }
    waiter_->Ring();
  });
  return true;
}

}  // namespace holdfast::internal
