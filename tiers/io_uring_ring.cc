#include "tiers/io_uring_ring.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kvstore/check.h"

namespace holdfast::internal {
namespace {

constexpr uint64_t kWakeTag = ~0ull;
constexpr uint64_t kNothingTag = ~1ull;
constexpr int kEnterFailuresMax = 1000;
constexpr unsigned kWorkersMax = 8;  // kernel threads for writes and syncs, per ring
// While callbacks run, what they submitted is sent each time this much has been verified.
constexpr uint64_t kSendEveryBytes = 256u << 10;
constexpr int kPoisonedPollMs = 10;
// A bound, not a beat: a sleeping ring is woken by its event fd.
constexpr __kernel_timespec kSleepMax = {.tv_sec = 10, .tv_nsec = 0};

thread_local UringRing* current_ring = nullptr;

// Nothing, by a thread of the kernel, as writes and syncs will be. Returns -errno; -ECANCELED: the
// thread was refused.
int TryWorker(io_uring* ring) {
  io_uring_sqe* sqe = io_uring_get_sqe(ring);
  io_uring_prep_nop(sqe);
  sqe->flags |= IOSQE_ASYNC;
  io_uring_cqe* cqe = nullptr;
  int rc = io_uring_submit_and_wait(ring, 1);
  if (rc >= 0) rc = io_uring_peek_cqe(ring, &cqe);
  if (rc < 0) return rc;
  rc = cqe->res;
  io_uring_cqe_seen(ring, cqe);
  return rc;
}

uint64_t TagOf(uint32_t index, uint32_t generation) { return uint64_t{generation} << 32 | index; }

}  // namespace

int InitUring(unsigned entries, io_uring* ring) {
  int rc =
      io_uring_queue_init(entries, ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
  if (rc == -EINVAL) rc = io_uring_queue_init(entries, ring, 0);
  return rc;
}

UringRing::UringRing(const IoFile& file, uint32_t depth)
    : fd_(file.fd()), limits_{file.capacity_bytes(), file.direct()}, depth_(depth), slots_(depth) {
  for (uint32_t i = depth; i > 0; --i) free_slots_.push_back(i - 1);
}

UringRing::~UringRing() {
  if (wake_fd_ >= 0) close(wake_fd_);
  start_status_.IgnoreError("one ring's is said, of those that failed");
}

UringRing* UringRing::Current() noexcept { return current_ring; }

Status UringRing::WaitUntilStarted() {
  MutexLock lock(mutex_);
  while (!started_) started_changed_.Wait(mutex_);
  return start_status_;
}

Status UringRing::Init() {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return Status::FromErrno(errno, "eventfd");
  wake_fd_ = wake_fd;
  // One entry more for the wake-up. The completion queue has twice as many: it cannot overflow.
  int rc = InitUring(depth_ + 1, &ring_);
  if (rc < 0) return Status::FromErrno(-rc, "io_uring_setup");
  rc = TryWorker(&ring_);
  if (rc < 0) {
    io_uring_queue_exit(&ring_);
    if (rc == -ECANCELED) return {StatusCode::kResourceExhausted, "its thread is refused"};
    return Status::FromErrno(-rc, "a first operation");
  }
  // Both are courtesies; kernels that lack them do without.
  unsigned workers[2] = {std::min(depth_, kWorkersMax), 1};
  io_uring_register_iowq_max_workers(&ring_, workers);
  io_uring_ring_dontfork(&ring_);
  return {};
}

void UringRing::Run() {
  Status status = Init();
  const bool ok = status.ok();
  {
    MutexLock lock(mutex_);
    started_ = true;
    ended_ = !ok;
    start_status_ = std::move(status);
    started_changed_.NotifyAll();
  }
  if (!ok) return;
  current_ring = this;
  Loop();
  current_ring = nullptr;
  io_uring_queue_exit(&ring_);
}

bool UringRing::Offer(IoRequest* request) {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (ended_) return false;
    load_.fetch_add(1, std::memory_order_relaxed);
    in_flight_.fetch_add(1, std::memory_order_relaxed);
    offered_.push_back(request);
    wake = std::exchange(asleep_, false);
  }
  if (wake) eventfd_write(wake_fd_, 1);
  return true;
}

void UringRing::Stop() {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    wake = std::exchange(asleep_, false);
  }
  if (wake) eventfd_write(wake_fd_, 1);
}

// The device is given new work before the callbacks of what it finished run: they verify what was
// read, 100 us for 2 MiB, and the device need not wait for that.
void UringRing::Loop() {
  for (;;) {
    TakeOffered();
    Prepare();
    bool sleep = false;
    if (finished_.empty()) {
      const Rest rest = TryToRest();
      if (rest == Rest::kEnd) return;
      sleep = rest == Rest::kSleep;
    }
    Enter(sleep);
    Reap();
    TakeOffered();
    Prepare();
    Enter(/*sleep=*/false);
    RunCallbacks();
  }
}

// After kSleep whoever offers something signals the event fd.
UringRing::Rest UringRing::TryToRest() {
  MutexLock lock(mutex_);
  if (!offered_.empty()) return Rest::kGoOn;
  if (stop_ && on_device_ == 0 && again_.empty()) {
    ended_ = true;
    return Rest::kEnd;
  }
  asleep_ = true;
  return Rest::kSleep;
}

void UringRing::TakeOffered() {
  MutexLock lock(mutex_);
  asleep_ = false;
  if (offered_.empty()) return;
  if (pending_first_ == pending_.size()) {
    pending_.clear();
    pending_first_ = 0;
    pending_.swap(offered_);
    return;
  }
  pending_.insert(pending_.end(), offered_.begin(), offered_.end());
  offered_.clear();
}

void UringRing::Prepare() {
  ArmWake();
  while (!again_.empty()) {
    const uint32_t index = again_.back();
    again_.pop_back();
    PrepareSlot(index);
  }
  while (pending_first_ < pending_.size() && !free_slots_.empty()) {
    const uint32_t index = free_slots_.back();
    free_slots_.pop_back();
    slots_[index].transfer.Start(pending_[pending_first_++], limits_);
    PrepareSlot(index);
  }
}

void UringRing::PrepareSlot(uint32_t index) {
  Slot& slot = slots_[index];
  IoTransfer& transfer = slot.transfer;
  while (poison_ != 0 && !transfer.finished()) transfer.Complete(-poison_);
  if (transfer.finished()) return Finish(index);
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  HF_CHECK(sqe != nullptr);  // entries >= depth_ + 1
  const IoKind kind = transfer.request()->kind;
  if (kind == IoKind::kSync) {
    io_uring_prep_fsync(sqe, fd_, IORING_FSYNC_DATASYNC);
  } else {
    const auto pieces = transfer.NextPieces();
    const auto count = static_cast<unsigned>(pieces.size());
    const uint64_t offset = transfer.offset_bytes();
    if (kind == IoKind::kRead) {
      io_uring_prep_readv(sqe, fd_, pieces.data(), count, offset);
    } else {
      io_uring_prep_writev(sqe, fd_, pieces.data(), count, offset);
    }
  }
  if (transfer.asked_to_wait()) sqe->flags |= IOSQE_ASYNC;
  io_uring_sqe_set_data64(sqe, TagOf(index, slot.generation));
  slot.on_device = true;
  ++on_device_;
}

void UringRing::ArmWake() {
  if (wake_armed_ || poison_ != 0) return;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return;  // then something is under way that ends the next sleep
  io_uring_prep_poll_add(sqe, wake_fd_, POLLIN);
  io_uring_sqe_set_data64(sqe, kWakeTag);
  wake_armed_ = true;
}

void UringRing::DrainWake() const {
  eventfd_t ignored = 0;
  eventfd_read(wake_fd_, &ignored);
}

void UringRing::Enter(bool sleep) {
  if (poison_ != 0) {
    // The kernel still owns what it took; all that is left is to look for its completions.
    pollfd wake{.fd = wake_fd_, .events = POLLIN, .revents = 0};
    if (sleep && poll(&wake, 1, kPoisonedPollMs) > 0) DrainWake();
    if (on_device_ > 0) io_uring_get_events(&ring_);
    return;
  }
  int rc = 0;
  if (sleep) {
    io_uring_cqe* cqe = nullptr;
    __kernel_timespec timeout = kSleepMax;
    rc = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &timeout, nullptr);
  } else if (io_uring_sq_ready(&ring_) > 0) {
    rc = io_uring_submit(&ring_);
  }
  if (rc >= 0 || rc == -ETIME) {
    enter_failures_ = 0;
  } else {
    EnterFailed(-rc);
  }
}

// Entries that were not taken stay prepared, and their slots in use, until a later call takes them.
void UringRing::EnterFailed(int error) {
  const bool passing = error == EAGAIN || error == EBUSY || error == EINTR || error == ENOMEM;
  if (passing && ++enter_failures_ < kEnterFailuresMax) {
    sched_yield();
    return;
  }
  Poison(error);
}

// The ring takes no more entries. Those that the kernel has not seen fail here, and become no-ops,
// so that nothing can send them into reused memory; those that it has are waited for.
void UringRing::Poison(int error) {
  poison_ = error;
  const unsigned left = io_uring_sq_ready(&ring_);
  for (unsigned i = ring_.sq.sqe_tail - left; i != ring_.sq.sqe_tail; ++i) {
    io_uring_sqe* sqe = &ring_.sq.sqes[i & ring_.sq.ring_mask];
    const uint64_t tag = sqe->user_data;
    io_uring_prep_nop(sqe);
    sqe->flags = 0;
    io_uring_sqe_set_data64(sqe, kNothingTag);
    if (tag != kWakeTag && tag != kNothingTag) ReapSlot(tag, -error);
  }
}

void UringRing::Reap() {
  io_uring_cqe* cqe = nullptr;
  unsigned head = 0;
  unsigned count = 0;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    ++count;
    if (cqe->user_data == kWakeTag) {
      DrainWake();
      wake_armed_ = false;
    } else if (cqe->user_data != kNothingTag) {
      ReapSlot(cqe->user_data, cqe->res);
    }
  }
  io_uring_cq_advance(&ring_, count);
}

void UringRing::ReapSlot(uint64_t user_data, int result) {
  const auto index = static_cast<uint32_t>(user_data);
  if (index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (!slot.on_device || user_data != TagOf(index, slot.generation)) return;
  slot.on_device = false;
  ++slot.generation;
  --on_device_;
  slot.transfer.Complete(result);
  if (slot.transfer.finished()) {
    Finish(index);
  } else {
    again_.push_back(index);
  }
}

void UringRing::Finish(uint32_t index) {
  const IoTransfer& transfer = slots_[index].transfer;
  transfer.request()->error = transfer.error();
  finished_.push_back(transfer.request());
  free_slots_.push_back(index);
}

void UringRing::RunCallbacks() {
  running_.swap(finished_);
  uint64_t verified_bytes = 0;
  for (IoRequest* request : running_) {
    for (const Extent& piece : request->pieces) verified_bytes += piece.bytes;
    in_flight_.fetch_sub(1, std::memory_order_release);
    request->done(request);
    load_.fetch_sub(1, std::memory_order_relaxed);
    if (verified_bytes < kSendEveryBytes) continue;
    verified_bytes = 0;
    TakeOffered();
    Prepare();
    Enter(/*sleep=*/false);
  }
  running_.clear();
}

}  // namespace holdfast::internal
