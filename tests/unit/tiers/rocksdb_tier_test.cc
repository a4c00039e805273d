// What only the RocksDB tier promises: whole families go, durability ends at the last flush, and
// how a directory may be refused.
#include <fstream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/testing/disk_directory.h"
#include "tests/testing/test_frame.h"
#include "tests/testing/tier_driver.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kCapacity = 128u << 20;
constexpr uint64_t kPayload = 1u << 20;
constexpr HoldMillis kNow = 1'000'000'000;
constexpr HoldMillis kHour = 3'600'000;

class RocksTierTest : public ::testing::Test {
 protected:
  void Open(uint64_t capacity_bytes = kCapacity) {
    disk_ = {};
    Result<DiskTier> opened = directory_.Open(directory_.Options(capacity_bytes));
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    disk_ = *std::move(opened);
  }
  GroupedTier& tier() { return *disk_.tier; }
  std::map<uint64_t, Place> Recover(HoldMillis now) {
    std::map<uint64_t, Place> found;
    const Status status =
        tier().Recover(now, [&](const RecoveredCopy& copy) -> std::optional<EntryId> {
          found[copy.placement.write_id] = copy.place;
          return static_cast<EntryId>(copy.placement.write_id);
        });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return found;
  }
  TierDriver Driver() { return {tier(), directory_.bell(), kNow}; }

  DiskDirectory directory_;
  DiskTier disk_;
};

TEST_F(RocksTierTest, AnExpiredBucketGoesWholeAndItsSpaceComesBack) {
  Open();
  Recover(kNow);
  TierDriver driver = Driver();
  std::map<GroupId, std::vector<Place>> places;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto place = driver.Write(seed, kPayload, kNow + kHour);
    ASSERT_TRUE(place);
    places[place->group].push_back(*place);
  }
  const auto late = driver.Write(100, kPayload, kNow + 20 * kHour);
  ASSERT_TRUE(late);
  driver.Flush();
  const uint64_t before = directory_.BytesOf(".blob");
  ASSERT_GE(before, 13 * kPayload);

  EXPECT_EQ(tier().Expired(kNow + kHour - 1), std::nullopt);
  const HoldMillis end = tier().CopyEnd(places.begin()->second.front());
  EXPECT_GE(end, kNow + kHour);
  EXPECT_LT(end, kNow + kHour + kHour / 4);
  driver.SetHoldNow(end);
  while (const auto group = tier().Expired(end)) driver.RetireGroup(*group);
  EXPECT_TRUE(driver.Until([&] { return directory_.BytesOf(".blob") <= 2 * kPayload; }));
  EXPECT_EQ(tier().usage().live_copies, 1u);
  EXPECT_EQ(driver.Read(100, *late, kPayload), FrameOutcome::kDone);
}

TEST_F(RocksTierTest, FamiliesPastTheirEndAreDroppedAtOpenUnreported) {
  Open();
  Recover(kNow);
  TierDriver driver = Driver();
  ASSERT_TRUE(driver.Write(1, kPayload, kNow + 60'000));
  ASSERT_TRUE(driver.Write(2, kPayload, kNow + kHour));
  ASSERT_TRUE(driver.Write(3, kPayload, kNoDeadline));
  driver.Flush();
  Open();
  const auto found = Recover(kNow + kHour / 2);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_FALSE(found.contains(1));
  ASSERT_TRUE(found.contains(3));
  EXPECT_EQ(tier().CopyEnd(found.at(3)), kNoDeadline);
  TierDriver again = Driver();
  EXPECT_TRUE(again.Until([&] { return directory_.BytesOf(".blob") <= 2 * kPayload + 65'536; }));
}

TEST_F(RocksTierTest, ItDeclinesBeforeTheDirectoryIsLargerThanItsCapacity) {
  Open(32u << 20);
  Recover(kNow);
  TierDriver driver = Driver();
  uint64_t written = 0;
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    if (!driver.Write(seed, kPayload, kNow + kHour)) break;
    ++written;
  }
  EXPECT_GE(written, 29u);
  EXPECT_LT(written, 32u);
  EXPECT_TRUE(tier().NeedsRoom());
  driver.Flush();
  EXPECT_LE(directory_.BytesOf(".blob") + directory_.BytesOf(".sst"), 32u << 20);
}

TEST_F(RocksTierTest, TwoPutsOfOneKeyAreTwoCopies) {
  Open();
  Recover(kNow);
  TierDriver driver = Driver();
  TestFrame first(7, kPayload);
  TestFrame second(7, kPayload);
  second.header().placement.write_id = 8;
  const auto older = driver.WriteFrame(first, kNow + kHour);
  const auto newer = driver.WriteFrame(second, kNow + kHour);
  ASSERT_TRUE(older && newer);
  tier().Free(*older);
  TestFrame target(0, kPayload);
  FrameExpect expect = first.expect();
  expect.write_id = 8;
  EXPECT_EQ(driver.ReadFrame(target, *newer, expect), FrameOutcome::kDone);
  driver.Flush();
  Open();
  const auto found = Recover(kNow);
  EXPECT_EQ(found.size(), 2u);  // the store takes the highest write id
}

TEST_F(RocksTierTest, UndurableBytesFallByFlushAge) {
  Open();
  Recover(kNow);
  TierDriver driver = Driver();
  const auto place = driver.Write(1, kPayload, kNow + kHour);
  ASSERT_TRUE(place);
  EXPECT_EQ(tier().usage().undurable_bytes, FrameBytes(kPayload));
  const Instant due = tier().NextStep();
  EXPECT_GT(due, Clock::System().Now());
  tier().Step(due - std::chrono::nanoseconds(1), kNow);
  EXPECT_EQ(tier().NextStep(), due);
  tier().Step(due, kNow);
  EXPECT_TRUE(driver.Until([&] { return tier().usage().undurable_bytes == 0; }));
  EXPECT_EQ(tier().NextStep(), Instant::max());
}

TEST_F(RocksTierTest, AReadOfWhatWasNeverWrittenIsCorruptNotFailed) {
  Open();
  Recover(kNow);
  TierDriver driver = Driver();
  const auto place = driver.Allocate({.payload_bytes = kPayload, .deadline = kNow + kHour});
  ASSERT_TRUE(place);
  EXPECT_EQ(driver.Read(1, *place, kPayload), FrameOutcome::kCorrupt);
  EXPECT_EQ(tier().usage().faults, 0u);
}

TEST_F(RocksTierTest, CapacityZeroIsTheMetaStoreAloneAndDropsWhatWasThere) {
  Open();
  Recover(kNow);
  ASSERT_TRUE(Driver().Write(1, kPayload, kNow + kHour));
  Driver().Flush();
  Open(0);
  EXPECT_EQ(disk_.tier, nullptr);
  ASSERT_NE(disk_.meta, nullptr);
  Open();
  EXPECT_TRUE(Recover(kNow).empty());
}

TEST_F(RocksTierTest, ASecondOpenOfADirectoryIsRefused) {
  Open();
  const Result<DiskTier> second = directory_.Open(directory_.Options(kCapacity));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(second.error().message().find(directory_.path()), std::string::npos);
  Recover(kNow);
  EXPECT_TRUE(Driver().Write(1, kPayload, kNow + kHour));  // the first is unharmed
}

TEST_F(RocksTierTest, ANewerFormatVersionIsRefusedByName) {
  {
    auto database = directory_.OpenDatabase();
    ASSERT_TRUE(database.has_value());
    const rocksdb::Slice key(FormatKey().data(), FormatKey().size());
    ASSERT_TRUE((*database)->db().Put({}, (*database)->meta(), key, EncodeFormat(7)).ok());
  }
  const Result<DiskTier> opened = directory_.Open(directory_.Options(kCapacity));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(opened.error().message().find("version 7"), std::string::npos);
}

TEST_F(RocksTierTest, ADamagedDatabaseIsDataLossNamingItsDirectory) {
  Open();
  Recover(kNow);
  ASSERT_TRUE(Driver().Write(1, kPayload, kNow + kHour));
  Driver().Flush();
  disk_ = {};
  std::ofstream(directory_.path() + "/CURRENT") << "MANIFEST-999999\n";
  const Result<DiskTier> opened = directory_.Open(directory_.Options(kCapacity));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code(), StatusCode::kDataLoss);
  EXPECT_NE(opened.error().message().find(directory_.path()), std::string::npos);
}

TEST_F(RocksTierTest, ADamagedBlobIsCorruptAndTheRestIsServed) {
  Open();
  Recover(kNow);
  {
    TierDriver driver = Driver();
    ASSERT_TRUE(driver.Write(1, kPayload, kNow + kHour));
    ASSERT_TRUE(driver.Write(2, kPayload, kNow + kHour));
    driver.Flush();
  }
  disk_ = {};
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    if (entry.path().extension() != ".blob") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kPayload / 2);
    file.write("damaged", 7);
  }
  Open();
  const auto found = Recover(kNow);
  ASSERT_EQ(found.size(), 2u);
  TierDriver driver = Driver();
  EXPECT_EQ(driver.Read(1, found.at(1), kPayload), FrameOutcome::kCorrupt);
  EXPECT_EQ(driver.Read(2, found.at(2), kPayload), FrameOutcome::kDone);
}

TEST_F(RocksTierTest, OptionsThatCannotWorkAreRefused) {
  for (int field = 0; field < 4; ++field) {
    DiskTierOptions options = directory_.Options(kCapacity);
    if (field == 0) options.directory.clear();
    if (field == 1) options.threads = 0;
    if (field == 2) options.families_max = 1;
    if (field == 3) options.start_thread = nullptr;
    const Result<DiskTier> opened = directory_.Open(options);
    ASSERT_FALSE(opened.has_value()) << field;
    EXPECT_EQ(opened.error().code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(RocksTierTest, ReopeningReadsRecordsNotPayloads) {
  Open();
  Recover(kNow);
  {
    TierDriver driver = Driver();
    for (uint64_t seed = 1; seed <= 48; ++seed) {
      ASSERT_TRUE(driver.Write(seed, kPayload, kNow + kHour));
    }
    driver.Flush();
  }
  Open();
  EXPECT_EQ(Recover(kNow).size(), 48u);
  EXPECT_LT(tier().usage().read_bytes, 4u << 20);
}

}  // namespace
}  // namespace holdfast::testing
