// JobQueue: a few threads that copy and checksum what neither a caller nor the driver may. Without
// threads the owner runs the jobs itself.
//
// Threading: thread-safe. Memory: a job belongs to the queue until it has run; Stop runs what is
// left.
#pragma once

#include <deque>
#include <functional>

#include "kvstore/environment.h"
#include "kvstore/mutex.h"

namespace holdfast::internal {

class JobQueue {
 public:
  JobQueue() = default;
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;
  ~JobQueue() { Stop(); }
  // kResourceExhausted: one is refused. Without a Start: RunOne by the owner.
  Status Start(uint32_t threads, const StartThread& start_thread);
  void Stop() HF_EXCLUDES(mutex_);
  void Push(std::function<void()> job) HF_EXCLUDES(mutex_);
  bool RunOne() HF_EXCLUDES(mutex_);  // false: nothing there

 private:
  void Main() HF_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar arrived_;
  std::deque<std::function<void()>> jobs_ HF_GUARDED_BY(mutex_);
  bool stop_ HF_GUARDED_BY(mutex_) = false;
  ThreadGroup threads_;
};

}  // namespace holdfast::internal
