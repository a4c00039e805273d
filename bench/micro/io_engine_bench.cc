// Vectored reads of {header, payload} through each I/O engine, every header checked, with a plain
// io_uring loop over the same file and memory as "plain". The file lies in HOLDFAST_BENCH_DIR or
// the current directory; it is small, so that the device's cache may answer: compare the rows, not
// disks.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kvstore/environment.h"
#include "kvstore/io_engine.h"

namespace holdfast {
namespace {

constexpr uint64_t kFileBytes = 64u << 20;
constexpr uint64_t kHugePageBytes = 2u << 20;
constexpr uint64_t kMemoryBytes = 80u << 20;

std::string FilePath() {
  const char* directory = std::getenv("HOLDFAST_BENCH_DIR");  // NOLINT(concurrency-mt-unsafe)
  return std::string(directory != nullptr ? directory : ".") + "/io_engine_bench.data";
}

IoEngineOptions OptionsFor(IoEngineKind kind) {
  return {.path = FilePath(),
          .capacity_bytes = kFileBytes,
          .kind = kind,
          .start_thread = SystemThreads()};
}

// Huge pages, one frame after the other.
class Memory {
 public:
  Memory() {
    void* raw = mmap(nullptr, kMemoryBytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<std::byte*>(raw);
    const uint64_t skip = RoundUp(reinterpret_cast<uintptr_t>(raw), kHugePageBytes) -
                          reinterpret_cast<uintptr_t>(raw);
    data_ = base_ + skip;
    madvise(data_, kMemoryBytes, MADV_HUGEPAGE);
    std::memset(data_, 1, kMemoryBytes);
  }
  ~Memory() { munmap(base_, kMemoryBytes + kHugePageBytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const noexcept { return data_; }

 private:
  std::byte* base_;
  std::byte* data_;
};

// A frame in flight: its header says at which offset it was written.
struct Frame {
  IoRequest request;
  Extent pieces[2];
  std::atomic<bool> done = false;

  void Place(std::byte* memory, uint64_t payload_bytes) {
    pieces[0] = {memory, kPageBytes};
    pieces[1] = {memory + kPageBytes, payload_bytes};
    request.pieces = pieces;
    request.context = this;
    request.done = [](IoRequest* r) {
      auto* frame = static_cast<Frame*>(r->context);
      frame->done.store(true, std::memory_order_release);
      frame->done.notify_one();
    };
  }
  void Submit(IoEngine* engine, IoKind kind, uint64_t offset_bytes) {
    done.store(false, std::memory_order_relaxed);
    request.kind = kind;
    request.offset_bytes = offset_bytes;
    if (kind == IoKind::kWrite) std::memcpy(pieces[0].data, &offset_bytes, sizeof(offset_bytes));
    engine->Submit(&request);
  }
  bool Wait() {
    done.wait(false, std::memory_order_acquire);
    return Good(request.offset_bytes) && request.error == 0;
  }
  bool Good(uint64_t offset_bytes) const {
    uint64_t found = 0;
    std::memcpy(&found, pieces[0].data, sizeof(found));
    return found == offset_bytes;
  }
};

// However a benchmark ends, its file goes.
struct FileRemover {
  FileRemover() = default;
  ~FileRemover() { unlink(FilePath().c_str()); }
  FileRemover(const FileRemover&) = delete;
  FileRemover& operator=(const FileRemover&) = delete;
};

std::unique_ptr<IoEngine> OpenFilled(IoEngineKind kind, const Memory& memory,
                                     uint64_t payload_bytes) {
  auto engine = OpenIoEngine(OptionsFor(kind), nullptr);
  if (!engine.has_value()) return nullptr;
  const uint64_t frame_bytes = FrameBytes(payload_bytes);
  Frame frame;
  frame.Place(memory.data(), payload_bytes);
  for (uint64_t at = 0; at + frame_bytes <= kFileBytes; at += frame_bytes) {
    frame.Submit(engine->get(), IoKind::kWrite, at);
    if (!frame.Wait()) return nullptr;
  }
  return *std::move(engine);
}

void BM_IoEngineRead(benchmark::State& state, IoEngineKind kind) {
  const auto payload_bytes = static_cast<uint64_t>(state.range(0));
  const auto depth = static_cast<size_t>(state.range(1));
  const uint64_t frame_bytes = FrameBytes(payload_bytes);
  const uint64_t frames_in_file = kFileBytes / frame_bytes;
  const FileRemover remover;
  const Memory memory;
  const auto engine = OpenFilled(kind, memory, payload_bytes);
  if (engine == nullptr) {
    state.SkipWithError("the engine does not open here");
    return;
  }
  std::vector<Frame> frames(depth);
  std::mt19937_64 random(1);
  for (size_t i = 0; i < depth; ++i) {
    frames[i].Place(memory.data() + i * frame_bytes, payload_bytes);
    frames[i].Submit(engine.get(), IoKind::kRead, random() % frames_in_file * frame_bytes);
  }
  size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    if (!frames[next].Wait()) state.SkipWithError("wrong bytes");
    frames[next].Submit(engine.get(), IoKind::kRead, random() % frames_in_file * frame_bytes);
    next = (next + 1) % depth;
  }
  for (Frame& frame : frames) frame.Wait();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(frame_bytes));
}

// The machine's own limit: one thread, one ring, nothing else.
class PlainLoop {
 public:
  PlainLoop(const Memory& memory, uint64_t payload_bytes, size_t depth)
      : fd_(open(FilePath().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)),
        frame_bytes_(FrameBytes(payload_bytes)),
        frames_(depth),
        offsets_(depth) {
    ok_ = io_uring_queue_init(64, &ring_,
                              IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) == 0;
    for (size_t i = 0; i < depth && ok_; ++i) {
      frames_[i].Place(memory.data() + i * frame_bytes_, payload_bytes);
      vectors_.push_back(
          {{frames_[i].pieces[0].data, kPageBytes}, {frames_[i].pieces[1].data, payload_bytes}});
    }
  }
  ~PlainLoop() {
    if (ok_) io_uring_queue_exit(&ring_);
    if (fd_ >= 0) close(fd_);
  }
  PlainLoop(const PlainLoop&) = delete;
  PlainLoop& operator=(const PlainLoop&) = delete;

  bool ok() const noexcept { return ok_ && fd_ >= 0; }
  void Prepare(size_t i) {
    offsets_[i] = random_() % (kFileBytes / frame_bytes_) * frame_bytes_;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_readv(sqe, fd_, vectors_[i].data(), 2, offsets_[i]);
    io_uring_sqe_set_data64(sqe, i);
  }
  // Ends one read; false when its bytes are wrong.
  bool Reap(size_t* index) {
    io_uring_submit_and_wait(&ring_, 1);
    io_uring_cqe* cqe = nullptr;
    if (io_uring_peek_cqe(&ring_, &cqe) != 0) return false;
    *index = io_uring_cqe_get_data64(cqe);
    const bool whole = cqe->res == static_cast<int>(frame_bytes_);
    io_uring_cqe_seen(&ring_, cqe);
    return whole && frames_[*index].Good(offsets_[*index]);
  }

 private:
  io_uring ring_{};
  int fd_;
  bool ok_ = false;
  uint64_t frame_bytes_;
  std::vector<Frame> frames_;
  std::vector<uint64_t> offsets_;
  std::vector<std::vector<iovec>> vectors_;
  std::mt19937_64 random_{1};
};

void BM_IoPlainRead(benchmark::State& state) {
  const auto payload_bytes = static_cast<uint64_t>(state.range(0));
  const auto depth = static_cast<size_t>(state.range(1));
  const FileRemover remover;
  const Memory memory;
  const bool filled = OpenFilled(IoEngineKind::kPread, memory, payload_bytes) != nullptr;
  PlainLoop loop(memory, payload_bytes, depth);
  if (!filled || !loop.ok()) {
    state.SkipWithError("no file or no ring here");
    return;
  }
  for (size_t i = 0; i < depth; ++i) loop.Prepare(i);
  for ([[maybe_unused]] auto _ : state) {
    size_t index = 0;
    if (!loop.Reap(&index)) state.SkipWithError("wrong bytes");
    loop.Prepare(index);
  }
  for (size_t i = 0, index = 0; i < depth; ++i) loop.Reap(&index);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(FrameBytes(payload_bytes)));
}

void Grid(benchmark::internal::Benchmark* b) {
  b->ArgNames({"payload", "depth"})->UseRealTime();
  for (const int64_t payload : {256 << 10, 2 << 20, 4 << 20}) {
    for (const int64_t depth : {1, 8}) b->Args({payload, depth});
  }
}
BENCHMARK(BM_IoPlainRead)->Name("BM_IoEngineRead/plain")->Apply(Grid);
BENCHMARK_CAPTURE(BM_IoEngineRead, uring, IoEngineKind::kUring)->Apply(Grid);
BENCHMARK_CAPTURE(BM_IoEngineRead, pread, IoEngineKind::kPread)->Apply(Grid);

}  // namespace
}  // namespace holdfast
