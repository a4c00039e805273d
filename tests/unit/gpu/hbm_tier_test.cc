#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kvstore/tiers.h"
#include "tests/testing/slow_device.h"
#include "tests/testing/start_thread.h"
#include "tests/testing/test_frame.h"
#include "tests/testing/tier_contract.h"
#include "tests/testing/virtual_clock.h"

namespace holdfast::testing {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupedTierContract);

namespace {

constexpr uint64_t kMiB = 1 << 20;

std::unique_ptr<Tier> Create(Device& device, Clock& clock, HbmTierOptions options) {
  auto tier = CreateHbmTier(device, clock, std::move(options));
  EXPECT_TRUE(tier.has_value()) << tier.error().ToString();
  return *std::move(tier);
}

class HbmUnderTest final : public TierUnderTest {
 public:
  HbmUnderTest(std::unique_ptr<Device> device, HbmTierOptions options)
      : device_(std::move(device)) {
    options.capacity_bytes = 512 * kMiB;
    tier_ = Create(*device_, clock_, std::move(options));
  }

  Tier& tier() override { return *tier_; }
  void Wait() override {
    if (auto* slow = dynamic_cast<SlowDevice*>(device_.get())) slow->Finish(1);
    std::this_thread::yield();
  }
  Instant Now() override { return clock_.Now(); }

 private:
  VirtualClock clock_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Tier> tier_;
};

template <typename MakeDevice>
TierCase Case(const std::string& name, MakeDevice make_device, const HbmTierOptions& options = {}) {
  return {name, [=] { return std::make_unique<HbmUnderTest>(make_device(), options); }};
}
std::unique_ptr<Device> MakeSlow() { return std::make_unique<SlowDevice>(); }

INSTANTIATE_TEST_SUITE_P(
    Hbm, TierContract,
    ::testing::Values(Case("OverHostDevice", CreateHostDevice), Case("OverSlowDevice", MakeSlow),
                      Case("OverSlowDeviceWithWorkers", MakeSlow, {.start_thread = StartThread})),
    TierCaseName);

// One tier over a device that ends copies when told to.
class HbmTierTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tier> Make(HbmTierOptions options) {
    options.capacity_bytes = 4 * kMiB;
    options.page_bytes = kMiB;
    return Create(device_, clock_, std::move(options));
  }
  FrameOp Op(FrameOpKind kind, Place place, TestFrame& frame, uint64_t seed) {
    return {.kind = kind,
            .place = place,
            .header = &frame.header(),
            .payload = frame.extents(),
            .expect = TestFrame(seed, frame.payload_bytes()).expect()};
  }
  Place Write(Tier& tier, TestFrame& frame) {
    const auto place = tier.Allocate({.payload_bytes = frame.payload_bytes()});
    FrameOp op = Op(FrameOpKind::kWrite, *place, frame, 0);
    tier.Submit(&op);
    device_.Finish();
    EXPECT_EQ(PollOne(tier), &op);
    return *place;
  }
  static FrameOp* PollOne(Tier& tier) {
    FrameOp* out = nullptr;
    return tier.Poll({&out, 1}) == 1 ? out : nullptr;
  }

  VirtualClock clock_;
  SlowDevice device_;
};

TEST_F(HbmTierTest, OptionsAreChecked) {
  for (const HbmTierOptions& options :
       {HbmTierOptions{.capacity_bytes = 0}, HbmTierOptions{.capacity_bytes = kMiB},
        HbmTierOptions{.capacity_bytes = kMiB, .page_bytes = 3}}) {
    const auto tier = CreateHbmTier(device_, clock_, options);
    ASSERT_FALSE(tier.has_value());
    EXPECT_EQ(tier.error().code(), StatusCode::kInvalidArgument) << tier.error().ToString();
  }
  const auto tier = CreateHbmTier(device_, clock_, {.capacity_bytes = 1ull << 43});
  if (!tier.has_value()) {
    EXPECT_NE(tier.error().message().find("hbm: capacity_bytes 8796093022208"), std::string::npos);
  }
}

TEST_F(HbmTierTest, SlotsHoldThePayloadAlone) {
  auto tier = Make({});
  std::vector<Place> places;
  while (auto place = tier->Allocate({.payload_bytes = kMiB / 2})) places.push_back(*place);
  EXPECT_EQ(places.size(), 8u);
  EXPECT_EQ(tier->usage().used_bytes, 4 * kMiB);
  for (const Place& place : places) tier->Free(place);
  EXPECT_EQ(tier->usage().used_bytes, 0u);
  EXPECT_EQ(tier->usage().live_copies, 0u);
}

TEST_F(HbmTierTest, AnOpIsNotDoneBeforeTheDeviceIs) {
  auto tier = Make({});
  TestFrame frame(1, 5000);
  const Place place = Write(*tier, frame);
  TestFrame target(0, 5000);
  FrameOp read = Op(FrameOpKind::kRead, place, target, 1);
  tier->Submit(&read);
  EXPECT_EQ(PollOne(*tier), nullptr);
  EXPECT_EQ(tier->in_flight(), 1u);
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kDone);
  EXPECT_TRUE(target.Holds(1, 0, 5000));
  EXPECT_EQ(tier->in_flight(), 0u);
}

TEST_F(HbmTierTest, BytesThatChangedInDeviceMemoryAreReported) {
  // The write's source changes before the device has read it: what arrives does not match.
  auto tier = Make({});
  TestFrame frame(2, 300'000);
  const auto place = tier->Allocate({.payload_bytes = 300'000});
  FrameOp write = Op(FrameOpKind::kWrite, *place, frame, 0);
  tier->Submit(&write);
  frame.payload()[280'000] ^= std::byte{1};
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &write);
  TestFrame target(0, 300'000);
  FrameOp read = Op(FrameOpKind::kRead, *place, target, 2);
  tier->Submit(&read);
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kCorrupt);
  EXPECT_EQ(read.fault, FrameFault::kPayload);
}

TEST_F(HbmTierTest, WithoutVerifyPayloadsAreTakenAsTheyAre) {
  auto tier = Make({.verify = false});
  TestFrame frame(2, 4096);
  frame.payload()[0] ^= std::byte{1};
  const Place place = Write(*tier, frame);
  TestFrame target(0, 4096);
  FrameOp read = Op(FrameOpKind::kRead, place, target, 2);
  tier->Submit(&read);
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kDone);
}

TEST_F(HbmTierTest, AFailedOrRefusedCopyFailsTheOpAndIsCounted) {
  auto tier = Make({});
  TestFrame frame(3, 4096);
  const Place place = Write(*tier, frame);
  TestFrame target(0, 4096);
  FrameOp read = Op(FrameOpKind::kRead, place, target, 3);
  tier->Submit(&read);
  device_.FailNext(1);
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kFailed);
  EXPECT_EQ(read.os_errno, EIO);
  device_.RefuseNext(1);
  tier->Submit(&read);
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kFailed);
  EXPECT_EQ(read.os_errno, ENODEV);
  EXPECT_EQ(tier->usage().faults, 2u);
  EXPECT_EQ(tier->usage().last_errno, ENODEV);
  tier->Submit(&read);
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kDone) << "the copy itself is as good as ever";
  EXPECT_EQ(tier->usage().read_bytes, 4096u);
  EXPECT_EQ(tier->usage().written_bytes, 4096u);
}

TEST_F(HbmTierTest, WhatWasNeverWrittenOrWhoseWriteFailedIsNoFrame) {
  auto tier = Make({});
  TestFrame frame(4, 4096);
  const Place place = *tier->Allocate({.payload_bytes = 4096});
  TestFrame target(0, 4096);
  FrameOp read = Op(FrameOpKind::kRead, place, target, 4);
  tier->Submit(&read);
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kCorrupt);
  FrameOp write = Op(FrameOpKind::kWrite, place, frame, 0);
  tier->Submit(&write);
  device_.FailNext(1);
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &write);
  EXPECT_EQ(write.outcome, FrameOutcome::kFailed);
  tier->Submit(&read);
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kCorrupt);
}

TEST_F(HbmTierTest, AFreedSlotComesBackOnlyWithItsLastOp) {
  auto tier = Make({});
  TestFrame frame(5, kMiB);
  const Place place = Write(*tier, frame);
  TestFrame target(0, kMiB);
  FrameOp read = Op(FrameOpKind::kRead, place, target, 5);
  tier->Submit(&read);
  tier->Free(place);
  EXPECT_EQ(tier->usage().live_copies, 0u);
  for (int i = 0; i < 3; ++i) {
    const auto other = tier->Allocate({.payload_bytes = kMiB});
    ASSERT_TRUE(other.has_value());
    EXPECT_NE(*other, place);
  }
  EXPECT_FALSE(tier->Allocate({.payload_bytes = kMiB}).has_value());
  device_.Finish();
  EXPECT_EQ(PollOne(*tier), &read);
  EXPECT_EQ(read.outcome, FrameOutcome::kDone);
  EXPECT_EQ(tier->Allocate({.payload_bytes = kMiB}), place);
}

TEST_F(HbmTierTest, WithoutBytesNothingIsCopiedAndAllSucceeds) {
  auto tier = Make({.bytes = false});
  EXPECT_EQ(tier->engine(), "none");
  const Place place = *tier->Allocate({.payload_bytes = kMiB});
  FrameOp write{.kind = FrameOpKind::kWrite, .place = place};
  FrameOp read{.kind = FrameOpKind::kRead, .place = place};
  tier->Submit(&write);
  tier->Submit(&read);
  FrameOp* out[3];
  EXPECT_EQ(tier->Poll(out), 2u);
  EXPECT_EQ(read.outcome, FrameOutcome::kDone);
  EXPECT_EQ(device_.queued(), 0u);
  EXPECT_EQ(tier->usage().used_bytes, kMiB);
  EXPECT_EQ(tier->usage().read_bytes, 0u);
}

TEST_F(HbmTierTest, WorkersStartWithTheFirstLateReadVerifyAndWake) {
  std::atomic<int> started{0};
  std::atomic<int> woken{0};
  auto tier = Make({.start_thread =
                        [&](const std::string& name, std::function<void()> body) {
                          EXPECT_EQ(name.rfind("hf-worker-", 0), 0u);
                          ++started;
                          return testing::StartThread(name, std::move(body));
                        },
                    .workers = 2,
                    .wake = [&] { ++woken; }});
  TestFrame frame(6, 100'000);
  const Place place = Write(*tier, frame);
  EXPECT_EQ(started, 0) << "writes need none";
  EXPECT_EQ(woken, 1);
  constexpr int kReads = 20;
  std::vector<std::unique_ptr<TestFrame>> targets;
  std::vector<FrameOp> reads;
  for (int i = 0; i < kReads; ++i) {
    targets.push_back(std::make_unique<TestFrame>(0, 100'000));
    reads.push_back(Op(FrameOpKind::kRead, place, *targets.back(), i == 7 ? 99 : 6));
  }
  for (FrameOp& read : reads) tier->Submit(&read);
  device_.Finish();
  for (int polled = 0; polled < kReads;) {
    FrameOp* out[4];
    polled += static_cast<int>(tier->Poll(out));
    std::this_thread::yield();
  }
  EXPECT_EQ(started, 2);
  for (int i = 0; i < kReads; ++i) {
    EXPECT_EQ(reads[i].outcome, i == 7 ? FrameOutcome::kCorrupt : FrameOutcome::kDone);
    EXPECT_TRUE(i == 7 || targets[i]->Holds(6, 0, 100'000));
  }
  tier.reset();  // joins: every wake has been made
  EXPECT_EQ(woken, 1 + kReads);
}

TEST(HbmTierStressTest, ManySubmittersAndOnePollerEndEveryOpOnce) {
  auto device = CreateHostDevice();
  auto tier = Create(*device, Clock::System(), {.capacity_bytes = 8 * kMiB, .page_bytes = kMiB});
  constexpr size_t kThreads = 3;
  constexpr size_t kEach = 300;
  std::vector<Place> places;
  for (size_t t = 0; t < kThreads; ++t) {
    places.push_back(*tier->Allocate({.payload_bytes = 8192}));
  }
  std::vector<std::thread> threads;
  std::atomic<size_t> bad{0};
  std::vector<std::atomic<bool>> ended(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestFrame frame(t + 1, 8192);
      TestFrame target(0, 8192);
      for (size_t i = 0; i < kEach; ++i) {
        const bool write = i % 2 == 0;
        FrameOp op{.kind = write ? FrameOpKind::kWrite : FrameOpKind::kRead,
                   .place = places[t],
                   .header = write ? &frame.header() : &target.header(),
                   .payload = write ? frame.extents() : target.extents(),
                   .expect = frame.expect(),
                   .tag = t};
        ended[t] = false;
        tier->Submit(&op);
        while (!ended[t]) std::this_thread::yield();
        if (op.outcome != FrameOutcome::kDone) ++bad;
      }
    });
  }
  for (size_t polled = 0; polled < kThreads * kEach;) {
    FrameOp* out[2];
    const size_t n = tier->Poll(out);
    for (size_t i = 0; i < n; ++i) ended[out[i]->tag] = true;
    polled += n;
    if (n == 0) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0u);
  EXPECT_EQ(tier->in_flight(), 0u);
  EXPECT_EQ(tier->usage().written_bytes, kThreads * kEach / 2 * 8192);
}

}  // namespace
}  // namespace holdfast::testing
