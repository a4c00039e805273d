#include "tiers/bucket_table.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast {
namespace {

constexpr int64_t kMinute = 60'000;
constexpr int64_t kHour = 60 * kMinute;
constexpr uint64_t kPayload = 1 << 20;

// Creates what the table wants at once.
void CreateAll(BucketTable& table) {
  for (const GroupId id : table.TakeWanted()) table.Created(id);
}
std::optional<Place> Put(BucketTable& table, const Shape& shape) {
  std::optional<Place> place = table.Allocate(shape);
  CreateAll(table);
  return place ? place : table.Allocate(shape);
}
void DropAll(BucketTable& table) {
  for (const GroupId id : table.TakeDroppable()) table.Dropped(id);
}
void RetireWithCopies(BucketTable& table, GroupId id) {
  std::vector<LiveCopy> live;
  table.Live(id, live);
  table.BeginRetire(id);
  for (const LiveCopy& copy : live) table.Free(copy.place);
  table.Retire(id);
}

TEST(BucketLineTest, EndIsTheFirstMultipleAtOrAfterTheDeadline) {
  for (const int64_t remaining :
       {int64_t{1}, kMinute, kMinute + 1, 5 * kMinute, kHour, 5 * kHour, 24 * kHour, 90 * kHour}) {
    for (const HoldMillis now : {HoldMillis{0}, HoldMillis{123'456'789}}) {
      const HoldMillis deadline = now + remaining;
      const BucketLine line = LineOf(deadline, now);
      EXPECT_GE(line.end, deadline);
      EXPECT_LT(line.end, deadline + BucketMillis(line.width));
      EXPECT_EQ(line.end % BucketMillis(line.width), 0);
      if (remaining <= 24 * kHour) {
        EXPECT_GE(WidthMillis(line.width), remaining);
      }
      if (line.width > 0) {
        EXPECT_LT(WidthMillis(line.width - 1), remaining);
      }
    }
  }
}

TEST(BucketLineTest, CopiesWithoutDeadlineLieApartByCreation) {
  const BucketLine early = LineOf(kNoDeadline, 0);
  const BucketLine late = LineOf(kNoDeadline, 6 * kHour);
  EXPECT_EQ(early.end, kNoDeadline);
  EXPECT_EQ(early, LineOf(kNoDeadline, 6 * kHour - 1));
  EXPECT_NE(early, late);
  EXPECT_EQ(LineOf(kNoDeadline - 1, 0).end, kNoDeadline);  // nothing overflows
}

TEST(BucketTableTest, ABucketIsWantedOnceAndOneAhead) {
  BucketTable table({.capacity_bytes = 1ull << 30});
  const Shape shape{.payload_bytes = kPayload, .deadline = kHour};
  EXPECT_FALSE(table.Allocate(shape));
  EXPECT_FALSE(table.Allocate(shape));
  const std::vector<GroupId> wanted = table.TakeWanted();
  ASSERT_EQ(wanted.size(), 2u);
  EXPECT_EQ(table.Find(wanted[0])->line.end, kHour);
  EXPECT_EQ(table.Find(wanted[1])->line.end, kHour + kHour / 4);
  for (const GroupId id : wanted) table.Created(id);
  const std::optional<Place> place = table.Allocate(shape);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->group, wanted[0]);
  EXPECT_EQ(table.End(place->group), kHour);
  EXPECT_TRUE(table.TakeWanted().empty());
}

TEST(BucketTableTest, AFailedCreationIsWantedAgain) {
  BucketTable table({.capacity_bytes = 1ull << 30});
  const Shape shape{.payload_bytes = kPayload, .deadline = kHour};
  EXPECT_FALSE(table.Allocate(shape));
  for (const GroupId id : table.TakeWanted()) table.CreateFailed(id);
  EXPECT_TRUE(Put(table, shape));
}

TEST(BucketTableTest, ALineIsCutIntoSixteenthsOfTheCapacity) {
  BucketTable table({.capacity_bytes = 256 * BucketTable::CostOf(kPayload)});
  std::map<GroupId, int> copies;
  for (;;) {
    const auto place = Put(table, {.payload_bytes = kPayload, .deadline = kHour});
    if (!place) break;
    ++copies[place->group];
  }
  int sum = 0;
  for (const auto& [group, count] : copies) {
    EXPECT_LE(count, 16 + 1);
    sum += count;
  }
  EXPECT_EQ(sum, 256);
  EXPECT_TRUE(table.NeedsRoom());
}

TEST(BucketTableTest, FreedBytesComeBackWithTheBucketOnly) {
  BucketTable table({.capacity_bytes = 2 * BucketTable::CostOf(kPayload)});
  const Shape shape{.payload_bytes = kPayload, .deadline = kHour};
  const Place first = *Put(table, shape);
  const Place second = *Put(table, shape);
  table.BeginOperation(first);
  table.EndOperation(first);
  table.Free(first);
  EXPECT_EQ(table.Usage().live_copies, 1u);
  EXPECT_FALSE(Put(table, shape));  // written, so it still lies there
  table.Free(second);
  EXPECT_TRUE(Put(table, shape));  // never written, so its place is free
}

TEST(BucketTableTest, ABucketWaitsForCopiesAndOperations) {
  BucketTable table({.capacity_bytes = 1ull << 30});
  const Place place = *Put(table, {.payload_bytes = kPayload, .deadline = kHour});
  table.BeginOperation(place);
  table.BeginRetire(place.group);
  table.Retire(place.group);
  EXPECT_TRUE(table.TakeDroppable().empty());
  table.Free(place);
  EXPECT_TRUE(table.TakeDroppable().empty());
  table.EndOperation(place);
  EXPECT_EQ(table.TakeDroppable(), std::vector<GroupId>{place.group});
  EXPECT_TRUE(table.TakeDroppable().empty());
}

TEST(BucketTableTest, LeavingBytesCountForAllocateButNotForNeedsRoom) {
  BucketTable table({.capacity_bytes = 32 * BucketTable::CostOf(kPayload)});
  const Shape shape{.payload_bytes = kPayload, .deadline = kHour};
  while (const auto place = Put(table, shape)) {
    table.BeginOperation(*place);
    table.EndOperation(*place);
  }
  ASSERT_TRUE(table.NeedsRoom());
  std::vector<GroupId> gone;
  while (table.NeedsRoom()) {
    gone.push_back(*table.Victim(0));
    RetireWithCopies(table, gone.back());
  }
  EXPECT_LE(gone.size(), 3u);
  EXPECT_FALSE(Put(table, shape));
  DropAll(table);
  EXPECT_TRUE(Put(table, shape));
}

// The victim, after the empty buckets that were created ahead have gone.
std::optional<GroupId> VictimWithCopies(BucketTable& table, HoldMillis now) {
  for (;;) {
    const auto victim = table.Victim(now);
    if (!victim || table.Find(*victim)->live_copies > 0) return victim;
    RetireWithCopies(table, *victim);
    DropAll(table);
  }
}

TEST(BucketTableTest, VictimIsExpiredThenColdestClosedThenOldest) {
  BucketTable table({.capacity_bytes = 1ull << 30});
  const auto put = [&](HoldMillis deadline, uint32_t touched) {
    return Put(table, {.payload_bytes = kPayload, .deadline = deadline, .touched = touched})->group;
  };
  const GroupId warm = put(kHour, 500);
  table.Observe(kHour / 4);
  const GroupId cold = put(kHour / 4 + kHour, 100);
  const GroupId soon = put(kHour / 4 + 2 * kMinute, 900);
  ASSERT_NE(warm, cold);
  EXPECT_EQ(VictimWithCopies(table, 0), warm);  // none is closed: the oldest
  const HoldMillis past = kHour / 4 + 2 * kMinute + BucketMillis(1);
  EXPECT_EQ(table.Expired(kHour / 4 + kMinute), std::nullopt);
  EXPECT_EQ(VictimWithCopies(table, past), soon);
  RetireWithCopies(table, soon);
  EXPECT_EQ(VictimWithCopies(table, kHour - kMinute), warm);  // the other is open
  table.Observe(kHour - 1);
  table.Touched({warm, 0}, 50);
  EXPECT_TRUE(table.Closed(warm));
  EXPECT_FALSE(table.Closed(cold));
  RetireWithCopies(table, warm);
  EXPECT_EQ(VictimWithCopies(table, kHour + kHour / 8), cold);
}

TEST(BucketTableTest, ABucketOfMostlyGrantedCopiesGoesLast) {
  BucketTable table({.capacity_bytes = 1ull << 30});
  const auto put = [&](uint8_t hold_class) {
    return *Put(table, {.payload_bytes = kPayload,
                        .hold_class = hold_class,
                        .deadline = kNoDeadline,
                        .touched = hold_class == 0 ? 100u : 1u});
  };
  const Place first = put(1);
  const Place more = put(1);
  const Place loose = put(0);
  ASSERT_EQ(first.group, loose.group);
  table.Observe(6 * kHour);
  const Place later = put(0);
  ASSERT_NE(later.group, first.group);
  EXPECT_EQ(VictimWithCopies(table, 0), later.group);  // though the other is closed and colder
  table.Free(more);                                    // half of it is no majority
  EXPECT_EQ(VictimWithCopies(table, 0), first.group);
}

TEST(BucketTableTest, AmongClosedBucketsTheColdestMeanGoes) {
  BucketTable table({.capacity_bytes = 1ull << 30});
  const auto put = [&](uint32_t touched) {
    return *Put(table, {.payload_bytes = kPayload, .deadline = kNoDeadline, .touched = touched});
  };
  const Place first = put(20);
  table.Observe(6 * kHour);
  const Place second = put(10);
  const Place third = put(40);
  ASSERT_NE(first.group, second.group);
  ASSERT_EQ(second.group, third.group);
  table.Observe(12 * kHour);
  EXPECT_TRUE(table.Closed(first.group));
  EXPECT_TRUE(table.Closed(second.group));
  EXPECT_EQ(VictimWithCopies(table, 0), first.group);  // 20 against 25
  table.Touched(first, 50);
  EXPECT_EQ(VictimWithCopies(table, 0), second.group);
  table.Free(second);  // 50 against 40
  EXPECT_EQ(VictimWithCopies(table, 0), third.group);
  table.Touched(third, 60);
  EXPECT_EQ(VictimWithCopies(table, 0), first.group);
}

TEST(BucketTableTest, WhenFamiliesAreUsedUpCopiesJoinTheNearestLaterEnd) {
  BucketTable table({.capacity_bytes = 1ull << 40, .families_max = 4});
  const auto put = [&](HoldMillis remaining) {
    return Put(table, {.payload_bytes = kPayload, .deadline = remaining});
  };
  ASSERT_TRUE(put(kHour));  // and its successor
  ASSERT_TRUE(put(5 * kMinute));
  ASSERT_TRUE(put(kMinute));
  const auto joined = put(2 * kMinute);  // a line of its own, if there were families
  ASSERT_TRUE(joined);
  EXPECT_EQ(table.End(joined->group), 5 * kMinute);
  EXPECT_EQ(table.Usage().groups, 4u);
  EXPECT_FALSE(table.NeedsRoom());
  EXPECT_FALSE(put(20 * kHour));  // no bucket lives so long
  EXPECT_TRUE(table.NeedsRoom());
  const auto victim = table.Victim(0);
  ASSERT_TRUE(victim);
  EXPECT_EQ(table.Find(*victim)->live_copies, 0u);  // the one created ahead
  RetireWithCopies(table, *victim);
  DropAll(table);
  EXPECT_TRUE(put(20 * kHour));
}

TEST(BucketTableTest, AnUnlimitedTierNeverNeedsRoom) {
  BucketTable table({.capacity_bytes = UINT64_MAX});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Put(table, {.payload_bytes = 8 << 20, .deadline = kHour}));
  }
  EXPECT_FALSE(table.NeedsRoom());
  EXPECT_LE(table.Usage().groups, 3u);
}

// A model that knows only copies: every number the table keeps must follow from them.
class TableModel {
 public:
  TableModel(BucketTable& table, uint64_t seed) : table_(table), random_(seed) {}

  void Turn() {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        PutOne();
        break;
      case 3:
        FreeOne();
        break;
      case 4:
        TouchOne();
        break;
      case 5:
        now_ += static_cast<int64_t>(random_() % (2 * kMinute));
        table_.Observe(now_);
        break;
      case 6:
        RetireExpired();
        break;
      default:
        if (table_.NeedsRoom()) RetireVictim();
        break;
    }
    CreateAll(table_);
    if (random_() % 4 == 0) DropAll(table_);
  }
  void Check() {
    uint64_t copies = 0;
    uint64_t bytes = 0;
    std::map<GroupId, std::vector<EntryId>> live;
    for (const auto& [entry, copy] : copies_) {
      ++copies;
      bytes += FrameBytes(copy.payload_bytes);
      live[copy.place.group].push_back(entry);
      EXPECT_GE(table_.End(copy.place.group), copy.deadline);
    }
    EXPECT_EQ(table_.Usage().live_copies, copies);
    EXPECT_EQ(table_.Usage().used_bytes, bytes);
    EXPECT_LE(table_.Usage().groups, 12u);
    for (auto& [group, entries] : live) {
      std::vector<LiveCopy> told;
      table_.Live(group, told);
      std::vector<EntryId> got;
      for (const LiveCopy& each : told) got.push_back(each.entry);
      std::sort(got.begin(), got.end());
      EXPECT_EQ(got, entries);
      uint64_t sum = 0;
      for (const EntryId entry : entries) sum += copies_[entry].touched;
      EXPECT_EQ(table_.Find(group)->touched_sum, sum);
    }
  }

 private:
  struct Copy {
    Place place;
    uint64_t payload_bytes = 0;
    HoldMillis deadline = 0;
    uint32_t touched = 0;
  };
  void PutOne() {
    static constexpr int64_t kTtl[] = {kMinute, 5 * kMinute, kHour, 24 * kHour};
    Copy copy;
    copy.payload_bytes = 1 + random_() % (1 << 20);
    copy.deadline = random_() % 5 == 0 ? kNoDeadline : now_ + kTtl[random_() % 4];
    copy.touched = ++stamp_;
    const auto place = table_.Allocate({.payload_bytes = copy.payload_bytes,
                                        .deadline = copy.deadline,
                                        .entry = next_,
                                        .touched = copy.touched});
    if (!place) return;
    copy.place = *place;
    if (random_() % 3 > 0) {
      table_.BeginOperation(*place);
      table_.EndOperation(*place);
    }
    copies_[next_++] = copy;
  }
  std::map<EntryId, Copy>::iterator Any() {
    auto it = copies_.begin();
    std::advance(it, static_cast<int64_t>(random_() % copies_.size()));
    return it;
  }
  void FreeOne() {
    if (copies_.empty()) return;
    const auto it = Any();
    table_.Free(it->second.place);
    copies_.erase(it);
  }
  void TouchOne() {
    if (copies_.empty()) return;
    const auto it = Any();
    it->second.touched = ++stamp_;
    table_.Touched(it->second.place, it->second.touched);
  }
  void RetireExpired() {
    const auto group = table_.Expired(now_);
    HoldMillis earliest = kNoDeadline;
    for (const auto& [entry, copy] : copies_) {
      earliest = std::min(earliest, table_.End(copy.place.group));
    }
    EXPECT_TRUE(group || earliest > now_) << "an expired bucket was not told";
    if (!group) return;
    EXPECT_LE(table_.End(*group), now_);
    RetireGroup(*group);
  }
  void RetireVictim() {
    if (const auto group = table_.Victim(now_)) RetireGroup(*group);
  }
  void RetireGroup(GroupId group) {
    RetireWithCopies(table_, group);
    std::erase_if(copies_, [&](const auto& item) { return item.second.place.group == group; });
  }

  BucketTable& table_;
  std::mt19937_64 random_;
  std::map<EntryId, Copy> copies_;
  EntryId next_ = 1;
  uint32_t stamp_ = 0;
  HoldMillis now_ = 0;
};

TEST(BucketTableTest, FollowsAModelThroughRandomTurns) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  BucketTable table({.capacity_bytes = 64 << 20, .families_max = 12});
  TableModel model(table, seed);
  for (int turn = 0; turn < 20'000; ++turn) {
    model.Turn();
    if (turn % 50 == 0) model.Check();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace holdfast
