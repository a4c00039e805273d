// VerifyWorkers: a few threads that check what an asynchronous device has copied up. They start
// with the first job: a store over the host device never has one. Where the system has no thread,
// whoever adds a job runs it.
//
// Threading: Add is thread-safe. Memory: a job's op is the workers' until `verify` got it.
#pragma once

#include <deque>
#include <functional>

#include "kvstore/mutex.h"
#include "kvstore/tiers.h"

namespace holdfast::internal {

class VerifyWorkers {
 public:
  // `verify` runs on a worker, once for each job.
  VerifyWorkers(StartThread start_thread, uint32_t threads, std::function<void(FrameOp*)> verify);
  ~VerifyWorkers();  // runs what is queued, then ends the threads
  VerifyWorkers(const VerifyWorkers&) = delete;
  VerifyWorkers& operator=(const VerifyWorkers&) = delete;

  void Add(FrameOp* op);

 private:
  void Run();

  const StartThread start_thread_;
  const uint32_t threads_;
  const std::function<void(FrameOp*)> verify_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<FrameOp*> jobs_ HF_GUARDED_BY(mutex_);
  bool ending_ HF_GUARDED_BY(mutex_) = false;
  ThreadGroup running_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::internal
