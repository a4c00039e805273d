#include "tools/replay_clock.h"

#include <gtest/gtest.h>

#include "trace/reader.h"

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

TEST(TraceClock, CountsAsFarAsATraceMayReach) {
  TraceClock clock(/*wall_start_us=*/2'000'000'000'000'000);
  const Instant start = clock.Now();
  clock.AdvanceTo(kTraceSpanMsMax);
  EXPECT_EQ(clock.Now() - start, Duration(std::chrono::milliseconds(kTraceSpanMsMax)));
  EXPECT_GT(clock.Now(), start);
  EXPECT_GT(clock.WallMicrosSinceEpoch(), 2'000'000'000'000'000);
}

TEST(StartOfRequest, IsNeverBeforeTheRequestAheadOfIt) {
  const Instant start = Instant(std::chrono::hours(1000));
  EXPECT_EQ(StartOfRequest(start, 0, 1), start);
  EXPECT_EQ(StartOfRequest(start, 3000, 2) - start, Duration(std::chrono::milliseconds(1500)));
  EXPECT_EQ(StartOfRequest(start, kTraceSpanMsMax, 1), Instant::max());
  EXPECT_EQ(StartOfRequest(start, kTraceSpanMsMax, 1e-300), Instant::max());
  EXPECT_EQ(StartOfRequest(start, 1, 1e-300), Instant::max());
}

}  // namespace
}  // namespace holdfast::tools
