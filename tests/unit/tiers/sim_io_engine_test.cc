// The simulated disk does what a disk under stress does, and requests survive it or say so.

#include "tests/testing/sim_io_engine.h"

#include <cerrno>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/testing/io_test_kit.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kCapacity = 16 * kMiB;

class SimIo : public ::testing::Test {
 protected:
  void RunUntilIdle(SimIoEngine* engine) {
    while (const auto due = engine->next_due()) {
      clock_.AdvanceTo(*due);
      engine->Poll();
    }
    EXPECT_EQ(engine->in_flight(), 0u);
  }
  int Run(SimIoEngine* engine, IoKind kind, uint64_t offset_bytes, const IoMemory& memory) {
    WaitableRequest request(kind, offset_bytes, {memory.extent()});
    engine->Submit(request.get());
    RunUntilIdle(engine);
    EXPECT_EQ(request.times_done(), 1);
    return request.error();
  }
  int Write(SimIoEngine* engine, uint64_t offset_bytes, const IoMemory& memory) {
    return Run(engine, IoKind::kWrite, offset_bytes, memory);
  }
  int Read(SimIoEngine* engine, uint64_t offset_bytes, const IoMemory& memory) {
    return Run(engine, IoKind::kRead, offset_bytes, memory);
  }
  int Sync(SimIoEngine* engine) { return Run(engine, IoKind::kSync, 0, IoMemory(0)); }

  VirtualClock clock_;
  SimDiskImage image_{kCapacity};
};

// Two writes, one of them more than one operation, a sync, and both read back. Returns the errors.
struct Outcome {
  std::vector<int> errors;
  bool equal;
};

class SimIoScenario : public SimIo {
 protected:
  Outcome RunScenario(SimIoEngine* engine) {
    IoMemory large(5 * kMiB);
    IoMemory small(2 * kPageBytes);
    large.Fill(1);
    small.Fill(2);
    IoMemory large_read(large.size());
    IoMemory small_read(small.size());
    Outcome outcome;
    outcome.errors = {Write(engine, 0, large), Write(engine, 12 * kMiB, small), Sync(engine),
                      Read(engine, 0, large_read), Read(engine, 12 * kMiB, small_read)};
    outcome.equal = large == large_read && small == small_read;
    return outcome;
  }

  // Runs the scenario once for each n, with the n-th operation of a kind hit by `fault`.
  void ForEachOperation(SimFault fault, const std::function<void(const Outcome&)>& expect) {
    SimIoEngine unhurt(clock_, image_);
    RunScenario(&unhurt);
    for (const IoKind kind : {IoKind::kRead, IoKind::kWrite, IoKind::kSync}) {
      ASSERT_GT(unhurt.operations(kind), 0u);
      for (uint64_t n = 1; n <= unhurt.operations(kind); ++n) {
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + " n " + std::to_string(n));
        SimIoEngine engine(clock_, image_);
        fault.kind = kind;
        fault.nth = n;
        engine.Plan(fault);
        expect(RunScenario(&engine));
      }
    }
  }
};

TEST_F(SimIoScenario, WithoutFaultsEveryByteComesBackInPiecesOfAtMostFourMebibytes) {
  SimIoEngine engine(clock_, image_);
  const Outcome outcome = RunScenario(&engine);
  EXPECT_EQ(outcome.errors, std::vector<int>(5, 0));
  EXPECT_TRUE(outcome.equal);
  EXPECT_EQ(engine.operations(IoKind::kRead), 3u);  // 2 and 1
  EXPECT_EQ(engine.operations(IoKind::kWrite), 3u);
}

TEST_F(SimIoScenario, ErrorOfAnyOperationFailsItsRequestAndNoOther) {
  ForEachOperation({.error = EIO}, [](const Outcome& outcome) {
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), EIO), 1);
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), 0), 4);
  });
}

TEST_F(SimIoScenario, PassingErrorsAndShortTransfersAnywhereAreContinued) {
  for (const SimFault& fault :
       {SimFault{.error = EAGAIN}, SimFault{.times = 15, .error = EAGAIN},
        SimFault{.times = 15, .error = EINTR}, SimFault{.short_bytes = kPageBytes},
        SimFault{.short_bytes = 100}, SimFault{.short_bytes = kPageBytes + 512},
        SimFault{.times = 2, .short_bytes = kMiB}}) {
    ForEachOperation(fault, [](const Outcome& outcome) {
      EXPECT_EQ(outcome.errors, std::vector<int>(5, 0));
      EXPECT_TRUE(outcome.equal);
    });
  }
}

TEST_F(SimIo, RetriesWithoutProgressAreBounded) {
  IoMemory memory(2 * kPageBytes);
  struct Case {
    SimFault fault;
    int error;
  };
  for (const auto& [fault, error] : {Case{{.times = 1000, .error = EAGAIN}, EAGAIN},
                                     Case{{.times = 1000, .error = EINTR}, EINTR},
                                     Case{{.times = 1000, .short_bytes = 100}, EIO}}) {
    SimIoEngine engine(clock_, image_);
    engine.Plan(fault);
    EXPECT_EQ(Read(&engine, 0, memory), error);
    EXPECT_EQ(engine.operations(IoKind::kRead), 16u);
  }
  SimIoEngine engine(clock_, image_);
  engine.Plan({.times = 1000, .short_bytes = 0});
  EXPECT_EQ(Read(&engine, 0, memory), ENODATA);
  EXPECT_EQ(engine.operations(IoKind::kRead), 1u);
}

TEST_F(SimIo, SyncCoversOnlyWhatHadCompletedBeforeIt) {
  SimIoEngine engine(clock_, image_, {.reorder = false});
  IoMemory first(kPageBytes);
  first.Fill(1);
  IoMemory second(kPageBytes);
  second.Fill(2);
  ASSERT_EQ(Write(&engine, 0, first), 0);
  WaitableRequest write(IoKind::kWrite, kPageBytes, {second.extent()});
  WaitableRequest sync(IoKind::kSync, 0, {});
  engine.Submit(write.get());
  engine.Submit(sync.get());
  RunUntilIdle(&engine);
  ASSERT_EQ(write.error() + sync.error(), 0);
  const auto durable = image_.durable_bytes();
  EXPECT_TRUE(first.EqualsAt(durable.data()));
  EXPECT_FALSE(second.EqualsAt(durable.data() + kPageBytes));
  ASSERT_EQ(Sync(&engine), 0);
  EXPECT_TRUE(second.EqualsAt(durable.data() + kPageBytes));
}

TEST_F(SimIo, CrashKeepsWhatWasSyncedAndLosesTearsOrKeepsTheRest) {
  int kept = 0;
  int lost = 0;
  int torn = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimDiskImage image(kMiB);
    SimIoEngine engine(clock_, image, {.seed = seed});
    IoMemory synced(kMiB / 2);
    synced.Fill(1);
    IoMemory unsynced(kMiB / 2);
    unsynced.Fill(2);
    ASSERT_EQ(Write(&engine, 0, synced), 0);
    ASSERT_EQ(Sync(&engine), 0);
    ASSERT_EQ(Write(&engine, kMiB / 2, unsynced), 0);
    engine.Crash();
    SimIoEngine next(clock_, image);
    IoMemory read(kMiB / 2);
    ASSERT_EQ(Read(&next, 0, read), 0);
    ASSERT_TRUE(read == synced);
    ASSERT_EQ(Read(&next, kMiB / 2, read), 0);
    if (read == unsynced) {
      ++kept;
    } else if (std::all_of(read.bytes().begin(), read.bytes().end(),
                           [](std::byte b) { return b == std::byte{0}; })) {
      ++lost;
    } else {
      ++torn;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(lost, 0);
  EXPECT_GT(torn, 0);
}

TEST_F(SimIo, AfterACrashEveryRequestEndsAndTheImageServesTheNextEngine) {
  IoMemory memory(kMiB);
  {
    SimIoEngine engine(clock_, image_);
    WaitableRequest in_flight(IoKind::kWrite, 0, {memory.extent()});
    engine.Submit(in_flight.get());
    engine.Crash();
    EXPECT_EQ(in_flight.times_done(), 0);
    WaitableRequest later(IoKind::kRead, 0, {memory.extent()});
    engine.Submit(later.get());
    engine.Poll();
    EXPECT_EQ(in_flight.error(), ENODEV);
    EXPECT_EQ(later.error(), ENODEV);
  }
  SimIoEngine engine(clock_, image_);
  EXPECT_EQ(Read(&engine, 0, memory), 0);
}

TEST_F(SimIo, FailedSyncLosesItsWritesAtTheNextCrashThoughReadsShowThem) {
  SimIoEngine engine(clock_, image_);
  IoMemory from(kPageBytes);
  from.Fill(1);
  IoMemory to(kPageBytes);
  ASSERT_EQ(Write(&engine, 0, from), 0);
  engine.Plan({.kind = IoKind::kSync, .error = EIO});
  ASSERT_EQ(Sync(&engine), EIO);
  ASSERT_EQ(Sync(&engine), 0);
  ASSERT_EQ(Read(&engine, 0, to), 0);
  EXPECT_TRUE(from == to);
  engine.Crash();
  EXPECT_EQ(image_.bytes()[0], std::byte{0});
  EXPECT_FALSE(from.EqualsAt(image_.bytes().data()));
}

TEST_F(SimIo, FlippedBitStaysUntilItsPlaceIsWritten) {
  SimIoEngine engine(clock_, image_);
  IoMemory from(kPageBytes);
  from.Fill(1);
  IoMemory to(kPageBytes);
  ASSERT_EQ(Write(&engine, 0, from), 0);
  image_.FlipBit(77, 3);
  ASSERT_EQ(Sync(&engine), 0);
  engine.Crash();
  SimIoEngine next(clock_, image_);
  ASSERT_EQ(Read(&next, 0, to), 0);
  EXPECT_FALSE(from == to);
  to.data()[77] ^= std::byte{8};
  EXPECT_TRUE(from == to);
  ASSERT_EQ(Write(&next, 0, from), 0);
  ASSERT_EQ(Read(&next, 0, to), 0);
  EXPECT_TRUE(from == to);
}

TEST_F(SimIo, MisdirectedTransfersSaySuccess) {
  SimIoEngine engine(clock_, image_);
  IoMemory a(kPageBytes);
  a.Fill(1);
  IoMemory b(kPageBytes);
  b.Fill(2);
  IoMemory to(kPageBytes);
  ASSERT_EQ(Write(&engine, 0, a), 0);
  ASSERT_EQ(Write(&engine, kMiB, b), 0);
  engine.Plan({.kind = IoKind::kRead, .misdirect_bytes = kMiB});
  ASSERT_EQ(Read(&engine, 0, to), 0);
  EXPECT_TRUE(to == b);
  engine.Plan({.kind = IoKind::kWrite, .misdirect_bytes = -static_cast<int64_t>(kMiB)});
  ASSERT_EQ(Write(&engine, kMiB, b), 0);
  ASSERT_EQ(Read(&engine, 0, to), 0);
  EXPECT_TRUE(to == b);
}

TEST_F(SimIo, StalledOperationEndsLateAndOthersDoNotWaitForIt) {
  using std::chrono::seconds;
  SimIoEngine engine(clock_, image_);
  IoMemory memory(2 * kPageBytes);
  engine.Plan({.kind = IoKind::kRead, .stall = seconds(3)});
  WaitableRequest slow(IoKind::kRead, 0, {{memory.data(), kPageBytes}});
  WaitableRequest fast(IoKind::kRead, 0, {{memory.data() + kPageBytes, kPageBytes}});
  engine.Submit(slow.get());
  engine.Submit(fast.get());
  clock_.Advance(seconds(1));
  EXPECT_EQ(engine.Poll(), 1u);
  EXPECT_EQ(fast.times_done(), 1);
  EXPECT_EQ(slow.times_done(), 0);
  clock_.Advance(seconds(3));
  EXPECT_EQ(engine.Poll(), 1u);
  EXPECT_EQ(slow.times_done(), 1);
}

// The order in which 32 equal reads end.
std::vector<uint64_t> OrderOf(SimIoOptions options) {
  VirtualClock clock;
  SimDiskImage image(kCapacity);
  SimIoEngine engine(clock, image, options);
  IoMemory memory(kPageBytes);
  const Extent piece = memory.extent();
  std::vector<uint64_t> order;
  std::vector<IoRequest> requests(32);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {
        .offset_bytes = i * kPageBytes,
        .pieces = {&piece, 1},
        .done =
            [](IoRequest* r) {
              static_cast<std::vector<uint64_t>*>(r->context)->push_back(r->offset_bytes);
            },
        .context = &order};
    engine.Submit(&requests[i]);
  }
  while (engine.in_flight() > 0) {
    clock.AdvanceTo(*engine.next_due());
    engine.Poll();
  }
  return order;
}

TEST(SimIoOrder, FollowsTheSeedAndCanBeSwitchedOff) {
  EXPECT_EQ(OrderOf({.seed = 7}), OrderOf({.seed = 7}));
  EXPECT_NE(OrderOf({.seed = 7}), OrderOf({.seed = 8}));
  const auto in_order = OrderOf({.seed = 7, .reorder = false});
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
  const auto reordered = OrderOf({.seed = 7});
  EXPECT_FALSE(std::is_sorted(reordered.begin(), reordered.end()));
}

}  // namespace
}  // namespace holdfast::testing
