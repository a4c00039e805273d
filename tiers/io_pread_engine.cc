// The engine for where io_uring is not to be had: a bounded pool of threads in preadv2/pwritev2.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <string>
#include <utility>

#include <sys/uio.h>
#include <unistd.h>

#include "kvstore/mutex.h"
#include "kvstore/threads.h"
#include "tiers/io_engines.h"
#include "tiers/io_transfer.h"

namespace holdfast::internal {
namespace {

constexpr uint32_t kDepthPerThreads = 8;  // IoEngineOptions::threads are per this much depth

class PreadEngine final : public IoEngine {
 public:
  explicit PreadEngine(std::shared_ptr<IoFile> file)
      : file_(std::move(file)), limits_{file_->capacity_bytes(), file_->direct()} {}
  PreadEngine(const PreadEngine&) = delete;
  PreadEngine& operator=(const PreadEngine&) = delete;

  ~PreadEngine() override {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.NotifyAll();
    threads_.Join();
  }

  Status Start(const IoEngineOptions& options) {
    const uint32_t threads =
        options.threads * ((options.depth + kDepthPerThreads - 1) / kDepthPerThreads);
    for (uint32_t i = 0; i < std::min(threads, options.depth); ++i) {
      HF_RETURN_IF_ERROR(
          threads_.Start(options.start_thread, "hf-pread-" + std::to_string(i), [this] { Run(); }));
    }
    return {};
  }

  std::string_view name() const noexcept override { return "pread"; }

  void Submit(IoRequest* request) override {
    in_flight_.fetch_add(1, std::memory_order_relaxed);
    {
      MutexLock lock(mutex_);
      queue_.push_back(request);
    }
    changed_.NotifyOne();
  }

  size_t Poll() override { return 0; }
  size_t in_flight() const noexcept override { return in_flight_.load(std::memory_order_acquire); }
  uint64_t capacity_bytes() const noexcept override { return limits_.capacity_bytes; }
  size_t pieces_max() const noexcept override { return kIoPiecesMax; }
  bool direct() const noexcept override { return limits_.direct; }

 private:
  void Run() {
    IoTransfer transfer;
    while (IoRequest* request = Next()) {
      transfer.Start(request, limits_);
      while (!transfer.finished()) transfer.Complete(Operate(&transfer));
      request->error = transfer.error();
      in_flight_.fetch_sub(1, std::memory_order_release);
      request->done(request);
    }
  }

  // Null at the end. What a callback submits is taken by its own thread at the latest.
  IoRequest* Next() {
    MutexLock lock(mutex_);
    while (queue_.empty() && !stop_) changed_.Wait(mutex_);
    if (queue_.empty()) return nullptr;
    IoRequest* request = queue_.front();
    queue_.pop_front();
    return request;
  }

  int64_t Operate(IoTransfer* transfer) const {
    const int fd = file_->fd();
    const IoKind kind = transfer->request()->kind;
    int64_t result = 0;
    if (kind == IoKind::kSync) {
      result = fdatasync(fd);
    } else {
      const auto pieces = transfer->NextPieces();
      const auto offset = static_cast<off_t>(transfer->offset_bytes());
      const auto count = static_cast<int>(pieces.size());
      result = kind == IoKind::kRead ? preadv2(fd, pieces.data(), count, offset, 0)
                                     : pwritev2(fd, pieces.data(), count, offset, 0);
    }
    return result < 0 ? -errno : result;
  }

  const std::shared_ptr<IoFile> file_;
  const IoLimits limits_;
  std::atomic<size_t> in_flight_{0};
  Mutex mutex_;
  CondVar changed_;
  std::deque<IoRequest*> queue_ HF_GUARDED_BY(mutex_);
  bool stop_ HF_GUARDED_BY(mutex_) = false;
  ThreadGroup threads_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> CreatePreadEngine(std::shared_ptr<IoFile> file,
                                                    const IoEngineOptions& options) {
  auto engine = std::make_unique<PreadEngine>(std::move(file));
  HF_RETURN_IF_ERROR(engine->Start(options));
  return std::unique_ptr<IoEngine>(std::move(engine));
}

}  // namespace holdfast::internal
