#include "kvstore/frame_space.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace holdfast {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kPage = 64 * kKiB;

std::vector<uint64_t> Fill(FrameSpace& space, uint64_t bytes) {
  std::vector<uint64_t> offsets;
  while (auto offset = space.Allocate(bytes)) offsets.push_back(*offset);
  return offsets;
}

TEST(FrameSpaceTest, EmptyRangeHoldsWhatCapacitySays) {
  for (const uint64_t bytes :
       {4 * kKiB, 8 * kKiB, 20 * kKiB, 36 * kKiB, 64 * kKiB, 68 * kKiB, 128 * kKiB, 300 * kKiB}) {
    FrameSpace space({.range_bytes = 16 * kPage, .page_bytes = kPage});
    const uint64_t capacity = space.CapacityFrames(bytes);
    EXPECT_EQ(space.Available(bytes), capacity) << bytes;
    EXPECT_EQ(Fill(space, bytes).size(), capacity) << bytes;
    EXPECT_EQ(space.Available(bytes), 0u) << bytes;
    EXPECT_EQ(space.used_bytes(), capacity * bytes);
    EXPECT_EQ(space.frames(), capacity);
  }
}

TEST(FrameSpaceTest, EmptyRangeOfNoPagesRefusesAll) {
  FrameSpace space({.range_bytes = 0, .page_bytes = kPage});
  EXPECT_FALSE(space.Allocate(4 * kKiB).has_value());
  EXPECT_EQ(space.CapacityFrames(4 * kKiB), 0u);
  EXPECT_EQ(space.PageToTake(4 * kKiB), std::nullopt);
}

TEST(FrameSpaceTest, FrameOfThreePagesIsContiguousAndFreesAllOfThem) {
  FrameSpace space({.range_bytes = 6 * kPage, .page_bytes = kPage});
  const uint64_t bytes = 3 * kPage;
  const auto first = space.Allocate(bytes);
  const auto second = space.Allocate(bytes);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(std::max(*first, *second) - std::min(*first, *second), bytes);
  EXPECT_FALSE(space.Allocate(4 * kKiB).has_value());
  space.Free(*first);
  EXPECT_EQ(space.Available(4 * kKiB), 3 * kPage / (4 * kKiB));
}

TEST(FrameSpaceTest, PageChangesItsSizeOnceItsFramesAreFreed) {
  FrameSpace space({.range_bytes = 4 * kPage, .page_bytes = kPage});
  for (const uint64_t offset : Fill(space, 8 * kKiB)) space.Free(offset);
  EXPECT_EQ(Fill(space, 12 * kKiB).size(), space.CapacityFrames(12 * kKiB));
}

TEST(FrameSpaceTest, SizeInUseKeepsItsLastTwoPages) {
  FrameSpace space({.range_bytes = 8 * kPage, .page_bytes = kPage});
  std::vector<uint64_t> kept;
  for (int i = 0; i < 16; ++i) kept.push_back(*space.Allocate(8 * kKiB));  // two pages
  while (kept.size() > 1) {
    space.Free(kept.back());
    kept.pop_back();
  }
  EXPECT_EQ(Fill(space, 16 * kKiB).size(), 6u * 4);
  EXPECT_EQ(space.PageToTake(16 * kKiB), std::nullopt) << "the only other size is at its floor";
  EXPECT_EQ(space.Available(8 * kKiB), 15u);
  space.Free(kept[0]);  // no longer in use: both pages come back
  EXPECT_EQ(space.Available(16 * kKiB), 2u * 4);
}

TEST(FrameSpaceTest, PageToTakeIsTheOneWithFewestFramesAboveTheFloor) {
  FrameSpace space({.range_bytes = 4 * kPage, .page_bytes = kPage});
  std::vector<uint64_t> frames = Fill(space, 8 * kKiB);
  std::ranges::sort(frames);
  for (size_t i = 17; i < 23; ++i) space.Free(frames[i]);  // the third page keeps two
  const auto page = space.PageToTake(16 * kKiB);
  ASSERT_EQ(page, 2 * kPage);
  std::vector<uint64_t> victims;
  space.FramesOfPage(*page, victims);
  std::ranges::sort(victims);
  EXPECT_EQ(victims, (std::vector<uint64_t>{frames[16], frames[23]}));
  EXPECT_NE(space.PageToTake(16 * kKiB, {{*page}}), page) << "excepted";
  for (const uint64_t offset : victims) space.Free(offset);
  EXPECT_EQ(space.Available(16 * kKiB), 4u);
}

TEST(FrameSpaceTest, ClosedPageTakesNoFramesUntilItIsEmptyOrReopened) {
  FrameSpace space({.range_bytes = 3 * kPage, .page_bytes = kPage});
  std::vector<uint64_t> frames = Fill(space, 8 * kKiB);
  const auto page = space.PageToTake(16 * kKiB);
  ASSERT_TRUE(page.has_value());
  std::vector<uint64_t> victims;
  space.FramesOfPage(*page, victims);
  space.ClosePage(*page);
  space.Free(victims[0]);
  EXPECT_EQ(space.Available(8 * kKiB), 0u);
  EXPECT_FALSE(space.Allocate(8 * kKiB).has_value());
  space.ReopenPage(*page);
  EXPECT_EQ(space.Available(8 * kKiB), 1u);
  EXPECT_EQ(space.Allocate(8 * kKiB), victims[0]);
  space.ClosePage(*page);
  for (const uint64_t offset : victims) space.Free(offset);
  EXPECT_EQ(space.Available(16 * kKiB), 4u) << "empty: free for every size";
}

TEST(FrameSpaceTest, HundredsOfGigabytesOfAddressSpaceCostLittle) {
  constexpr uint64_t kFrame = (2ull << 20) + 4096;
  constexpr uint64_t kFrames = 190'000;
  FrameSpace space({.range_bytes = 6200 * (64ull << 20)});
  ASSERT_GE(space.CapacityFrames(kFrame), kFrames);
  std::set<uint64_t> offsets;
  for (uint64_t i = 0; i < kFrames; ++i) offsets.insert(*space.Allocate(kFrame));
  EXPECT_EQ(offsets.size(), kFrames);
  EXPECT_EQ(space.used_bytes(), kFrames * kFrame);
  for (const uint64_t offset : offsets) space.Free(offset);
  EXPECT_EQ(space.frames(), 0u);
}

// What FrameSpace promises, kept the slow and obvious way.
class Model {
 public:
  void Allocated(uint64_t offset, uint64_t bytes) {
    ASSERT_EQ(offset % kPageBytes, 0u);
    ASSERT_LE(offset + bytes, space_bytes_);
    auto next = frames_.lower_bound(offset);
    if (next != frames_.end()) {
      ASSERT_LE(offset + bytes, next->first) << "overlap";
    }
    if (next != frames_.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, offset) << "overlap";
    }
    if (bytes <= kPage) {
      ASSERT_EQ(offset / kPage, (offset + bytes - 1) / kPage) << "straddles two pages";
    }
    frames_[offset] = bytes;
    used_ += bytes;
  }
  void Freed(uint64_t offset) {
    used_ -= frames_.at(offset);
    frames_.erase(offset);
  }
  uint64_t Random(std::mt19937_64& random) const {
    auto it = frames_.lower_bound(random() % space_bytes_);
    return it == frames_.end() ? frames_.begin()->first : it->first;
  }
  // Pages on which frames of this size lie, runs counted whole.
  uint64_t PagesOf(uint64_t bytes) const {
    std::set<uint64_t> heads;
    for (const auto& [offset, size] : frames_) {
      if (size == bytes) heads.insert(offset / kPage);
    }
    return heads.size() * ((bytes + kPage - 1) / kPage);
  }
  std::vector<uint64_t> OnPage(uint64_t page_offset) const {
    std::vector<uint64_t> found;
    for (const auto& [offset, bytes] : frames_) {
      if (offset < page_offset + kPage && offset + bytes > page_offset) found.push_back(offset);
    }
    return found;
  }
  const std::map<uint64_t, uint64_t>& frames() const { return frames_; }
  uint64_t used() const { return used_; }
  explicit Model(uint64_t space_bytes) : space_bytes_(space_bytes) {}

 private:
  uint64_t space_bytes_;
  std::map<uint64_t, uint64_t> frames_;
  uint64_t used_ = 0;
};

class FrameSpacePropertyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t kRange = 80 * kPage;

  void Allocate(uint64_t bytes) {
    const uint64_t available = space_.Available(bytes);
    const auto offset = space_.Allocate(bytes);
    ASSERT_EQ(offset.has_value(), available > 0);
    if (!offset) return MakeRoom(bytes);
    model_.Allocated(*offset, bytes);
    ASSERT_EQ(space_.Available(bytes), available - 1);
  }
  void Free(uint64_t offset) {
    const uint64_t bytes = model_.frames().at(offset);
    const uint64_t available = space_.Available(bytes);
    space_.Free(offset);
    model_.Freed(offset);
    ASSERT_GT(space_.Available(bytes), available);
  }
  // Takes pages as PageToTake says; each takes its frames, and the frame fits in the end.
  void MakeRoom(uint64_t bytes) {
    const uint64_t run = (bytes + kPage - 1) / kPage;
    for (uint64_t round = 0; space_.Available(bytes) == 0; ++round) {
      const auto page = space_.PageToTake(bytes);
      if (!page) return;
      ASSERT_LT(round, run) << "each page taken brings the run nearer";
      std::vector<uint64_t> victims;
      space_.FramesOfPage(*page, victims);
      std::ranges::sort(victims);
      ASSERT_EQ(victims, model_.OnPage(*page));
      ASSERT_FALSE(victims.empty());
      const uint64_t size = model_.frames().at(victims[0]);
      ASSERT_NE(size, bytes);
      ASSERT_GE(model_.PagesOf(size), 2 + (size + kPage - 1) / kPage) << "taken from the floor";
      if (random_() % 2 == 0) space_.ClosePage(*page);
      std::ranges::shuffle(victims, random_);
      for (const uint64_t victim : victims) {
        space_.Free(victim);
        model_.Freed(victim);
      }
    }
    ++rooms_made_;
  }

  std::mt19937_64 random_{GetParam()};
  FrameSpace space_{{.range_bytes = kRange, .page_bytes = kPage}};
  Model model_{kRange};
  int rooms_made_ = 0;
};

TEST_P(FrameSpacePropertyTest, AgreesWithTheNaiveModel) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  const std::vector<uint64_t> sizes = {4 * kKiB,  8 * kKiB,  12 * kKiB,  20 * kKiB,
                                       36 * kKiB, 64 * kKiB, 100 * kKiB, 200 * kKiB};
  for (int step = 0; step < 9000 && !HasFatalFailure(); ++step) {
    // Phases of growth and of shrinking, so that pages change hands.
    const uint64_t grow = (step / 500) % 3 == 2 ? 30 : 65;
    if (model_.frames().empty() || random_() % 100 < grow) {
      Allocate(sizes[random_() % (1 + random_() % sizes.size())]);
    } else {
      Free(model_.Random(random_));
    }
    ASSERT_EQ(space_.used_bytes(), model_.used());
    ASSERT_EQ(space_.frames(), model_.frames().size());
  }
  EXPECT_GT(rooms_made_, 10);
  while (!model_.frames().empty() && !HasFatalFailure()) Free(model_.Random(random_));
  for (const uint64_t bytes : sizes) {
    EXPECT_EQ(space_.Available(bytes), space_.CapacityFrames(bytes)) << "all came back";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FrameSpacePropertyTest, ::testing::Range<uint64_t>(1, 9));

TEST(FrameSpaceDeathTest, FreeingTwiceIsABug) {
  FrameSpace space({.range_bytes = 2 * kPage, .page_bytes = kPage});
  const uint64_t offset = *space.Allocate(8 * kKiB);
  [[maybe_unused]] const auto other = space.Allocate(8 * kKiB);
  space.Free(offset);
  EXPECT_DEATH(space.Free(offset), "check failed");
  EXPECT_DEATH(space.Free(*other + 4 * kKiB), "check failed");
}

}  // namespace
}  // namespace holdfast
