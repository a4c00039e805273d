#include "kvstore/arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tiers/populate.h"

namespace holdfast {
namespace {

using internal::Populate;
using internal::PopulateState;
using internal::PopulateWith;

constexpr uint64_t kMiB = 1 << 20;
const ArenaOptions kSmall{.space = {.range_bytes = 8 * kMiB, .page_bytes = kMiB}};

std::unique_ptr<Arena> Create(const ArenaOptions& options) {
  auto arena = Arena::Create(options);
  EXPECT_TRUE(arena.has_value()) << arena.error().ToString();
  return *std::move(arena);
}

// The line of /proc/self/smaps that starts with `name`, of the mapping at `memory`.
std::string SmapsLine(const std::byte* memory, const std::string& name) {
  std::ifstream smaps("/proc/self/smaps");
  const auto at = std::bit_cast<uintptr_t>(memory);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    const size_t dash = line.find('-');
    if (dash != std::string::npos && dash < line.find(' ') && dash < line.find(':')) {
      inside = std::stoull(line, nullptr, 16) <= at &&
               at < std::stoull(line.substr(dash + 1), nullptr, 16);
    } else if (inside && line.rfind(name, 0) == 0) {
      return line;
    }
  }
  return {};
}

size_t ResidentPages(std::span<std::byte> memory) {
  std::vector<unsigned char> resident(memory.size() / 4096);
  EXPECT_EQ(::mincore(memory.data(), memory.size(), resident.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(resident, [](auto r) { return (r & 1) != 0; }));
}

std::function<void()> StartThread(const std::string& name, std::function<void()> body) {
  EXPECT_EQ(name, "hf-populate");
  auto thread = std::make_shared<std::thread>(std::move(body));
  return [thread] { thread->join(); };
}

TEST(ArenaTest, FramesLieInMemoryThatStartsOnAHugePage) {
  auto arena = Create(kSmall);
  EXPECT_EQ(std::bit_cast<uintptr_t>(arena->data(0)) % (2 * kMiB), 0u);
  EXPECT_EQ(arena->range_bytes(), 8 * kMiB);
  while (auto offset = arena->space().Allocate(260 << 10)) {
    std::memset(arena->data(*offset), 0x5a, 260 << 10);
  }
  EXPECT_EQ(arena->space().frames(), arena->space().CapacityFrames(260 << 10));
}

TEST(ArenaTest, RangeIsKeptOutOfDumpsAndForksAndAsksForHugePages) {
  auto arena = Create(kSmall);
  const std::string flags = SmapsLine(arena->data(0), "VmFlags:");
  EXPECT_NE(flags.find(" dd"), std::string::npos) << flags;
  EXPECT_NE(flags.find(" dc"), std::string::npos) << flags;
  EXPECT_NE(flags.find(" hg"), std::string::npos) << flags;
}

TEST(ArenaTest, HugePagesAreReportedAsTheKernelGaveThem) {
  auto arena = Create(kSmall);
  const std::string line = SmapsLine(arena->data(0), "AnonHugePages:");
  ASSERT_FALSE(line.empty());
  EXPECT_EQ(arena->huge_pages(), std::stoull(line.substr(line.find(':') + 1)) > 0) << line;
}

TEST(ArenaTest, BackgroundThreadPopulatesAll) {
  ArenaOptions options = kSmall;
  std::function<void()> join;
  options.start_thread = [&join](std::string name, std::function<void()> body) {
    join = StartThread(name, std::move(body));
    return [] {};
  };
  auto arena = Create(options);
  join();
  EXPECT_EQ(arena->populated_bytes(), 8 * kMiB);
  EXPECT_EQ(ResidentPages({arena->data(0), 8 * kMiB}), 8 * kMiB / 4096);
}

TEST(ArenaTest, PopulatingIsOptionalAndEndsWithTheArena) {
  int started = 0;
  int joined = 0;
  ArenaOptions options = kSmall;
  options.start_thread = [&](std::string name, std::function<void()> body) {
    ++started;
    return [&joined, join = StartThread(name, std::move(body))] {
      join();
      ++joined;
    };
  };
  Create(options).reset();
  EXPECT_EQ(started, 1);
  EXPECT_EQ(joined, 1);
  options.populate = false;
  Create(options).reset();
  EXPECT_EQ(started, 1);
}

TEST(ArenaTest, WithoutBytesHundredsOfGigabytesCostNothingAndCannotBeTouched) {
  const ArenaOptions options{.space = {.range_bytes = 6200 * (64 * kMiB)}, .bytes = false};
  auto arena = Create(options);
  const auto offset = arena->space().Allocate(2 * kMiB + 4096);
  ASSERT_TRUE(offset.has_value());
  EXPECT_EQ(SmapsLine(arena->data(0), "Rss:").find_first_of("123456789"), std::string::npos);
  EXPECT_FALSE(arena->huge_pages());
  EXPECT_DEATH(std::memset(arena->data(*offset), 1, 1), "");
}

TEST(ArenaTest, BadOptionsAreNamed) {
  struct Case {
    FrameSpaceOptions space;
    std::string_view named;
  };
  for (const Case& c : {Case{{.range_bytes = 0}, "range_bytes 0"},
                        Case{{.range_bytes = 3 * kMiB, .page_bytes = 2 * kMiB}, "range_bytes 3145"},
                        Case{{.range_bytes = 3 * kMiB, .page_bytes = 3 * kMiB}, "page_bytes 3145"},
                        Case{{.range_bytes = 4 * kMiB, .page_bytes = 4096}, "page_bytes 4096"}}) {
    const auto arena = Arena::Create({.space = c.space});
    ASSERT_FALSE(arena.has_value());
    EXPECT_EQ(arena.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(arena.error().message().find(c.named), std::string_view::npos)
        << arena.error().ToString();
  }
}

TEST(ArenaTest, RefusedRangeTellsSizeAndErrno) {
  const auto arena = Arena::Create({.space = {.range_bytes = 1ull << 56}});
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code(), StatusCode::kIoError);
  EXPECT_EQ(arena.error().os_errno(), ENOMEM);
  EXPECT_NE(arena.error().message().find("range_bytes 72057594037927936"), std::string_view::npos);
}

class PopulateTest : public ::testing::TestWithParam<PopulateWith> {
 protected:
  static constexpr size_t kBytes = 4 * kMiB;
  void SetUp() override {
    void* mapped =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(mapped), kBytes};
  }
  void TearDown() override { ::munmap(memory_.data(), kBytes); }

  std::span<std::byte> memory_;
};

TEST_P(PopulateTest, GivesEveryPageAndKeepsWhatIsThere) {
  memory_[4096] = std::byte{7};
  PopulateState state;
  Populate(memory_, GetParam(), state);
  EXPECT_EQ(state.populated_bytes, kBytes);
  EXPECT_EQ(ResidentPages(memory_), kBytes / 4096);
  EXPECT_EQ(memory_[4096], std::byte{7});
}

TEST_P(PopulateTest, DoesNothingOnceStopped) {
  PopulateState state;
  state.stop = true;
  Populate(memory_, GetParam(), state);
  EXPECT_EQ(state.populated_bytes, 0u);
  EXPECT_EQ(ResidentPages(memory_), 0u);
}

TEST_P(PopulateTest, WritersBesideItLoseNothing) {
  PopulateState state;
  std::thread populate([&] { Populate(memory_, GetParam(), state); });
  for (size_t i = 0; i < kBytes; i += 512) memory_[i] = std::byte{0xa5};
  populate.join();
  for (size_t i = 0; i < kBytes; i += 512) ASSERT_EQ(memory_[i], std::byte{0xa5}) << i;
}

INSTANTIATE_TEST_SUITE_P(Ways, PopulateTest,
                         ::testing::Values(PopulateWith::kKernel, PopulateWith::kTouch));

}  // namespace
}  // namespace holdfast
