#include "kvstore/completion_queue.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "kvstore/check.h"

namespace holdfast {
namespace {
// One sleep; keeps until - now in range whatever `until` is.
constexpr Duration kSleepMax = std::chrono::hours(1);
}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::Create(size_t capacity, Clock& clock) {
  if (capacity == 0 || capacity > kCapacityMax) {
    return Status(StatusCode::kInvalidArgument, "completion queue: capacity " +
                                                    std::to_string(capacity) + "; 1 to " +
                                                    std::to_string(kCapacityMax));
  }
  std::unique_ptr<CompletionQueue> queue;
  try {
    queue.reset(new CompletionQueue(capacity, clock));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted,
                  "completion queue: no memory for a capacity of " + std::to_string(capacity));
  }
  queue->event_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (queue->event_fd_ < 0) return Status::FromErrno(errno, "completion queue: eventfd");
  return queue;
}

CompletionQueue::CompletionQueue(size_t capacity, Clock& clock)
    : capacity_(capacity), clock_(clock), ring_(capacity) {}

CompletionQueue::~CompletionQueue() {
  if (event_fd_ >= 0) ::close(event_fd_);
}

size_t CompletionQueue::Poll(std::span<Completion> out, Instant until) {
  if (out.empty()) return 0;
  // Old leases end here, not under the mutex: their end takes the store's lock, which pushers hold.
  for (Completion& completion : out) completion.views = Lease();
  MutexLock lock(mutex_);
  while (waiting_ == 0) {
    if (until == Instant::min()) return 0;
    Duration sleep = kSleepMax;
    if (until != Instant::max()) {
      const Instant now = clock_.Now();
      if (now >= until) return 0;
      sleep = std::min(sleep, until - now);
    }
    sleeping_ = true;
    arrived_.WaitFor(mutex_, sleep);
    sleeping_ = false;
  }
  return Take(out);
}

Status CompletionQueue::Post(uint64_t tag) {
  MutexLock lock(mutex_);
  if (waiting_ + reserved_ >= capacity_) {
    return Status(StatusCode::kResourceExhausted,
                  "completion queue: all " + std::to_string(capacity_) + " places are taken");
  }
  Append({.tag = tag});
  return {};
}

bool CompletionQueue::Reserve(size_t places) noexcept {
  MutexLock lock(mutex_);
  if (places > capacity_ - waiting_ - reserved_) return false;
  reserved_ += places;
  return true;
}

void CompletionQueue::Unreserve(size_t places) noexcept {
  MutexLock lock(mutex_);
  HF_CHECK(places <= reserved_);
  reserved_ -= places;
}

void CompletionQueue::Push(Completion&& completion) noexcept {
  MutexLock lock(mutex_);
  HF_CHECK(reserved_ > 0);
  reserved_ -= 1;
  Append(std::move(completion));
}

void CompletionQueue::Append(Completion&& completion) noexcept {
  size_t place = first_ + waiting_;
  if (place >= capacity_) place -= capacity_;
  ring_[place] = std::move(completion);
  if (waiting_++ > 0) return;  // the fd is readable already, and the poller awake
  // Cannot fail: the counter is 0, and takes 2^64 - 2.
  const uint64_t one = 1;
  HF_CHECK(::write(event_fd_, &one, sizeof(one)) == sizeof(one));
  if (sleeping_) arrived_.NotifyOne();
}

size_t CompletionQueue::Take(std::span<Completion> out) noexcept {
  const size_t n = std::min(out.size(), waiting_);
  for (size_t i = 0; i < n; ++i) {
    out[i] = std::move(ring_[first_]);
    first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
  }
  waiting_ -= n;
  if (waiting_ == 0) {
    // A user may have read it in spite of the header: then it is drained as well.
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_fd_, &count, sizeof(count));
  }
  return n;
}

}  // namespace holdfast
