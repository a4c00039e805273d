// Operations: registering, finishing items, completing exactly once.
#include <algorithm>

#include "kvstore/check.h"
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

using At = Operation::At;

constexpr uint64_t kExtentBytesMax = 1ull << 40;  // so that sums of them are sums

Status BadMemory(const std::string& what) {
  return {StatusCode::kInvalidArgument, "memory: " + what};
}

}  // namespace

void Operation::ExtentsOf(size_t i, std::vector<Extent>& out) const {
  out.clear();
  if (memory == Memory::Kind::kExtents) {
    if (!extent_begin.empty()) {
      out.assign(extents.begin() + extent_begin[i], extents.begin() + extent_begin[i + 1]);
    }
    return;
  }
  for (const Stripe& s : stripes) {
    // `offset` is an address here; see CheckMemory.
    out.push_back(
        {reinterpret_cast<std::byte*>(s.offset + static_cast<uint64_t>(slots[i]) * s.stride),
         s.bytes});
  }
}

uint64_t Operation::MemoryBytes(size_t i) const noexcept {
  uint64_t sum = 0;
  if (memory == Memory::Kind::kExtents) {
    if (extent_begin.empty()) return 0;
    for (uint32_t x = extent_begin[i]; x < extent_begin[i + 1]; ++x) sum += extents[x].bytes;
  }
  for (const Stripe& s : stripes) sum += s.bytes;
  return sum;
}

// Copies what `memory` says into the operation and checks it against the layouts.
Status Core::CheckMemory(const Memory& memory, Operation& op) {
  op.memory = memory.kind;
  const size_t n = op.size();
  if (memory.kind == Memory::Kind::kArena) return {};
  if (memory.kind == Memory::Kind::kExtents) return CheckExtents(memory, op);
  if (memory.kind != Memory::Kind::kSlots) {
    return BadMemory("kind " + std::to_string(static_cast<int>(memory.kind)) + " is not known");
  }
  if (memory.layout == 0 || memory.layout >= layouts_.size()) {
    return BadMemory("layout " + std::to_string(memory.layout) + " is not known; AddLayout first");
  }
  const LayoutRecord& layout = layouts_[memory.layout];
  if (memory.slots.size() != n) {
    return BadMemory(std::to_string(memory.slots.size()) + " slots for " + std::to_string(n) +
                     " blocks");
  }
  for (int64_t slot : memory.slots) {
    if (slot < -1 || slot >= layout.slots) {
      return BadMemory("slot " + std::to_string(slot) + " is outside its regions, which hold " +
                       std::to_string(layout.slots));
    }
  }
  op.slots.assign(memory.slots.begin(), memory.slots.end());
  for (Stripe s : layout.stripes) {
    RegionRecord& r = regions_[s.region];
    if (r.removed) return BadMemory("region " + std::to_string(s.region) + " was removed");
    if (std::find(op.regions.begin(), op.regions.end(), s.region) == op.regions.end()) {
      op.regions.push_back(s.region);
    }
    s.offset += reinterpret_cast<uint64_t>(r.memory.data());
    s.region = 0;
    op.stripes.push_back(s);
  }
  return {};
}

Status Core::CheckExtents(const Memory& memory, Operation& op) {
  if (!options_.bytes && memory.extents.empty()) return {};
  const size_t n = op.size();
  if (memory.extent_begin.size() != n + 1) {
    return BadMemory("extent_begin has " + std::to_string(memory.extent_begin.size()) +
                     " offsets, expected blocks + 1 = " + std::to_string(n + 1));
  }
  for (size_t i = 0; i < n; ++i) {
    if (memory.extent_begin[i] > memory.extent_begin[i + 1]) {
      return BadMemory("extent_begin must not decrease (block " + std::to_string(i) + ")");
    }
  }
  if (memory.extent_begin[n] > memory.extents.size()) {
    return BadMemory("extent_begin ends at " + std::to_string(memory.extent_begin[n]) + " of " +
                     std::to_string(memory.extents.size()) + " extents");
  }
  for (size_t x = memory.extent_begin[0]; x < memory.extent_begin[n]; ++x) {
    const Extent& extent = memory.extents[x];
    if (extent.data == nullptr && extent.bytes > 0) {
      return BadMemory("extents[" + std::to_string(x) + "].data is null");
    }
    if (extent.bytes > kExtentBytesMax) {
      return BadMemory(
          "extents[" + std::to_string(x) + "].bytes is " + std::to_string(extent.bytes) +
          "; at most payload_bytes_max = " + std::to_string(options_.payload_bytes_max));
    }
  }
  op.extents.assign(memory.extents.begin(), memory.extents.end());
  op.extent_begin.assign(memory.extent_begin.begin(), memory.extent_begin.end());
  for (RegionId r = 1; r < regions_.size(); ++r) {
    const std::span<std::byte> m = regions_[r].memory;
    const bool inside = std::any_of(op.extents.begin(), op.extents.end(), [&](const Extent& x) {
      return x.data < m.data() + m.size() && x.data + x.bytes > m.data();
    });
    if (inside) op.regions.push_back(r);
  }
  return {};
}

Status Core::Register(const OperationPtr& op) {
  const size_t places = op->fetch.each ? op->size() : 1;
  if (op->queue != nullptr && !op->queue->Reserve(std::max<size_t>(places, 1))) {
    return {StatusCode::kResourceExhausted, "completion queue: full; poll it first"};
  }
  op->id = next_op_.fetch_add(1, std::memory_order_relaxed);
  op->started = run_clock_->Now();
  op->at.assign(op->size(), At::kNotBegun);
  std::fill(op->results.begin(), op->results.end(), Item::kPending);
  Section section(*this);
  for (RegionId r : op->regions) ++regions_[r].users;
  operations_.emplace(op->id, op);
  return {};
}

void Core::Final(const OperationPtr& op, size_t i, Item item) {
  if (op->at[i] == At::kFinal) return;
  const bool good = item <= Item::kDowngraded;
  if (i >= op->cut && item != Item::kSkipped && op->kind != Operation::Kind::kPut) {
    item = op->cut_item;
  }
  op->at[i] = At::kFinal;
  op->results[i] = item;
  ++op->finals;
  if (item <= Item::kDowngraded && good) ++op->good;
  if (op->kind == Operation::Kind::kFetch || op->kind == Operation::Kind::kPrefetch) {
    switch (item) {
      case Item::kDone:
        ++counters_.fetched;
        break;
      case Item::kLate:
        ++counters_.late;
        break;
      case Item::kCancelled:
        ++counters_.cancelled;
        break;
      case Item::kSkipped:
        ++counters_.skipped;
        break;
      default:
        ++counters_.missed;
    }
    if (op->fetch.each && op->queue != nullptr) {
      Completion c;
      c.tag = op->tag;
      c.op = op->id;
      c.block = static_cast<uint32_t>(i);
      c.done = item == Item::kDone ? 1 : 0;
      c.took = run_clock_->Now() - op->started;
      outbox_.completions.emplace_back(op->queue, std::move(c));
    }
    if (item > Item::kSkipped && op->fetch.prefix && i < op->cut) CutFrom(op, i + 1, Item::kMiss);
  }
}

// Blocks from i on end as `item`: those that nobody works on at once, the others when that ends.
void Core::CutFrom(const OperationPtr& op, size_t i, Item item) {
  if (i >= op->cut) return;
  op->cut = i;
  op->cut_item = item;
  for (size_t j = i; j < op->size(); ++j) {
    if (op->at[j] != At::kNotBegun && op->at[j] != At::kWaiting) continue;
    Final(op, j, op->skips(j) ? Item::kSkipped : item);
  }
}

void Core::CompleteIfOver(const OperationPtr& op) {
  if (op->completed || op->running || op->finals < op->size()) return;
  Complete(op);
}

// Blocks may end out of order: from the first of a prefix that is not done on nothing is; and of a
// chain that is put, what follows a declined block counts as declined, though it may be here.
void Core::CutDone(const OperationPtr& op) {
  const bool put = op->kind == Operation::Kind::kPut;
  const bool ordered = put ? op->blocks.linked() : op->fetch.prefix && !op->fetch.each;
  if (!ordered || op->cut == SIZE_MAX) return;
  bool failed = false;
  for (size_t i = 0; i < op->size(); ++i) {
    if (op->results[i] > Item::kSkipped) failed = true;
    if (!failed || op->results[i] >= Item::kSkipped) continue;
    op->results[i] = put ? Item::kDeclined : Item::kMiss;
    --op->good;
    if (put) continue;
    --counters_.fetched;
    ++counters_.missed;
  }
}

void Core::Complete(const OperationPtr& op) {
  op->completed = true;
  if (op->kind != Operation::Kind::kMeta) CutDone(op);
  const Instant now = run_clock_->Now();
  if (op->views != nullptr) {
    size_t held = 0;
    for (size_t i = 0; i < op->size(); ++i) {
      ViewLease::View& view = op->views->views[i];
      if (op->results[i] != Item::kDone) view.bytes = 0;  // shows nothing
      held += view.at != kNoFrame ? 1 : 0;
    }
    if (held > 0) op->views->held = held_.insert(held_.end(), {now, held});
  }
  for (RegionId r : op->regions) --regions_[r].users;
  if (op->queue != nullptr && !op->fetch.each) {
    Completion c;
    c.tag = op->tag;
    c.op = op->id;
    c.done = static_cast<uint32_t>(op->good);
    c.took = now - op->started;
    if (op->views) c.views = Lease(std::move(op->views));
    outbox_.completions.emplace_back(op->queue, std::move(c));
  }
  operations_.erase(op->id);
  outbox_.finished.push_back(op);
  outbox_.wake_waiters = true;
}

// ------------------------------------------------------------------ fences, cancel, wait

// Runs the operation once its fence is done: now, or from the driver.
void Core::RunBehindFence(const OperationPtr& op) {
  const bool put = op->kind == Operation::Kind::kPut;
  const Fence& fence = put ? op->put.fence : op->fetch.fence;
  if (fence.done == nullptr) return put ? RunPut(op) : RunFetch(op);
  Section section(*this);
  fenced_.push_back(op);
  step_wanted_ = outbox_.ring = true;
}

bool Core::RunFenced() {
  std::vector<OperationPtr> waiting;
  {
    Section section(*this);
    waiting.swap(fenced_);
    // Nobody completes them meanwhile: with its completion a fence may be gone.
    for (const OperationPtr& op : waiting) op->running = true;
  }
  bool did = false;
  for (const OperationPtr& op : waiting) {
    const bool put = op->kind == Operation::Kind::kPut;
    const Fence& fence = put ? op->put.fence : op->fetch.fence;
    const int state = fence.done(fence.context);
    Section section(*this);
    op->running = false;
    did = did || state != 0;
    if (state < 0) {
      for (size_t i = 0; i < op->size(); ++i) Final(op, i, Item::kFailed);
    }
    if (op->finals == op->size() && op->size() > 0) {
      CompleteIfOver(op);
    } else if (state == 0) {
      fenced_.push_back(op);
    } else {
      outbox_.jobs.emplace_back([this, op, put] { put ? RunPut(op) : RunFetch(op); });
    }
  }
  return did;
}

void Core::Cancel(OpId id) {
  if (Forked()) return;
  Section section(*this);
  const auto it = operations_.find(id);
  if (it == operations_.end() || it->second->kind == Operation::Kind::kMeta) return;
  const OperationPtr op = it->second;
  std::erase(fenced_, op);
  std::erase(parked_, op);
  op->parked = false;
  CutFrom(op, 0, Item::kCancelled);
  op->cursor = op->size();
  CompleteIfOver(op);
}

// At most a millisecond: a device without threads may be done at any time.
void Core::Idle(Instant until) {
  until = std::min(until, run_clock_->Now() + std::chrono::milliseconds(1));
  if (environment_.idle) {
    environment_.idle(until);
  } else {
    waiter_->Wait(until);
  }
}

Status Core::WaitFor(const std::function<bool()>& over, Instant until, std::string_view what) {
  for (;;) {
    if (over()) return {};
    const Instant now = run_clock_->Now();
    if (now >= until) {
      return {StatusCode::kDeadlineExceeded, std::string(what) + ": still under way"};
    }
    if (!environment_.driver_thread) {
      // One turn, and the idle wait of the driver that this thread stands in for.
      if (!Step()) Idle(until);
      continue;
    }
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, std::min<Duration>(until - now, std::chrono::milliseconds(5)));
  }
}

Status Core::Wait(OpId id, Instant until) {
  if (Forked()) return CheckAlive();
  if (environment_.driver_thread) {
    MutexLock lock(mutex_);
    while (operations_.contains(id)) {
      const Instant now = run_clock_->Now();
      if (now >= until) break;
      changed_.WaitFor(mutex_, std::min<Duration>(until - now, std::chrono::milliseconds(100)));
    }
    if (!operations_.contains(id)) return {};
    return {StatusCode::kDeadlineExceeded, "wait: the operation is still under way"};
  }
  return WaitFor(
      [&] {
        MutexLock lock(mutex_);
        return !operations_.contains(id);
      },
      until, "wait");
}

// Deadlines of fetches, and the patience of puts.
bool Core::RunTimers(Instant now) {
  Section section(*this);
  bool did = false;
  std::vector<OperationPtr> late;
  for (const auto& [id, op] : operations_) {
    if (op->completed || op->running) continue;
    const bool fetch =
        op->kind == Operation::Kind::kFetch || op->kind == Operation::Kind::kPrefetch;
    if (fetch && op->fetch.deadline <= now) late.push_back(op);
  }
  for (const OperationPtr& op : late) {
    if (op->cut == 0) continue;
    did = true;
    std::erase(fenced_, op);
    CutFrom(op, 0, Item::kLate);
    CompleteIfOver(op);
  }
  return did;
}

}  // namespace holdfast::internal
