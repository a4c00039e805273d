// The hbm tier: slots in device memory hold payloads; the header pages stay on the host beside
// them, where they can be compared before a byte is moved.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <deque>
#include <utility>

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include "gpu/verify_workers.h"
#include "kvstore/check.h"
#include "kvstore/frame_space.h"
#include "kvstore/mutex.h"
#include "kvstore/tiers.h"

namespace holdfast {
namespace {

constexpr uint32_t kGroup = 0;  // slots come and go one by one

class HbmTier final : public Tier {
 public:
  HbmTier(Device& device, Clock& run_clock, HbmTierOptions options, std::byte* memory);
  ~HbmTier() override;
  HbmTier(const HbmTier&) = delete;
  HbmTier& operator=(const HbmTier&) = delete;

  Where where() const noexcept override { return Where::kHbm; }
  std::string_view engine() const noexcept override { return engine_; }
  TierLimits limits() const noexcept override {
    return {.capacity_bytes = options_.capacity_bytes, .alignment = 1, .extents_max = 0};
  }
  TierUsage usage() const noexcept override {
    MutexLock lock(mutex_);
    return usage_;
  }
  std::optional<Place> Allocate(const Shape& shape) override;
  void Free(Place place) override;
  void Submit(FrameOp* op) override;
  size_t Poll(std::span<FrameOp*> out) override;
  size_t in_flight() const noexcept override { return in_flight_.load(std::memory_order_acquire); }

 private:
  struct Slot {
    uint64_t payload_bytes = 0;
    std::unique_ptr<FrameHeader> header;  // of what was written; null: nothing good
    uint32_t ops = 0;                     // running on it
    bool freed = false;                   // space comes back with the last of them
  };
  struct Pending {
    FrameOp* op = nullptr;
    DeviceEvent event = 0;
  };

  Slot* FindSlot(Place place) HF_REQUIRES(mutex_);  // null: freed
  Slot& SlotAt(Place place) HF_REQUIRES(mutex_);
  bool BeginOp(FrameOp* op);
  void BeginWrite(FrameOp& op);
  bool BeginRead(FrameOp& op);
  void StartCopies(FrameOp* op);
  void CopiesEnded(FrameOp* op, int done, internal::VerifyWorkers* workers);
  void Verify(FrameOp& op) const;
  void Finish(FrameOp* op);
  static void Fail(FrameOp& op, int os_errno) {
    op.outcome = FrameOutcome::kFailed;
    op.os_errno = os_errno;
  }

  Device& device_;
  Clock& run_clock_;
  const HbmTierOptions options_;
  std::byte* const memory_;  // null without bytes
  const std::string_view engine_;
  std::atomic<size_t> in_flight_{0};
  std::vector<Pending> polled_;  // the poller's
  mutable Mutex mutex_;
  FrameSpace space_ HF_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, Slot> slots_ HF_GUARDED_BY(mutex_);
  TierUsage usage_ HF_GUARDED_BY(mutex_);
  std::vector<Pending> started_ HF_GUARDED_BY(mutex_);  // not yet seen by the poller
  std::deque<FrameOp*> finished_ HF_GUARDED_BY(mutex_);
  std::deque<FrameOp*> gone_ HF_GUARDED_BY(mutex_);   // reads of slots that were freed before
  std::unique_ptr<internal::VerifyWorkers> workers_;  // last: ends before what it uses
};

HbmTier::HbmTier(Device& device, Clock& run_clock, HbmTierOptions options, std::byte* memory)
    : device_(device),
      run_clock_(run_clock),
      options_(std::move(options)),
      memory_(memory),
      engine_(options_.bytes ? device.properties().name : "none"),
      space_({.range_bytes = options_.capacity_bytes, .page_bytes = options_.page_bytes}) {
  if (options_.start_thread && options_.workers > 0) {
    workers_ = std::make_unique<internal::VerifyWorkers>(options_.start_thread, options_.workers,
                                                         [this](FrameOp* op) {
                                                           Verify(*op);
                                                           Finish(op);
                                                         });
  }
}

HbmTier::~HbmTier() {
  HF_CHECK(in_flight() == 0);
  workers_.reset();
  if (memory_ != nullptr) device_.Free(memory_);
}

HbmTier::Slot* HbmTier::FindSlot(Place place) {
  const auto it = slots_.find(place.slot);
  return it == slots_.end() || it->second.freed ? nullptr : &it->second;
}

HbmTier::Slot& HbmTier::SlotAt(Place place) {
  Slot* const slot = FindSlot(place);
  HF_CHECK(place.group == kGroup && slot != nullptr);
  return *slot;
}

std::optional<Place> HbmTier::Allocate(const Shape& shape) {
  const uint64_t bytes = RoundUp(shape.payload_bytes, kPageBytes);
  MutexLock lock(mutex_);
  const std::optional<uint64_t> offset = space_.Allocate(bytes);
  if (!offset) return std::nullopt;
  const Place place{.group = kGroup, .slot = static_cast<uint32_t>(*offset / kPageBytes)};
  slots_[place.slot].payload_bytes = shape.payload_bytes;
  usage_.used_bytes += bytes;
  usage_.live_copies += 1;
  return place;
}

void HbmTier::Free(Place place) {
  MutexLock lock(mutex_);
  Slot& slot = SlotAt(place);
  usage_.used_bytes -= RoundUp(slot.payload_bytes, kPageBytes);
  usage_.live_copies -= 1;
  if (slot.ops > 0) {
    slot.freed = true;
    return;
  }
  slots_.erase(place.slot);
  space_.Free(place.slot * kPageBytes);
}

void HbmTier::Submit(FrameOp* op) {
  op->submitted = run_clock_.Now();
  op->outcome = FrameOutcome::kDone;
  op->fault = FrameFault::kNone;
  op->os_errno = 0;
  in_flight_.fetch_add(1, std::memory_order_acq_rel);
  if (!BeginOp(op)) return;
  if (!options_.bytes || (op->kind == FrameOpKind::kRead && !BeginRead(*op))) return Finish(op);
  if (op->kind == FrameOpKind::kWrite) BeginWrite(*op);
  StartCopies(op);
}

// False: the place was freed before, and the operation is over.
bool HbmTier::BeginOp(FrameOp* op) {
  {
    MutexLock lock(mutex_);
    if (Slot* const slot = FindSlot(op->place); slot != nullptr) {
      slot->ops += 1;
      return true;
    }
    HF_CHECK(op->kind == FrameOpKind::kRead);
    op->outcome = FrameOutcome::kCorrupt;
    op->fault = FrameFault::kIdentity;
    op->finished = op->submitted;
    gone_.push_back(op);
  }
  if (options_.wake) options_.wake();
  return false;
}

void HbmTier::BeginWrite(FrameOp& op) {
  op.header->placement.epoch = 0;
  op.header->placement.slot = op.place.slot;
  SealPlacement(*op.header);
  auto header = std::make_unique<FrameHeader>(*op.header);
  MutexLock lock(mutex_);
  Slot& slot = SlotAt(op.place);
  HF_CHECK(slot.payload_bytes == op.header->fixed.payload_bytes);
  slot.header.swap(header);
}

// False: the slot does not hold what is expected. Nothing is copied then.
bool HbmTier::BeginRead(FrameOp& op) {
  bool written = false;
  {
    MutexLock lock(mutex_);
    const Slot& slot = slots_.at(op.place.slot);  // freed or not: it waits for us
    written = slot.header != nullptr;
    if (written) *op.header = *slot.header;
  }
  FrameExpect expect = op.expect;
  expect.epoch = 0;
  expect.slot = op.place.slot;
  op.fault = written ? CheckHeader(*op.header, expect) : FrameFault::kMagic;
  if (op.fault == FrameFault::kNone) return true;
  op.outcome = FrameOutcome::kCorrupt;
  return false;
}

void HbmTier::StartCopies(FrameOp* op) {
  absl::InlinedVector<DeviceCopy, 16> copies;
  const uint64_t payload_bytes = op->header->fixed.payload_bytes;
  std::byte* const slot = memory_ + op->place.slot * kPageBytes;
  uint64_t at = op->offset;
  for (const Extent& extent : op->payload) {
    std::byte* const in_slot = slot + at;
    if (op->kind == FrameOpKind::kWrite) {
      copies.push_back({.to = in_slot, .from = extent.data, .bytes = extent.bytes});
    } else {
      copies.push_back({.to = extent.data, .from = in_slot, .bytes = extent.bytes});
    }
    at += extent.bytes;
  }
  HF_CHECK(at <= RoundUp(payload_bytes, kPageBytes));
  HF_CHECK(op->kind == FrameOpKind::kRead || (op->offset == 0 && at >= payload_bytes));

  Result<DeviceEvent> event = device_.SubmitCopies(copies);
  if (!event.has_value()) {
    const int os_errno = event.error().os_errno();
    Fail(*op, os_errno != 0 ? os_errno : EIO);
    Finish(op);
  } else if (const int done = device_.Done(*event); done != 0) {
    CopiesEnded(op, done, nullptr);  // a synchronous device: this thread has the time
  } else {
    MutexLock lock(mutex_);
    started_.push_back({.op = op, .event = *event});
  }
}

void HbmTier::CopiesEnded(FrameOp* op, int done, internal::VerifyWorkers* workers) {
  if (done < 0) {
    Fail(*op, EIO);
  } else if (op->kind == FrameOpKind::kRead && options_.verify) {
    if (workers != nullptr) return workers->Add(op);
    Verify(*op);
  }
  Finish(op);
}

void HbmTier::Verify(FrameOp& op) const {
  op.fault = CheckPayload(op.header->fixed, op.offset, op.payload);
  if (op.fault != FrameFault::kNone) op.outcome = FrameOutcome::kCorrupt;
}

void HbmTier::Finish(FrameOp* op) {
  uint64_t moved = 0;
  if (options_.bytes && op->outcome == FrameOutcome::kDone) {
    for (const Extent& extent : op->payload) moved += extent.bytes;
  }
  op->finished = run_clock_.Now();
  {
    MutexLock lock(mutex_);
    (op->kind == FrameOpKind::kRead ? usage_.read_bytes : usage_.written_bytes) += moved;
    if (op->outcome == FrameOutcome::kFailed) {
      usage_.faults += 1;
      usage_.last_errno = op->os_errno;
      // What a failed write left is not a frame.
      if (op->kind == FrameOpKind::kWrite) slots_[op->place.slot].header.reset();
    }
    finished_.push_back(op);  // from here on it may be gone
  }
  if (options_.wake) options_.wake();
}

size_t HbmTier::Poll(std::span<FrameOp*> out) {
  if (in_flight() == 0) return 0;
  {
    MutexLock lock(mutex_);
    polled_.insert(polled_.end(), started_.begin(), started_.end());
    started_.clear();
  }
  std::erase_if(polled_, [this](const Pending& pending) {
    const int done = device_.Done(pending.event);
    if (done != 0) CopiesEnded(pending.op, done, workers_.get());
    return done != 0;
  });
  MutexLock lock(mutex_);
  size_t n = 0;
  for (; n < out.size() && !gone_.empty(); ++n) {
    out[n] = gone_.front();
    gone_.pop_front();
  }
  for (; n < out.size() && !finished_.empty(); ++n) {
    out[n] = finished_.front();
    finished_.pop_front();
    const Place place = out[n]->place;
    Slot& slot = slots_[place.slot];
    slot.ops -= 1;
    if (slot.freed && slot.ops == 0) {
      slots_.erase(place.slot);
      space_.Free(place.slot * kPageBytes);
    }
  }
  in_flight_.fetch_sub(n, std::memory_order_acq_rel);
  return n;
}

Status CheckOptions(const HbmTierOptions& options) {
  if (!std::has_single_bit(options.page_bytes) || options.page_bytes < (64u << 10)) {
    return Status(StatusCode::kInvalidArgument, "hbm: page_bytes " +
                                                    std::to_string(options.page_bytes) +
                                                    " must be a power of two and at least 65536");
  }
  if (options.capacity_bytes == 0 || options.capacity_bytes % options.page_bytes != 0 ||
      options.capacity_bytes / kPageBytes > UINT32_MAX) {
    return Status(StatusCode::kInvalidArgument,
                  "hbm: capacity_bytes " + std::to_string(options.capacity_bytes) +
                      " must be a positive multiple of page_bytes " +
                      std::to_string(options.page_bytes) + ", below 16 TiB");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tier>> CreateHbmTier(Device& device, Clock& run_clock,
                                            HbmTierOptions options) {
  HF_RETURN_IF_ERROR(CheckOptions(options));
  std::byte* memory = nullptr;
  if (options.bytes) {
    Result<std::byte*> allocated = device.Allocate(options.capacity_bytes);
    if (!allocated.has_value()) {
      return std::move(allocated).error().WithContext("hbm: capacity_bytes " +
                                                      std::to_string(options.capacity_bytes));
    }
    memory = *allocated;
  }
  return std::unique_ptr<Tier>(
      std::make_unique<HbmTier>(device, run_clock, std::move(options), memory));
}

}  // namespace holdfast
