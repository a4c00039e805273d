// The contract of IoEngine, over every implementation.

#include "kvstore/io_engine.h"

#include <atomic>
#include <cerrno>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/testing/io_test_kit.h"
#include "tests/testing/sim_io_engine.h"
#include "tests/testing/start_thread.h"

namespace holdfast {
namespace {

using testing::IoMemory;
using testing::WaitableRequest;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kCapacity = 24 * kMiB;

struct Implementation {
  const char* name;
  IoEngineKind kind;
  bool simulated;
  uint32_t threads;
  uint32_t depth;
};

class IoEngineContract : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    const Implementation& p = GetParam();
    if (p.simulated) {
      auto sim = std::make_unique<testing::SimIoEngine>(clock_, image_,
                                                        testing::SimIoOptions{.depth = p.depth});
      sim_ = sim.get();
      engine_ = std::move(sim);
      return;
    }
    std::string note;
    auto opened = OpenIoEngine({.path = path_,
                                .capacity_bytes = kCapacity,
                                .kind = p.kind,
                                .threads = p.threads,
                                .depth = p.depth,
                                .start_thread = testing::StartThread},
                               &note);
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    EXPECT_EQ(note, "");
    engine_ = *std::move(opened);
  }

  void Close() {
    engine_.reset();
    sim_ = nullptr;
  }

  // A simulated engine is thread-confined: here by a lock.
  void Submit(WaitableRequest* request) {
    MutexLock lock(sim_mutex_);
    engine_->Submit(request->get());
  }

  void Wait(WaitableRequest* request) {
    if (sim_ == nullptr) return request->Wait();
    while (request->times_done() == 0) Step();
  }

  void Step() {
    MutexLock lock(sim_mutex_);
    if (const auto due = sim_->next_due()) clock_.AdvanceTo(*due);
    engine_->Poll();
  }

  int Run(IoKind kind, uint64_t offset_bytes, std::vector<Extent> pieces) {
    WaitableRequest request(kind, offset_bytes, std::move(pieces));
    Submit(&request);
    Wait(&request);
    EXPECT_EQ(request.times_done(), 1);
    return request.error();
  }
  int Write(uint64_t offset_bytes, const IoMemory& from) {
    return Run(IoKind::kWrite, offset_bytes, {from.extent()});
  }
  int Read(uint64_t offset_bytes, const IoMemory& to) {
    return Run(IoKind::kRead, offset_bytes, {to.extent()});
  }

  testing::IoDirectory directory_;
  const std::string path_ = directory_.File("data");
  testing::VirtualClock clock_;
  testing::SimDiskImage image_{GetParam().simulated ? kCapacity : kPageBytes};
  Mutex sim_mutex_;
  testing::SimIoEngine* sim_ = nullptr;
  std::unique_ptr<IoEngine> engine_;
};

TEST_P(IoEngineContract, SaysWhatItIs) {
  EXPECT_EQ(engine_->capacity_bytes(), kCapacity);
  EXPECT_EQ(engine_->pieces_max(), 1000u);
  EXPECT_TRUE(engine_->direct());
  EXPECT_EQ(engine_->in_flight(), 0u);
  EXPECT_EQ(engine_->name(), GetParam().simulated                      ? "sim"
                             : GetParam().kind == IoEngineKind::kPread ? "pread"
                                                                       : "uring");
}

TEST_P(IoEngineContract, ReadsBackWhatItWroteAtEverySize) {
  uint64_t seed = 1;
  for (const uint64_t bytes :
       std::vector<uint64_t>{kPageBytes, 64u << 10, kMiB, 2 * kMiB, 4 * kMiB, 4 * kMiB + kPageBytes,
                             4 * kMiB + 2 * kPageBytes, 20 * kMiB}) {
    for (const uint64_t offset : {uint64_t{0}, 3 * kPageBytes, kCapacity - bytes}) {
      IoMemory from(bytes);
      IoMemory to(bytes);
      from.Fill(seed++);
      ASSERT_EQ(Write(offset, from), 0) << bytes << " at " << offset;
      ASSERT_EQ(Read(offset, to), 0) << bytes << " at " << offset;
      ASSERT_TRUE(from == to) << bytes << " at " << offset;
    }
  }
}

TEST_P(IoEngineContract, PiecesGoToTheirPlacesInOrder) {
  // The last one is cut between and inside its pieces.
  for (const auto& [count, piece_bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {1, kMiB}, {2, 2 * kMiB}, {3, kPageBytes}, {999, kPageBytes}, {1000, 3 * kPageBytes}}) {
    const uint64_t bytes = count * piece_bytes;
    IoMemory from(bytes);
    IoMemory to(bytes);
    from.Fill(count);
    std::vector<Extent> backwards;  // the last piece in memory is the first on the disk
    std::vector<Extent> backwards_to;
    for (uint64_t i = count; i > 0; --i) {
      backwards.push_back({from.data() + (i - 1) * piece_bytes, piece_bytes});
      backwards_to.push_back({to.data() + (i - 1) * piece_bytes, piece_bytes});
    }
    ASSERT_EQ(Run(IoKind::kWrite, 5 * kPageBytes, backwards), 0);
    ASSERT_EQ(Run(IoKind::kRead, 5 * kPageBytes, backwards_to), 0);
    ASSERT_TRUE(from == to) << count;
    IoMemory last(piece_bytes);
    ASSERT_EQ(Read(5 * kPageBytes, last), 0);
    ASSERT_TRUE(last.EqualsAt(backwards[0].data)) << count;
  }
}

TEST_P(IoEngineContract, HeaderAndPayloadOfAFrameAreOneRequest) {
  IoMemory header(kPageBytes);
  IoMemory payload(2 * kMiB);
  header.Fill(1);
  payload.Fill(2);
  ASSERT_EQ(Run(IoKind::kWrite, kMiB, {header.extent(), payload.extent()}), 0);
  IoMemory header_read(kPageBytes);
  IoMemory payload_read(2 * kMiB);
  ASSERT_EQ(Run(IoKind::kRead, kMiB, {header_read.extent(), payload_read.extent()}), 0);
  EXPECT_TRUE(header == header_read);
  EXPECT_TRUE(payload == payload_read);
}

TEST_P(IoEngineContract, MisalignedRequestsEndInEinvalAndTouchNothing) {
  IoMemory memory(3 * kPageBytes);
  IoMemory written(3 * kPageBytes);
  written.Fill(7);
  ASSERT_EQ(Write(0, written), 0);
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite}) {
    EXPECT_EQ(Run(kind, 512, {{memory.data(), kPageBytes}}), EINVAL);
    EXPECT_EQ(Run(kind, 0, {{memory.data() + 512, kPageBytes}}), EINVAL);
    EXPECT_EQ(Run(kind, 0, {{memory.data(), kPageBytes - 1}}), EINVAL);
    EXPECT_EQ(Run(kind, 0, {{memory.data(), kPageBytes}, {memory.data() + kPageBytes, 100}}),
              EINVAL);
  }
  IoMemory untouched(3 * kPageBytes);
  EXPECT_TRUE(memory == untouched);
  ASSERT_EQ(Read(0, memory), 0);
  EXPECT_TRUE(memory == written);
}

TEST_P(IoEngineContract, TooManyPiecesEndInEinval) {
  IoMemory memory(kPageBytes);
  EXPECT_EQ(Run(IoKind::kRead, 0, std::vector<Extent>(1001, memory.extent())), EINVAL);
}

TEST_P(IoEngineContract, NothingPastTheEndIsReadOrWritten) {
  IoMemory memory(2 * kPageBytes);
  for (const uint64_t offset :
       {kCapacity - kPageBytes, kCapacity, kCapacity + kMiB, UINT64_MAX - kPageBytes + 1}) {
    EXPECT_EQ(Read(offset, memory), ENODATA) << offset;
    EXPECT_EQ(Write(offset, memory), EINVAL) << offset;
  }
  EXPECT_EQ(Run(IoKind::kRead, 0, {memory.extent(), {memory.data(), UINT64_MAX - kPageBytes + 1}}),
            ENODATA);
}

TEST_P(IoEngineContract, RequestsWithoutBytesAndSyncsComplete) {
  IoMemory memory(kPageBytes);
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite}) {
    EXPECT_EQ(Run(kind, 0, {}), 0);
    EXPECT_EQ(Run(kind, kCapacity, {{memory.data(), 0}}), 0);
  }
  EXPECT_EQ(Run(IoKind::kSync, 0, {}), 0);
  memory.Fill(3);
  IoMemory read(kPageBytes);
  ASSERT_EQ(Run(IoKind::kWrite, 0, {{memory.data(), 0}, memory.extent(), {memory.data(), 0}}), 0);
  ASSERT_EQ(Run(IoKind::kRead, 0, {{nullptr, 0}, read.extent()}), 0);
  EXPECT_TRUE(memory == read);
}

TEST_P(IoEngineContract, WhatWasWrittenIsThereAfterReopening) {
  IoMemory from(kMiB);
  from.Fill(11);
  ASSERT_EQ(Write(8 * kMiB, from), 0);
  Close();
  Open();
  IoMemory to(kMiB);
  ASSERT_EQ(Read(8 * kMiB, to), 0);
  EXPECT_TRUE(from == to);
}

TEST_P(IoEngineContract, QueuesMoreThanTheDeviceTakes) {
  constexpr size_t kRequests = 500;
  IoMemory from(kRequests * kPageBytes);
  IoMemory to(kRequests * kPageBytes);
  from.Fill(5);
  for (const IoKind kind : {IoKind::kWrite, IoKind::kRead}) {
    std::vector<std::unique_ptr<WaitableRequest>> requests;
    for (size_t i = 0; i < kRequests; ++i) {
      std::byte* memory = (kind == IoKind::kWrite ? from : to).data() + i * kPageBytes;
      requests.push_back(std::make_unique<WaitableRequest>(
          kind, i * kPageBytes, std::vector<Extent>{{memory, kPageBytes}}));
      Submit(requests.back().get());
    }
    for (auto& request : requests) {
      Wait(request.get());
      ASSERT_EQ(request->times_done(), 1);
      ASSERT_EQ(request->error(), 0);
    }
    EXPECT_EQ(engine_->in_flight(), 0u);
  }
  EXPECT_TRUE(from == to);
}

// Each callback submits the next request of its chain, until the chain is at its end.
class Chain {
 public:
  Chain(IoEngine* engine, size_t length, uint64_t offset_bytes)
      : engine_(engine), left_(length), memory_(kPageBytes), pieces_{memory_.extent()} {
    request_.kind = IoKind::kRead;
    request_.offset_bytes = offset_bytes;
    request_.pieces = pieces_;
    request_.context = this;
    request_.done = [](IoRequest* r) { static_cast<Chain*>(r->context)->OnDone(); };
  }
  void Start() { engine_->Submit(&request_); }
  bool ended() const { return left_.load() == 0; }
  size_t errors() const { return errors_.load(); }

 private:
  void OnDone() {
    if (request_.error != 0) errors_.fetch_add(1);
    if (left_.fetch_sub(1) > 1) engine_->Submit(&request_);
  }

  IoEngine* engine_;
  std::atomic<size_t> left_;
  std::atomic<size_t> errors_{0};
  IoMemory memory_;
  std::vector<Extent> pieces_;
  IoRequest request_;
};

TEST_P(IoEngineContract, CallbacksMaySubmitEvenWhileTheEngineIsDestroyed) {
  std::vector<std::unique_ptr<Chain>> chains;
  for (uint64_t i = 0; i < 16; ++i) {
    chains.push_back(std::make_unique<Chain>(engine_.get(), 50 + 10 * i, i * kMiB));
  }
  for (auto& chain : chains) chain->Start();
  Close();
  for (auto& chain : chains) {
    EXPECT_TRUE(chain->ended());
    EXPECT_EQ(chain->errors(), 0u);
  }
}

TEST_P(IoEngineContract, DestructionWaitsForWhatIsInFlight) {
  IoMemory from(16 * kMiB);
  from.Fill(9);
  std::vector<std::unique_ptr<WaitableRequest>> requests;
  for (uint64_t i = 0; i < 16; ++i) {
    requests.push_back(std::make_unique<WaitableRequest>(
        IoKind::kWrite, i * kMiB, std::vector<Extent>{{from.data() + i * kMiB, kMiB}}));
    Submit(requests.back().get());
  }
  Close();
  for (auto& request : requests) {
    EXPECT_EQ(request->times_done(), 1);
    EXPECT_EQ(request->error(), 0);
  }
  Open();
  IoMemory to(16 * kMiB);
  ASSERT_EQ(Read(0, to), 0);
  EXPECT_TRUE(from == to);
}

TEST_P(IoEngineContract, FourThreadsAgreeWithAShadowCopy) {
  constexpr uint64_t kRegion = 2 * kMiB;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::atomic<int> wrong{0};
  auto work = [&](uint64_t thread) {
    std::mt19937_64 random(seed + thread);
    IoMemory shadow(kRegion);
    shadow.Fill(thread);
    if (Write(thread * kRegion, shadow) != 0) ++wrong;
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t pages = 1 + random() % 32;
      const uint64_t page = random() % (kRegion / kPageBytes - pages + 1);
      IoMemory memory(pages * kPageBytes);
      const uint64_t cut = random() % (pages + 1) * kPageBytes;
      const std::vector<Extent> pieces = {{memory.data(), cut},
                                          {memory.data() + cut, memory.size() - cut}};
      std::byte* expected = shadow.data() + page * kPageBytes;
      const uint64_t offset = thread * kRegion + page * kPageBytes;
      if (i % 100 == 99 && Run(IoKind::kSync, 0, {}) != 0) ++wrong;
      if (random() % 2 == 0) {
        memory.Fill(random());
        std::copy(memory.bytes().begin(), memory.bytes().end(), expected);
        if (Run(IoKind::kWrite, offset, pieces) != 0) ++wrong;
      } else {
        if (Run(IoKind::kRead, offset, pieces) != 0) ++wrong;
        if (!memory.EqualsAt(expected)) ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Engines, IoEngineContract,
    ::testing::Values(Implementation{"Uring", IoEngineKind::kUring, false, 2, 64},
                      Implementation{"UringOneDeep", IoEngineKind::kUring, false, 1, 1},
                      Implementation{"Pread", IoEngineKind::kPread, false, 2, 16},
                      Implementation{"PreadOneDeep", IoEngineKind::kPread, false, 1, 1},
                      Implementation{"Sim", IoEngineKind::kAuto, true, 1, 64},
                      Implementation{"SimOneDeep", IoEngineKind::kAuto, true, 1, 1}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace holdfast
