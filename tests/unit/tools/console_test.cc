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

TEST(Interrupt, EverySignalThatAsksForTheEndIsOne) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Interrupt interrupt;
    EXPECT_EQ(interrupt.signal(), 0);
    ASSERT_EQ(std::raise(signal), 0);
    ASSERT_EQ(std::raise(signal), 0);  // at once: as `timeout` sends it
    EXPECT_EQ(interrupt.signal(), signal);
  }
}

TEST(Interrupt, AHangupThatNohupIgnoresStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const Interrupt interrupt;
    ASSERT_EQ(std::raise(SIGHUP), 0);
    EXPECT_FALSE(interrupt.requested());
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcessAndNamesWhatIsLeft) {
  const auto repeat = [](int signal) {
    Interrupt interrupt;
    interrupt.SetLeftBehind("some/directory");
    for (;;) std::raise(signal);
  };
  EXPECT_EXIT(repeat(SIGINT), ::testing::KilledBySignal(SIGINT), "left behind: some/directory");
  EXPECT_EXIT(repeat(SIGTERM), ::testing::KilledBySignal(SIGTERM), "left behind: some/directory");
}

}  // namespace
}  // namespace holdfast::tools
