#include "kvstore/completion_queue.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include "tests/testing/virtual_clock.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using testing::VirtualClock;

std::unique_ptr<CompletionQueue> Create(size_t capacity, Clock& clock = Clock::System()) {
  auto queue = CompletionQueue::Create(capacity, clock);
  EXPECT_TRUE(queue.has_value()) << queue.error().ToString();
  return *std::move(queue);
}

bool Readable(const CompletionQueue& queue) {
  pollfd fd{.fd = queue.event_fd(), .events = POLLIN, .revents = 0};
  return ::poll(&fd, 1, 0) == 1;
}

std::vector<uint64_t> Tags(CompletionQueue& queue, size_t n) {
  std::vector<Completion> out(n);
  out.resize(queue.Poll(out, Instant::min()));
  std::vector<uint64_t> tags;
  for (const Completion& completion : out) tags.push_back(completion.tag);
  return tags;
}

class CountedLease final : public internal::LeaseState {
 public:
  explicit CountedLease(int& alive) : alive_(alive) { ++alive_; }
  ~CountedLease() override { --alive_; }
  CountedLease(const CountedLease&) = delete;
  CountedLease& operator=(const CountedLease&) = delete;
  size_t size() const noexcept override { return 1; }
  bool valid() const noexcept override { return true; }
  std::span<const std::byte> view(size_t) const noexcept override { return {}; }
  std::span<std::byte> writable() noexcept override { return {}; }

 private:
  int& alive_;
};

TEST(CompletionQueueTest, CapacityThatCannotBeIsAnErrorAndNothingIsThrown) {
  for (const size_t capacity : {size_t{0}, CompletionQueue::kCapacityMax + 1, SIZE_MAX}) {
    const auto queue = CompletionQueue::Create(capacity);
    ASSERT_FALSE(queue.has_value());
    EXPECT_EQ(queue.error().code(), StatusCode::kInvalidArgument);
  }
}

// Exits with 0 when the refusal of memory was an error of that code.
[[noreturn]] void QueueWithoutMemory() {
  const rlimit little{64 << 20, 64 << 20};
  const bool limited = setrlimit(RLIMIT_AS, &little) == 0;
  const auto queue = CompletionQueue::Create(CompletionQueue::kCapacityMax);
  const bool refused = !queue.has_value() && queue.error().code() == StatusCode::kResourceExhausted;
  std::_Exit(limited && refused ? 0 : 1);
}

TEST(CompletionQueueTest, RefusedMemoryIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED: sanitizers need the addresses that this test takes away";
#endif
  EXPECT_EXIT(QueueWithoutMemory(), ::testing::ExitedWithCode(0), "");
}

TEST(CompletionQueueTest, CompletionsComeOnceAndInOrderWithAllTheyCarry) {
  auto queue = Create(4);
  int alive = 0;
  ASSERT_TRUE(queue->Reserve(1));
  queue->Push({.tag = 1,
               .op = 2,
               .block = 3,
               .done = 4,
               .took = milliseconds(5),
               .views = Lease(std::make_unique<CountedLease>(alive))});
  ASSERT_TRUE(queue->Post(9).ok());
  std::array<Completion, 4> out;
  ASSERT_EQ(queue->Poll(out, Instant::min()), 2u);
  EXPECT_EQ(out[0].tag, 1u);
  EXPECT_EQ(out[0].op, 2u);
  EXPECT_EQ(out[0].block, 3u);
  EXPECT_EQ(out[0].done, 4u);
  EXPECT_EQ(out[0].took, milliseconds(5));
  EXPECT_TRUE(out[0].views.valid());
  EXPECT_EQ(out[1].tag, 9u);
  EXPECT_EQ(out[1].op, 0u);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(queue->Poll(out, Instant::min()), 0u);
  EXPECT_EQ(alive, 0) << "a lease left in the array ends with the next poll";
}

TEST(CompletionQueueTest, OrderSurvivesTheEndOfTheRing) {
  auto queue = Create(3);
  uint64_t posted = 0;
  uint64_t polled = 0;
  for (int round = 0; round < 10; ++round) {
    while (queue->Post(posted).ok()) ++posted;
    for (const uint64_t tag : Tags(*queue, 2)) EXPECT_EQ(tag, polled++);
  }
  EXPECT_EQ(polled, 20u);
  EXPECT_EQ(posted, 21u);
}

TEST(CompletionQueueTest, FullQueueRefusesAtPostAndAtReserve) {
  auto queue = Create(3);
  ASSERT_TRUE(queue->Post(0).ok());
  EXPECT_FALSE(queue->Reserve(3));
  EXPECT_FALSE(queue->Reserve(SIZE_MAX));
  ASSERT_TRUE(queue->Reserve(2));
  const Status status = queue->Post(1);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  queue->Unreserve(1);
  EXPECT_TRUE(queue->Post(2).ok());
  queue->Push({.tag = 3});
  EXPECT_EQ(Tags(*queue, 9), (std::vector<uint64_t>{0, 2, 3}));
  EXPECT_TRUE(queue->Reserve(3));
}

TEST(CompletionQueueDeathTest, PushNeedsAReservedPlace) {
  auto queue = Create(1);
  EXPECT_DEATH(queue->Push({}), "reserved_ > 0");
  EXPECT_DEATH(queue->Unreserve(1), "places <= reserved_");
}

TEST(CompletionQueueTest, EventFdIsReadableWhileCompletionsWait) {
  auto queue = Create(4);
  EXPECT_EQ(::fcntl(queue->event_fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::fcntl(queue->event_fd(), F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  EXPECT_FALSE(Readable(*queue));
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(queue->Post(1).ok());
    ASSERT_TRUE(queue->Post(2).ok());
    EXPECT_TRUE(Readable(*queue));
    EXPECT_EQ(Tags(*queue, 1).size(), 1u);
    EXPECT_TRUE(Readable(*queue)) << "one still waits";
    EXPECT_EQ(Tags(*queue, 1).size(), 1u);
    EXPECT_FALSE(Readable(*queue));
  }
}

TEST(CompletionQueueTest, PollGivesUpWhenItsTimeIsUp) {
  VirtualClock clock;
  clock.Advance(milliseconds(10));
  auto queue = Create(1, clock);
  std::array<Completion, 1> out;
  EXPECT_EQ(queue->Poll(out, Instant::min()), 0u);
  EXPECT_EQ(queue->Poll(out, clock.Now()), 0u);
  auto real = Create(1);
  const Instant until = Clock::System().Now() + milliseconds(2);
  EXPECT_EQ(real->Poll(out, until), 0u);
  EXPECT_GE(Clock::System().Now(), until);
}

TEST(CompletionQueueTest, PollIntoNothingTakesNothing) {
  auto queue = Create(1);
  ASSERT_TRUE(queue->Post(1).ok());
  EXPECT_EQ(queue->Poll({}, Instant::max()), 0u);
  EXPECT_EQ(Tags(*queue, 1).size(), 1u);
}

TEST(CompletionQueueTest, NoCapacityIsAnError) {
  const auto queue = CompletionQueue::Create(0);
  ASSERT_FALSE(queue.has_value());
  EXPECT_EQ(queue.error().code(), StatusCode::kInvalidArgument);
}

TEST(CompletionQueueTest, ManyPostersAndOnePollerLoseNothing) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 5'000;
  auto queue = Create(8);
  std::vector<std::thread> posters;
  for (uint64_t t = 0; t < kThreads; ++t) {
    posters.emplace_back([&queue, t] {
      for (uint64_t i = 0; i < kEach;) {
        bool accepted = false;
        if (t % 2 == 0) {
          accepted = queue->Post(t * kEach + i).ok();
        } else if (queue->Reserve(1)) {
          queue->Push({.tag = t * kEach + i});
          accepted = true;
        }
        if (accepted) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<uint64_t> next(kThreads, 0);
  std::array<Completion, 3> out;
  for (uint64_t polled = 0; polled < kThreads * kEach;) {
    const size_t n = queue->Poll(out, Instant::max());
    ASSERT_GE(n, 1u);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(out[i].tag % kEach, next[out[i].tag / kEach]++) << "each poster's order holds";
    }
    polled += n;
  }
  for (std::thread& poster : posters) poster.join();
  EXPECT_EQ(queue->Poll(out, Instant::min()), 0u);
  EXPECT_FALSE(Readable(*queue));
}

}  // namespace
}  // namespace holdfast
