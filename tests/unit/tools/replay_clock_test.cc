#include "tools/replay_clock.h"

#include <gtest/gtest.h>

namespace holdfast::tools {
namespace {

TEST(TraceClock, MovesOnlyForwardAndOnlyWhenTold) {
  TraceClock clock(/*wall_start_us=*/1'000'000);
  const Instant start = clock.Now();
  clock.AdvanceTo(3000);
  EXPECT_EQ(clock.Now() - start, Duration(std::chrono::milliseconds(3000)));
  clock.AdvanceTo(2000);
  EXPECT_EQ(clock.Now() - start, Duration(std::chrono::milliseconds(3000)));
  EXPECT_EQ(clock.WallMicrosSinceEpoch(), 4'000'000);
}

}  // namespace
}  // namespace holdfast::tools
