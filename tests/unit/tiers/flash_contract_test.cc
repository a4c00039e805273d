#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "tests/testing/tier_contract.h"
#include "tests/unit/tiers/sim_flash.h"

namespace holdfast::testing {
namespace {

class FlashUnderTest final : public TierUnderTest {
 public:
  FlashUnderTest(uint64_t capacity_bytes, FlashTierOptions options)
      : flash_(capacity_bytes, std::move(options)) {}
  Status Open() { return flash_.Open(); }

  Tier& tier() override { return flash_.tier(); }
  GroupedTier* grouped() override { return flash_.grouped(); }
  void Wait() override { flash_.LetTimePass(); }
  void Reopen() override { HF_CHECK(flash_.Open().ok()); }
  Instant Now() override { return flash_.clock().Now(); }

 private:
  SimFlash flash_;
};

std::unique_ptr<TierUnderTest> Make(uint64_t capacity_bytes, uint64_t segment_bytes) {
  auto flash = std::make_unique<FlashUnderTest>(
      capacity_bytes,
      FlashTierOptions{
          .segment_bytes = segment_bytes, .segment_bytes_min = segment_bytes, .segments_min = 4});
  const Status status = flash->Open();
  EXPECT_TRUE(status.ok()) << status.ToString();
  return status.ok() ? std::move(flash) : nullptr;
}

std::unique_ptr<TierUnderTest> MakeFlash() { return Make(300u << 20, 32u << 20); }
std::unique_ptr<TierUnderTest> MakeSmallFlash() { return Make(64u << 20, 8u << 20); }

INSTANTIATE_TEST_SUITE_P(Flash, TierContract, ::testing::Values(TierCase{"sim", MakeFlash}),
                         TierCaseName);
INSTANTIATE_TEST_SUITE_P(Flash, GroupedTierContract,
                         ::testing::Values(TierCase{"sim", MakeSmallFlash}), TierCaseName);

}  // namespace
}  // namespace holdfast::testing
