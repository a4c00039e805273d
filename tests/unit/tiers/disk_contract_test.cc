// The contracts of Tier and GroupedTier, over RocksDB and over the simulated disk.
#include <utility>

#include "tests/testing/disk_directory.h"
#include "tests/testing/tier_contract.h"
#include "tests/testing/virtual_clock.h"
#include "tiers/sim_disk.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kCapacity = 256u << 20;

class RocksUnderTest final : public TierUnderTest {
 public:
  RocksUnderTest() { Open(); }
  Tier& tier() override { return *disk_.tier; }
  GroupedTier* grouped() override { return disk_.tier.get(); }
  void Wait() override { directory_.bell().Wait(); }
  void Reopen() override {
    disk_ = {};
    Open();
  }
  Instant Now() override { return Clock::System().Now(); }

 private:
  void Open() {
    Result<DiskTier> opened = directory_.Open(directory_.Options(kCapacity));
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    disk_ = *std::move(opened);
  }
  DiskDirectory directory_;
  DiskTier disk_;
};

class SimUnderTest final : public TierUnderTest {
 public:
  SimUnderTest() { Reopen(); }
  Tier& tier() override { return *disk_.tier; }
  GroupedTier* grouped() override { return disk_.tier.get(); }
  void Wait() override { clock_.Advance(std::chrono::milliseconds(1)); }
  void Reopen() override {
    disk_ = {};
    disk_ = OpenSimDisk(clock_, {.capacity_bytes = kCapacity}, medium_);
  }
  Instant Now() override { return clock_.Now(); }

 private:
  VirtualClock clock_;
  std::shared_ptr<SimDiskMedium> medium_ = std::make_shared<SimDiskMedium>();
  DiskTier disk_;
};

const TierCase kRocks{"Rocks", [] { return std::make_unique<RocksUnderTest>(); }};
const TierCase kSim{"Sim", [] { return std::make_unique<SimUnderTest>(); }};

INSTANTIATE_TEST_SUITE_P(Disk, TierContract, ::testing::Values(kRocks, kSim), TierCaseName);
INSTANTIATE_TEST_SUITE_P(Disk, GroupedTierContract, ::testing::Values(kRocks, kSim), TierCaseName);

}  // namespace
}  // namespace holdfast::testing
