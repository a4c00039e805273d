// CompletionQueue: where operations of a store report their end. A caller makes as many as it has
// loops; each has an event fd for epoll or io_uring.
//
// Usage:
//   auto queue = *CompletionQueue::Create(1024);
//   store->SubmitFetch(blocks, target, options, queue.get(), /*tag=*/7, results);
//   std::array<Completion, 16> done;
//   size_t n = queue->Poll(done, Instant::max());
//
// Threading: anyone posts, one thread at a time polls. Memory: `capacity` completions, allocated by
// Create. A queue outlives the operations that name it.
// Errors: a full queue refuses at submit and at Post; what was accepted is always delivered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/lease.h"
#include "kvstore/mutex.h"
#include "kvstore/status.h"

namespace holdfast {

using OpId = uint64_t;  // of a submitted operation; 0: none

struct Completion {
  uint64_t tag = 0;    // the caller's
  OpId op = 0;         // 0: posted
  uint32_t block = 0;  // FetchOptions::each: which one
  uint32_t done = 0;   // blocks of it that ended as asked
  Duration took{};     // from submit, run clock
  Lease views{};       // of an arena fetch
};

class CompletionQueue {
 public:
  static constexpr size_t kCapacityMax = 1u << 24;

  // `clock` decides when a Poll's time is up; it outlives the queue. Under a clock that does not
  // run by itself only a completion wakes a Poll.
  // kInvalidArgument: capacity 0 or above kCapacityMax. kResourceExhausted: no memory for it.
  // kIoError: no event fd to be had.
  static Result<std::unique_ptr<CompletionQueue>> Create(size_t capacity,
                                                         Clock& clock = Clock::System());
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Readable while completions wait. Only to be waited on: Poll reads it. With edge triggering poll
  // until fewer come than asked for. Owned by the queue.
  int event_fd() const noexcept { return event_fd_; }

  // Moves up to out.size() completions out, oldest first; waits for the first of them until
  // `until`. Instant::min(): does not wait; Instant::max(): for ever. Leases left in `out` end.
  size_t Poll(std::span<Completion> out, Instant until);

  // A completion of the caller's own. kResourceExhausted: full; poll first.
  Status Post(uint64_t tag);

  // For the store: places are taken at submit, so that Push can neither fail nor wait.
  bool Reserve(size_t places) noexcept;
  void Unreserve(size_t places) noexcept;
  void Push(Completion&& completion) noexcept;  // uses one reserved place

 private:
  CompletionQueue(size_t capacity, Clock& clock);
  void Append(Completion&& completion) noexcept HF_REQUIRES(mutex_);
  size_t Take(std::span<Completion> out) noexcept HF_REQUIRES(mutex_);

  const size_t capacity_;
  int event_fd_ = -1;
  Clock& clock_;
  Mutex mutex_;
  CondVar arrived_;
  std::vector<Completion> ring_ HF_GUARDED_BY(mutex_);
  size_t first_ HF_GUARDED_BY(mutex_) = 0;
  size_t waiting_ HF_GUARDED_BY(mutex_) = 0;   // completions
  size_t reserved_ HF_GUARDED_BY(mutex_) = 0;  // places
  bool sleeping_ HF_GUARDED_BY(mutex_) = false;
};

}  // namespace holdfast
