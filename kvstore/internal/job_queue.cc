#include "kvstore/internal/job_queue.h"

#include <string>
#include <utility>

namespace holdfast::internal {

Status JobQueue::Start(uint32_t threads, const StartThread& start_thread) {
  for (uint32_t i = 0; i < threads; ++i) {
    HF_RETURN_IF_ERROR(
        threads_.Start(start_thread, "hf-worker-" + std::to_string(i), [this] { Main(); }));
  }
  return {};
}

void JobQueue::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  arrived_.NotifyAll();
  threads_.Join();
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
