#include "kvstore/internal/job_queue.h"

#include <string>
#include <utility>

namespace holdfast::internal {

bool JobQueue::Start(uint32_t threads, const StartThread& start_thread) {
  for (uint32_t i = 0; i < threads; ++i) {
    auto join = start_thread("hf-worker-" + std::to_string(i), [this] { Main(); });
    if (!join) return false;
    joins_.push_back(std::move(join));
  }
  return true;
}

void JobQueue::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  arrived_.NotifyAll();
  for (const auto& join : joins_) join();
  joins_.clear();
  while (RunOne()) {
  }
}

void JobQueue::Push(std::function<void()> job) {
  {
    MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  arrived_.NotifyOne();
}

bool JobQueue::RunOne() {
  std::function<void()> job;
  {
    MutexLock lock(mutex_);
    if (jobs_.empty()) return false;
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  job();
  return true;
}

void JobQueue::Main() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stop_) arrived_.Wait(mutex_);
      if (jobs_.empty()) return;
    }
    RunOne();
  }
}

}  // namespace holdfast::internal
