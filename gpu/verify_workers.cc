#include "gpu/verify_workers.h"

#include <utility>

namespace holdfast::internal {

VerifyWorkers::VerifyWorkers(StartThread start_thread, uint32_t threads,
                             std::function<void(FrameOp*)> verify)
    : start_thread_(std::move(start_thread)), threads_(threads), verify_(std::move(verify)) {}

VerifyWorkers::~VerifyWorkers() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  running_.Join();
}

void VerifyWorkers::Add(FrameOp* op) {
  {
    MutexLock lock(mutex_);
    // Threads are few and start once, so the mutex may be held: nobody but them waits for it.
    const uint32_t missing = running_.empty() ? threads_ : 0;
    for (uint32_t i = 0; i < missing; ++i) {
      running_.Start(start_thread_, "hf-worker-" + std::to_string(i), [this] { Run(); })
          .IgnoreError("this thread verifies where there is none");
    }
    if (!running_.empty()) {
      jobs_.push_back(op);
      changed_.NotifyOne();
      return;
    }
  }
  verify_(op);
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
