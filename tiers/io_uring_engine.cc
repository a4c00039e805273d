// The engine over io_uring: a few rings, each request on the one that has least to do.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <liburing.h>

#include "kvstore/check.h"
#include "kvstore/threads.h"
#include "kvstore/types.h"
#include "tiers/io_engines.h"
#include "tiers/io_transfer.h"
#include "tiers/io_uring_ring.h"

namespace holdfast::internal {
namespace {

Status NotToBeHad(std::string_view why) {
  return {StatusCode::kUnimplemented, "io_uring is not to be had: " + std::string(why)};
}

std::string Failed(std::string_view what, int error) {
  return std::string(what) + ": " + std::generic_category().message(error);
}

int ReadThroughRing(io_uring* ring, int fd, std::byte* page) {
  io_uring_sqe* sqe = io_uring_get_sqe(ring);
  io_uring_prep_read(sqe, fd, page, kPageBytes, 0);
  const int rc = io_uring_submit_and_wait(ring, 1);
  if (rc < 0) return rc;
  io_uring_cqe* cqe = nullptr;
  const int peeked = io_uring_peek_cqe(ring, &cqe);
  if (peeked < 0) return peeked;
  const int result = cqe->res;
  io_uring_cqe_seen(ring, cqe);
  return result;
}

// A tiny ring that reads the first page of the file: what is forbidden, missing or wrong shows here
// and not at the first request.
Status ProbeUring(const IoFile& file) {
  alignas(kPageBytes) std::byte by_pread[kPageBytes];
  alignas(kPageBytes) std::byte by_ring[kPageBytes];
  HF_RETURN_IF_ERROR(file.ReadFirstPage(by_pread));
  std::memset(by_ring, 0xa5, kPageBytes);
  io_uring ring{};
  int rc = InitUring(2, &ring);
  if (rc < 0) return NotToBeHad(Failed("io_uring_setup", -rc));
  rc = ReadThroughRing(&ring, file.fd(), by_ring);
  io_uring_queue_exit(&ring);
  if (rc < 0) return NotToBeHad(Failed("a first read", -rc));
  if (rc != static_cast<int>(kPageBytes) || std::memcmp(by_pread, by_ring, kPageBytes) != 0) {
    return NotToBeHad("it reads other bytes than pread");
  }
  return {};
}

class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(std::shared_ptr<IoFile> file) : file_(std::move(file)) {}
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  ~UringEngine() override {
    for (const auto& ring : rings_) ring->Stop();
    threads_.Join();
  }

  Status Start(const IoEngineOptions& options) {
    for (uint32_t i = 0; i < options.threads; ++i) {
      const uint32_t depth =
          options.depth / options.threads + (i < options.depth % options.threads ? 1 : 0);
      rings_.push_back(std::make_unique<UringRing>(*file_, depth));
      HF_RETURN_IF_ERROR(threads_.Start(options.start_thread, "hf-ring-" + std::to_string(i),
                                        [ring = rings_.back().get()] { ring->Run(); }));
    }
    Status first;
    for (const auto& ring : rings_) {
      if (Status status = ring->WaitUntilStarted(); !status.ok() && first.ok()) first = status;
    }
    return first.ok() ? Status() : NotToBeHad(first.message());
  }

  std::string_view name() const noexcept override { return "uring"; }

  void Submit(IoRequest* request) override {
    UringRing* least = rings_.front().get();
    size_t least_load = least->load();
    for (const auto& ring : rings_) {
      const size_t load = ring->load();
      if (load >= least_load) continue;
      least = ring.get();
      least_load = load;
    }
    if (least->Offer(request)) return;
    // The engine is being destroyed and this is a callback's: its own ring still runs.
    UringRing* own = UringRing::Current();
    HF_CHECK(std::any_of(rings_.begin(), rings_.end(),
                         [own](const auto& ring) { return ring.get() == own; }));
    HF_CHECK(own->Offer(request));
  }

  size_t Poll() override { return 0; }

  size_t in_flight() const noexcept override {
    size_t sum = 0;
    for (const auto& ring : rings_) sum += ring->in_flight();
    return sum;
  }

  uint64_t capacity_bytes() const noexcept override { return file_->capacity_bytes(); }
  size_t pieces_max() const noexcept override { return kIoPiecesMax; }
  bool direct() const noexcept override { return file_->direct(); }

 private:
  const std::shared_ptr<IoFile> file_;
  std::vector<std::unique_ptr<UringRing>> rings_;
  ThreadGroup threads_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> CreateUringEngine(std::shared_ptr<IoFile> file,
                                                    const IoEngineOptions& options) {
  HF_RETURN_IF_ERROR(ProbeUring(*file));
  auto engine = std::make_unique<UringEngine>(std::move(file));
  HF_RETURN_IF_ERROR(engine->Start(options));
  return std::unique_ptr<IoEngine>(std::move(engine));
}

}  // namespace holdfast::internal
