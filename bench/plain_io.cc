#include "bench/plain_io.h"

#include <array>
#include <cerrno>
#include <numeric>
#include <random>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

namespace holdfast::bench {
namespace {

constexpr uint64_t kSyncBytes = 256ull << 20;

class Ring {
 public:
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (ready_) ::io_uring_queue_exit(&ring_);
  }
  Status Init(uint32_t entries) {
    int result = -EINVAL;
    for (const unsigned flags : {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0u}) {
      result = ::io_uring_queue_init(entries, &ring_, flags);
      if (result != -EINVAL) break;  // kernels before 6.1 know no such flags
    }
    ready_ = result == 0;
    return ready_ ? Status() : Status::FromErrno(-result, "plain loop: cannot make a ring");
  }
  io_uring* get() noexcept { return &ring_; }

 private:
  io_uring ring_{};
  bool ready_ = false;
};

// Headers of frames, one page each, in memory of the loop's own.
struct Page {
  alignas(kPageBytes) std::array<std::byte, kPageBytes> bytes;
};

// What is in flight of one call.
class Transfers {
 public:
  Transfers(int fd, const PlainRun& run, bool write)
      : fd_(fd),
        run_(run),
        write_(write),
        slots_(run.memory.slots()),
        headers_(run.header ? run.memory.slots() : 0),
        idle_(run.memory.slots()) {
    std::iota(idle_.begin(), idle_.end(), size_t{0});
  }
  Status Init() { return ring_.Init(run_.in_flight); }
  uint32_t running() const noexcept { return running_; }

  void Prepare(uint64_t offset) {
    const size_t slot = idle_[idle_first_++ % idle_.size()];
    Slot& s = slots_[slot];
    unsigned pieces = 0;
    if (run_.header) s.pieces[pieces++] = {&headers_[slot], kPageBytes};
    s.pieces[pieces++] = {run_.memory.slot(slot).data(), run_.memory.payload_bytes()};
    io_uring_sqe* const entry = ::io_uring_get_sqe(ring_.get());
    if (write_) {
      ::io_uring_prep_writev(entry, fd_, s.pieces.data(), pieces, offset);
    } else {
      ::io_uring_prep_readv(entry, fd_, s.pieces.data(), pieces, offset);
    }
    ::io_uring_sqe_set_data64(entry, slot);
    s.started = Clock::System().Now();
    ++running_;
  }

  // Waits for at least one.
  Status Finish(Sample& sample) {
    const int submitted = ::io_uring_submit_and_wait(ring_.get(), 1);
    if (submitted < 0 && submitted != -EINTR) {
      return Status::FromErrno(-submitted, "plain loop: submit");
    }
    const Instant now = Clock::System().Now();
    const uint64_t payload_bytes = run_.memory.payload_bytes();
    io_uring_cqe* entry = nullptr;
    while (::io_uring_peek_cqe(ring_.get(), &entry) == 0) {
      const size_t slot = ::io_uring_cqe_get_data64(entry);
      const int moved = entry->res;
      ::io_uring_cqe_seen(ring_.get(), entry);
      if (moved < 0) return Status::FromErrno(-moved, "plain loop: a transfer failed");
      if (static_cast<uint64_t>(moved) != payload_bytes + (run_.header ? kPageBytes : 0)) {
        return Status::FromErrno(EIO, "plain loop: a transfer was short");
      }
      sample.latencies.push_back(now - slots_[slot].started);
      sample.bytes += payload_bytes;
      idle_[idle_end_++ % idle_.size()] = slot;
      --running_;
    }
    return {};
  }

 private:
  struct Slot {
    std::array<iovec, 2> pieces{};
    Instant started{};
  };

  const int fd_;
  const PlainRun& run_;
  const bool write_;
  std::vector<Slot> slots_;
  std::vector<Page> headers_;
  std::vector<size_t> idle_;  // a circle, longest idle first
  size_t idle_first_ = 0, idle_end_ = 0;
  uint32_t running_ = 0;
  Ring ring_;  // last: it ends, and with it what is in flight, before the memory
};

}  // namespace

Result<std::unique_ptr<PlainIo>> PlainIo::Open(const std::string& path, uint64_t bytes,
                                               bool create) {
  const int flags = O_RDWR | O_DIRECT | O_CLOEXEC | (create ? O_CREAT : 0);
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd < 0) return Status::FromErrno(errno, "plain loop: cannot open " + path);
  std::unique_ptr<PlainIo> io(new PlainIo(fd, bytes));
  if (create && ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    return Status::FromErrno(errno, "plain loop: cannot allocate " + path);
  }
  return io;
}

PlainIo::~PlainIo() { ::close(fd_); }

Result<Sample> PlainIo::Read(const PlainRun& run) { return Run(run, /*write=*/false); }

Result<Sample> PlainIo::Write(const PlainRun& run) { return Run(run, /*write=*/true); }

Result<Sample> PlainIo::Run(const PlainRun& run, bool write) {
  const uint64_t payload_bytes = run.memory.payload_bytes();
  const uint64_t stride = FrameBytes(payload_bytes);
  const uint64_t places = bytes_ / stride;
  Transfers transfers(fd_, run, write);
  HF_RETURN_IF_ERROR(transfers.Init());
  std::mt19937_64 random(run.seed);
  Sample sample;
  uint64_t submitted_bytes = 0, unsynced_bytes = 0;
  const Meter meter;
  for (;;) {
    while (transfers.running() < run.in_flight && submitted_bytes < run.bytes_max &&
           unsynced_bytes < kSyncBytes && meter.elapsed() < run.time_max) {
      transfers.Prepare((write ? next_write_++ % places : random() % places) * stride);
      submitted_bytes += payload_bytes;
      if (write) unsynced_bytes += payload_bytes;
    }
    if (transfers.running() > 0) {
      HF_RETURN_IF_ERROR(transfers.Finish(sample));
      continue;
    }
    if (unsynced_bytes == 0) break;
    if (::fdatasync(fd_) != 0) return Status::FromErrno(errno, "plain loop: fdatasync");
    unsynced_bytes = 0;
  }
  meter.Stop(sample);
  return sample;
}

}  // namespace holdfast::bench
