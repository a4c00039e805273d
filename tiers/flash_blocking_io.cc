#include <vector>

#include "tiers/flash_open.h"

namespace holdfast::internal {

void BlockingIo::Run(std::span<Job> jobs) {
  std::vector<IoRequest> requests(jobs.size());
  {
    MutexLock lock(mutex_);
    left_ = jobs.size();
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    IoRequest& request = requests[i];
    request.kind = jobs[i].kind;
    request.offset_bytes = jobs[i].offset_bytes;
    if (jobs[i].piece.bytes > 0) request.pieces = {&jobs[i].piece, 1};
    request.done = OnDone;
    request.context = this;
    engine_.Submit(&request);
  }
  for (bool ended = jobs.empty(); !ended;) {
    engine_.Poll();
    {
      MutexLock lock(mutex_);
      if (left_ > 0 && !idle_) changed_.Wait(mutex_);
      ended = left_ == 0;
    }
    if (!ended && idle_) idle_();
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].error = requests[i].error;
    if (jobs[i].error != 0) {
      ++faults_;
      last_errno_ = jobs[i].error;
    } else if (jobs[i].kind == IoKind::kRead) {
      read_bytes_ += jobs[i].piece.bytes;
    } else {
      written_bytes_ += jobs[i].piece.bytes;
    }
  }
}

int BlockingIo::Run(Job job) {
  Run(std::span(&job, 1));
  return job.error;
}

void BlockingIo::OnDone(IoRequest* request) {
  auto* io = static_cast<BlockingIo*>(request->context);
  MutexLock lock(io->mutex_);
  if (--io->left_ == 0) io->changed_.NotifyAll();
}

}  // namespace holdfast::internal
