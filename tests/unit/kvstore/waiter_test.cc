#include "kvstore/waiter.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/testing/virtual_clock.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using testing::VirtualClock;

TEST(WaiterTest, RingBeforeTheWaitEndsItAtOnceAndOnlyOnce) {
  VirtualClock clock;
  auto waiter = Waiter::Create(clock);
  waiter->Ring();
  waiter->Ring();
  waiter->Wait(Instant::max());  // would never return without the ring
  waiter->Wait(clock.Now());     // nothing rung, time is up
  waiter->Ring();
  waiter->Wait(Instant::max());
}

TEST(WaiterTest, WaitEndsWhenItsTimeIsUp) {
  auto waiter = Waiter::Create(Clock::System());
  const Instant until = Clock::System().Now() + milliseconds(2);
  waiter->Wait(until);
  EXPECT_GE(Clock::System().Now(), until);
  waiter->Wait(Instant::min());
}

TEST(WaiterTest, RingThatTheLastWaitTookDoesNotEndTheNext) {
  auto waiter = Waiter::Create(Clock::System());
  waiter->Ring();
  waiter->Wait(Instant::max());
  const Instant until = Clock::System().Now() + milliseconds(2);
  waiter->Wait(until);
  EXPECT_GE(Clock::System().Now(), until);
}

// Each side sleeps until the other has moved: one lost ring and both sleep for ever.
TEST(WaiterTest, NoRingIsLostBetweenTwoThatWakeEachOther) {
  constexpr int kRounds = 100'000;
  auto ping = Waiter::Create(Clock::System());
  auto pong = Waiter::Create(Clock::System());
  std::atomic<int> pings{0};
  int pongs = 0;  // plain: handed over by the rings alone
  std::thread other([&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (pings.load(std::memory_order_acquire) < i) ping->Wait(Instant::max());
      pongs = i;
      pong->Ring();
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    pings.store(i, std::memory_order_release);
    ping->Ring();
    pong->Wait(Instant::max());
    ASSERT_EQ(pongs, i);
  }
  other.join();
}

TEST(WaiterTest, WorkOfManyRingersIsAllSeen) {
  constexpr int kThreads = 3;
  constexpr int kEach = 20'000;
  auto waiter = Waiter::Create(Clock::System());
  std::atomic<int> work{0};
  std::vector<std::thread> ringers;
  for (int t = 0; t < kThreads; ++t) {
    ringers.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        work.fetch_add(1, std::memory_order_relaxed);
        waiter->Ring();
      }
    });
  }
  int seen = 0;
  while (seen < kThreads * kEach) {
    waiter->Wait(Instant::max());
    seen += work.exchange(0, std::memory_order_relaxed);
  }
  for (std::thread& ringer : ringers) ringer.join();
  EXPECT_EQ(seen, kThreads * kEach);
}

}  // namespace
}  // namespace holdfast
