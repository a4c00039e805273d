// One suite over every device.
#include "kvstore/device.h"

#include <cstring>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/testing/slow_device.h"

namespace holdfast {
namespace {

using testing::SlowDevice;

struct DeviceUnderTest {
  std::unique_ptr<Device> device;
  std::function<void()> let_finish = [] {};  // what was submitted ends now
};
struct DeviceCase {
  std::string name;
  std::function<DeviceUnderTest()> create;
};

class DeviceContract : public ::testing::TestWithParam<DeviceCase> {
 protected:
  std::byte* Allocate(uint64_t bytes) {
    auto memory = device().Allocate(bytes);
    EXPECT_TRUE(memory.has_value()) << memory.error().ToString();
    return *memory;
  }
  void Copy(std::span<const DeviceCopy> copies) {
    const auto event = device().SubmitCopies(copies);
    ASSERT_TRUE(event.has_value()) << event.error().ToString();
    under_test_.let_finish();
    EXPECT_EQ(device().Done(*event), 1);
  }
  Device& device() { return *under_test_.device; }

  DeviceUnderTest under_test_ = GetParam().create();
};

std::vector<std::byte> Pattern(size_t bytes, uint32_t seed) {
  std::vector<std::byte> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return pattern;
}

TEST_P(DeviceContract, PropertiesNameTheDeviceAndItsMemory) {
  EXPECT_FALSE(device().properties().name.empty());
  EXPECT_GT(device().properties().memory_bytes, 0u);
}

TEST_P(DeviceContract, MemoryIsAlignedToPages) {
  std::byte* one = Allocate(1);
  std::byte* large = Allocate(5'000'000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % 4096, 0u);
  device().Free(one);
  device().Free(large);
}

TEST_P(DeviceContract, MoreThanThereIsIsAnErrorWithAReason) {
  const auto memory = device().Allocate(1ull << 60);
  ASSERT_FALSE(memory.has_value());
  EXPECT_FALSE(memory.error().message().empty());
  EXPECT_FALSE(device().Allocate(0).has_value());
}

TEST_P(DeviceContract, BytesGoUpAcrossAndDownUnchanged) {
  const std::vector<std::byte> source = Pattern(100'001, 7);
  std::vector<std::byte> target(source.size());
  std::byte* first = Allocate(source.size());
  std::byte* second = Allocate(source.size());
  Copy({{DeviceCopy{first, source.data(), source.size()}}});
  Copy({{DeviceCopy{second, first, source.size()}}});
  Copy({{DeviceCopy{target.data(), second, source.size()}}});
  EXPECT_EQ(target, source);
  device().Free(first);
  device().Free(second);
}

TEST_P(DeviceContract, ABatchCopiesAllItsPiecesWithOneEvent) {
  const std::vector<std::byte> source = Pattern(64 * 1000, 3);
  std::vector<std::byte> target(source.size());
  std::byte* memory = Allocate(source.size());
  std::vector<DeviceCopy> up;
  std::vector<DeviceCopy> down;
  for (size_t i = 0; i < 64; ++i) {
    up.push_back({memory + (63 - i) * 1000, source.data() + i * 1000, 1000});
    down.push_back({target.data() + i * 1000, memory + (63 - i) * 1000, 1000});
  }
  Copy(up);
  Copy(down);
  EXPECT_EQ(target, source);
  device().Free(memory);
}

TEST_P(DeviceContract, TheListOfCopiesIsReadBeforeSubmitReturns) {
  const std::vector<std::byte> source = Pattern(4096, 5);
  std::byte* memory = Allocate(4096);
  std::vector<DeviceCopy> copies = {{memory, source.data(), 4096}};
  const auto event = device().SubmitCopies(copies);
  copies[0] = {};
  under_test_.let_finish();
  EXPECT_EQ(device().Done(*event), 1);
  EXPECT_EQ(std::memcmp(memory, source.data(), 4096), 0);
  device().Free(memory);
}

TEST_P(DeviceContract, AnEmptyBatchEndsToo) { Copy({}); }

TEST_P(DeviceContract, RegisteringHostMemoryIsNeverNeeded) {
  std::vector<std::byte> memory(4096);
  EXPECT_TRUE(device().RegisterHost(memory).ok());
  device().UnregisterHost(memory);
}

TEST_P(DeviceContract, EventsOfManyThreadsAreDistinctAndAllEnd) {
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 200;
  std::vector<std::vector<DeviceEvent>> events(kThreads);
  std::vector<std::vector<std::byte>> targets(kThreads, std::vector<std::byte>(kEach));
  const std::byte one{1};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kEach; ++i) {
        events[t].push_back(*device().SubmitCopies({{DeviceCopy{&targets[t][i], &one, 1}}}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  under_test_.let_finish();
  std::set<DeviceEvent> distinct;
  for (const auto& of_thread : events) {
    for (const DeviceEvent event : of_thread) {
      EXPECT_EQ(device().Done(event), 1);
      distinct.insert(event);
    }
  }
  EXPECT_EQ(distinct.size(), kThreads * kEach);
  for (const auto& target : targets) EXPECT_EQ(target, std::vector<std::byte>(kEach, one));
}

DeviceUnderTest MakeHost() { return {.device = CreateHostDevice()}; }
DeviceUnderTest MakeSlow() {
  auto device = std::make_unique<SlowDevice>();
  SlowDevice* slow = device.get();
  return {.device = std::move(device), .let_finish = [slow] { slow->Finish(); }};
}
INSTANTIATE_TEST_SUITE_P(All, DeviceContract,
                         ::testing::Values(DeviceCase{"Host", MakeHost},
                                           DeviceCase{"Slow", MakeSlow}),
                         [](const auto& param) { return param.param.name; });

TEST(SlowDeviceTest, NothingMovesUntilTheBatchEndsAndAFailedOneMovesNothing) {
  SlowDevice device;
  const std::byte source{7};
  std::byte target{0};
  const DeviceEvent event = *device.SubmitCopies({{DeviceCopy{&target, &source, 1}}});
  EXPECT_EQ(device.Done(event), 0);
  EXPECT_EQ(target, std::byte{0});
  device.FailNext(1);
  EXPECT_EQ(device.Finish(1), 1u);
  EXPECT_EQ(device.Done(event), -1);
  EXPECT_EQ(target, std::byte{0});
  device.RefuseNext(1);
  const auto refused = device.SubmitCopies({});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().os_errno(), ENODEV);
}

}  // namespace
}  // namespace holdfast
