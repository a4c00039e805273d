#include "gpu/verify_workers.h"

#include <utility>

namespace holdfast::internal {

VerifyWorkers::VerifyWorkers(StartThread start_thread, uint32_t threads,
                             std::function<void(FrameOp*)> verify)
    : start_thread_(std::move(start_thread)), threads_(threads), verify_(std::move(verify)) {}

VerifyWorkers::~VerifyWorkers() {
  std::vector<std::function<void()>> joins;
  {
    MutexLock lock(mutex_);
    ending_ = true;
    joins.swap(joins_);
  }
  changed_.NotifyAll();
  for (const auto& join : joins) join();
}

void VerifyWorkers::Add(FrameOp* op) {
  MutexLock lock(mutex_);
  jobs_.push_back(op);
  // Threads are few and start once, so the mutex may be held: nobody but them waits for it.
  if (joins_.empty()) {
    for (uint32_t i = 0; i < threads_; ++i) {
      joins_.push_back(start_thread_("hf-worker-" + std::to_string(i), [this] { Run(); }));
    }
  }
  changed_.NotifyOne();
}

void VerifyWorkers::Run() {
  for (;;) {
    FrameOp* op = nullptr;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !ending_) changed_.Wait(mutex_);
      if (jobs_.empty()) return;
      op = jobs_.front();
      jobs_.pop_front();
    }
    verify_(op);
  }
}

}  // namespace holdfast::internal
