#include "tools/console.h"

#include <chrono>
#include <csignal>

#include <gtest/gtest.h>

namespace holdfast::tools {
namespace {

TEST(Interrupt, TheFirstSignalIsAQuestion) {
  const Interrupt interrupt;
  EXPECT_FALSE(interrupt.requested());
  ASSERT_EQ(std::raise(SIGINT), 0);
  EXPECT_TRUE(interrupt.requested());
}

TEST(Interrupt, AWaitEndsWithTheSignal) {
  const Interrupt interrupt;
  ASSERT_EQ(std::raise(SIGINT), 0);
  EXPECT_FALSE(interrupt.WaitUntil(Instant::max()));
}

TEST(Interrupt, AWaitForThePastIsOver) {
  const Interrupt interrupt;
  EXPECT_TRUE(interrupt.WaitUntil(Clock::System().Now() - std::chrono::seconds(1)));
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace holdfast::tools
