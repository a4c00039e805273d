// A child writes, flushes, writes more and is killed. A program of its own: RocksDB's threads do
// not survive a fork, so nothing may have opened one before.
#include <csignal>
#include <cstdlib>
#include <map>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/testing/disk_directory.h"
#include "tests/testing/test_frame.h"
#include "tests/testing/tier_driver.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kCapacity = 128u << 20;
constexpr uint64_t kPayload = 1u << 20;
constexpr HoldMillis kNow = 1'000'000'000;
constexpr HoldMillis kHour = 3'600'000;

// Never returns: killed after four writes and one sync of the meta store, two writes durable.
void WriteAndDie(DiskDirectory& directory) {
  Result<DiskTier> opened = directory.Open(directory.Options(kCapacity));
  if (!opened.has_value()) _exit(1);
  DiskTier disk = *std::move(opened);
  const Status status = disk.tier->Recover(kNow, [](const RecoveredCopy&) { return std::nullopt; });
  TierDriver driver(*disk.tier, directory.bell(), kNow);
  bool good = status.ok() && driver.Write(1, kPayload, kNow + kHour) &&
              driver.Write(2, kPayload, kNow + kHour);
  driver.Flush();
  good = good && driver.Write(3, kPayload, kNow + kHour) &&
         driver.Write(4, kPayload, kNow + 10 * kHour);
  if (!good || ::testing::Test::HasFailure()) _exit(2);
  disk.meta->SubmitSync({.hold_now = kNow}, [](const Status& synced) {
    if (synced.ok()) kill(getpid(), SIGKILL);
    _exit(3);
  });
  for (;;) pause();
}

TEST(RocksKillTest, AKillLosesOnlyWhatWasNotFlushed) {
  DiskDirectory directory;
  const pid_t child = fork();
  if (child == 0) WriteAndDie(directory);
  int exited = 0;
  ASSERT_EQ(waitpid(child, &exited, 0), child);
  ASSERT_TRUE(WIFSIGNALED(exited)) << exited;

  Result<DiskTier> opened = directory.Open(directory.Options(kCapacity));
  ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
  DiskTier disk = *std::move(opened);
  EXPECT_EQ(disk.meta->Load()->hold_now, kNow);
  std::map<uint64_t, Place> found;
  const Status status =
      disk.tier->Recover(kNow, [&](const RecoveredCopy& copy) -> std::optional<EntryId> {
        found[copy.placement.write_id] = copy.place;
        return static_cast<EntryId>(copy.placement.write_id);
      });
  ASSERT_TRUE(status.ok()) << status.ToString();
  TierDriver driver(*disk.tier, directory.bell(), kNow);
  ASSERT_EQ(found.size(), 2u);
  for (const auto& [seed, place] : found) {
    EXPECT_LE(seed, 2u);
    EXPECT_EQ(driver.Read(seed, place, kPayload), FrameOutcome::kDone);
  }
  EXPECT_TRUE(driver.Write(5, kPayload, kNow + kHour));
}

}  // namespace
}  // namespace holdfast::testing
