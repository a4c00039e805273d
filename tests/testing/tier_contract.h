// What every Tier and every GroupedTier promises, as tests. An owner includes this in one test file
// and says how to make one:
//
//   class MyTier : public TierUnderTest { ... };
//   INSTANTIATE_TEST_SUITE_P(Mine, TierContract, ::testing::Values(TierCase{"Mine", MakeMine}),
//                            TierCaseName);
//   INSTANTIATE_TEST_SUITE_P(Mine, GroupedTierContract, ...);  // flash, disk
//
// The tier made verifies what it reads. For TierContract it holds at least 256 MiB of frames of up
// to 20 MiB; for GroupedTierContract 64 to 128 MiB, of frames of up to 2 MiB, so that filling it is
// quick.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kvstore/tier.h"
#include "tests/testing/test_frame.h"

namespace holdfast::testing {

class TierUnderTest {
 public:
  TierUnderTest() = default;
  virtual ~TierUnderTest() = default;
  TierUnderTest(const TierUnderTest&) = delete;
  TierUnderTest& operator=(const TierUnderTest&) = delete;

  virtual Tier& tier() = 0;
  virtual GroupedTier* grouped() { return nullptr; }
  // Lets the medium go on: runs what a simulated one has due, or waits for `wake`, at most 10 ms.
  virtual void Wait() = 0;
  // GroupedTier: closes the tier and opens it again over the same medium, without Recover.
  virtual void Reopen() {}
  virtual Instant Now() = 0;
  virtual HoldMillis HoldNow() { return 1'000'000; }
};

struct TierCase {
  std::string name;
  std::function<std::unique_ptr<TierUnderTest>()> create;
};
inline std::string TierCaseName(const ::testing::TestParamInfo<TierCase>& info) {
  return info.param.name;
}

class TierContract : public ::testing::TestWithParam<TierCase> {
 protected:
  struct Copy {
    uint64_t seed = 0;
    uint64_t payload_bytes = 0;
    Place place;
  };

  void SetUp() override {
    under_test_ = GetParam().create();
    ASSERT_NE(under_test_, nullptr);
    if (grouped() != nullptr) {
      const Status status = grouped()->Recover(under_test_->HoldNow(),
                                               [](const RecoveredCopy&) { return std::nullopt; });
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
  Tier& tier() { return under_test_->tier(); }
  GroupedTier* grouped() { return under_test_->grouped(); }

  // One turn of what the store's driver does. Finished ops gather in finished_, by tag.
  void Turn(bool wait) {
    if (wait) under_test_->Wait();
    FrameOp* out[16];
    for (size_t n = 1; n > 0;) {
      n = tier().Poll(out);
      for (size_t i = 0; i < n; ++i) ++finished_[out[i]->tag];
    }
    if (grouped() != nullptr) grouped()->Step(under_test_->Now(), under_test_->HoldNow());
  }
  void Finish() {
    while (tier().in_flight() > 0) Turn(true);
    Turn(false);
  }
  std::optional<Place> Allocate(uint64_t payload_bytes, EntryId entry) {
    const Shape shape{.payload_bytes = payload_bytes,
                      .hold_class = 2,
                      .deadline = under_test_->HoldNow() + 3'600'000,
                      .entry = entry,
                      .touched = entry};
    std::optional<Place> place = tier().Allocate(shape);
    for (int turn = 0; turn < 50 && !place && grouped() != nullptr; ++turn) {
      Turn(true);
      place = tier().Allocate(shape);
    }
    return place;
  }
  uint64_t Padding() { return tier().limits().alignment > 1 ? kPageBytes : 1; }

  FrameOutcome Run(FrameOpKind kind, Place place, TestFrame& frame, const FrameExpect& expect) {
    FrameOp op{.kind = kind,
               .place = place,
               .header = &frame.header(),
               .payload = frame.extents(),
               .expect = expect,
               .tag = ++next_tag_};
    tier().Submit(&op);
    Finish();
    EXPECT_EQ(finished_[op.tag], 1);
    EXPECT_LE(op.submitted, op.finished);
    return op.outcome;
  }
  // Writes the frame of `seed`, in `pieces` extents.
  std::optional<Copy> Write(uint64_t seed, uint64_t payload_bytes, size_t pieces = 1) {
    const std::optional<Place> place = Allocate(payload_bytes, static_cast<EntryId>(seed));
    if (!place) return std::nullopt;
    TestFrame frame(seed, payload_bytes);
    frame.header().placement.deadline_ms = under_test_->HoldNow() + 3'600'000;
    frame.header().placement.hold_ttl_ms = 3'600'000;
    frame.Cut(pieces, tier().limits().alignment, Padding());
    EXPECT_EQ(Run(FrameOpKind::kWrite, *place, frame, {}), FrameOutcome::kDone);
    return Copy{seed, payload_bytes, *place};
  }
  FrameOutcome Read(const Copy& copy, size_t pieces, const FrameExpect& expect) {
    TestFrame target(0, copy.payload_bytes);
    target.Cut(pieces, tier().limits().alignment, Padding());
    const FrameOutcome outcome = Run(FrameOpKind::kRead, copy.place, target, expect);
    if (outcome == FrameOutcome::kDone) {
      EXPECT_TRUE(target.Holds(copy.seed, 0, copy.payload_bytes));
      EXPECT_EQ(CheckHeader(target.header()), FrameFault::kNone);
      EXPECT_EQ(target.header().placement.write_id, copy.seed);
    }
    return outcome;
  }
  FrameOutcome Read(const Copy& copy, size_t pieces = 1) {
    return Read(copy, pieces, TestFrame(copy.seed, copy.payload_bytes).expect());
  }
  void ExpectEmpty() {
    EXPECT_EQ(tier().usage().live_copies, 0u);
    EXPECT_EQ(tier().usage().used_bytes, 0u);
    EXPECT_EQ(tier().in_flight(), 0u);
  }

  std::unique_ptr<TierUnderTest> under_test_;
  std::map<uint64_t, int> finished_;
  uint64_t next_tag_ = 0;
};

TEST_P(TierContract, AccountingReturnsToZero) {
  std::vector<Place> places;
  for (EntryId i = 1; i <= 8; ++i) {
    const std::optional<Place> place = Allocate(300'000 * i, i);
    ASSERT_TRUE(place);
    places.push_back(*place);
    EXPECT_EQ(tier().usage().live_copies, i);
  }
  EXPECT_GE(tier().usage().used_bytes, 36u * 300'000);
  for (const Place& place : places) tier().Free(place);
  Finish();
  ExpectEmpty();
}

TEST_P(TierContract, OddSizesComeBackAsWritten) {
  constexpr uint64_t kGranule = kGranuleBytesMin;
  uint64_t seed = 100;
  for (const uint64_t bytes :
       {uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{4097}, kGranule - 1, kGranule,
        kGranule + 1, uint64_t{2} << 20, uint64_t{20} << 20}) {
    SCOPED_TRACE(bytes);
    const std::optional<Copy> copy = Write(++seed, bytes);
    ASSERT_TRUE(copy);
    EXPECT_EQ(Read(*copy), FrameOutcome::kDone);
    tier().Free(copy->place);
  }
  Finish();
  ExpectEmpty();
}

TEST_P(TierContract, ExtentsMayBeCutAnyWay) {
  constexpr uint64_t kBytes = (1u << 20) + 12'345;
  size_t most = tier().limits().extents_max;
  most = most == 0 ? 64 : std::min<size_t>(most, 64);
  const std::optional<Copy> copy = Write(7, kBytes, most);
  ASSERT_TRUE(copy);
  for (const size_t pieces : {size_t{1}, size_t{2}, size_t{3}, most}) {
    EXPECT_EQ(Read(*copy, pieces), FrameOutcome::kDone) << pieces;
  }
  tier().Free(copy->place);
}

TEST_P(TierContract, EveryOpIsReturnedExactlyOnce) {
  constexpr size_t kCopies = 6;
  constexpr size_t kReads = 40;
  std::vector<Copy> copies;
  for (size_t i = 1; i <= kCopies; ++i) copies.push_back(*Write(i, 64'000));
  std::vector<std::unique_ptr<TestFrame>> targets;
  std::vector<FrameOp> ops(kReads);
  for (size_t i = 0; i < kReads; ++i) {
    const Copy& copy = copies[i % kCopies];
    targets.push_back(std::make_unique<TestFrame>(0, copy.payload_bytes));
    targets[i]->Cut(1, tier().limits().alignment, Padding());
    ops[i] = {.kind = FrameOpKind::kRead,
              .place = copy.place,
              .header = &targets[i]->header(),
              .payload = targets[i]->extents(),
              .expect = TestFrame(copy.seed, copy.payload_bytes).expect(),
              .tag = 1000 + i};
    tier().Submit(&ops[i]);
  }
  Finish();
  for (size_t i = 0; i < kReads; ++i) {
    EXPECT_EQ(finished_[1000 + i], 1);
    EXPECT_EQ(ops[i].outcome, FrameOutcome::kDone);
    EXPECT_TRUE(targets[i]->Holds(copies[i % kCopies].seed, 0, 64'000));
  }
}

TEST_P(TierContract, AnotherIdentityIsCorrupt) {
  const std::optional<Copy> copy = Write(11, 70'000);
  ASSERT_TRUE(copy);
  const FrameExpect right = TestFrame(11, 70'000).expect();
  FrameExpect wrong = right;
  wrong.key.lo ^= 1;
  EXPECT_EQ(Read(*copy, 1, wrong), FrameOutcome::kCorrupt);
  wrong = right;
  wrong.root.hi ^= 1;
  EXPECT_EQ(Read(*copy, 1, wrong), FrameOutcome::kCorrupt);
  wrong = right;
  wrong.index ^= 1;
  EXPECT_EQ(Read(*copy, 1, wrong), FrameOutcome::kCorrupt);
  wrong = right;
  wrong.write_id ^= 1;
  EXPECT_EQ(Read(*copy, 1, wrong), FrameOutcome::kCorrupt);
  wrong = right;
  wrong.payload_bytes -= 1;
  EXPECT_EQ(Read(*copy, 1, wrong), FrameOutcome::kCorrupt);
  EXPECT_EQ(Read(*copy, 1, right), FrameOutcome::kDone);
}

TEST_P(TierContract, AGranuleIsReadAlone) {
  constexpr uint64_t kBytes = 3 * kGranuleBytesMin + 5'000;
  const std::optional<Copy> copy = Write(21, kBytes);
  const FrameExpect expect = TestFrame(21, kBytes).expect();
  ASSERT_TRUE(copy);
  for (uint64_t granule = 0; granule < 4; ++granule) {
    const uint64_t offset = granule * kGranuleBytesMin;
    const uint64_t bytes = std::min(kGranuleBytesMin, kBytes - offset);
    TestFrame target(0, bytes);
    target.Cut(1, 1, Padding());
    FrameOp op{.kind = FrameOpKind::kRead,
               .place = copy->place,
               .header = &target.header(),
               .payload = target.extents(),
               .offset = offset,
               .expect = expect,
               .tag = ++next_tag_};
    tier().Submit(&op);
    Finish();
    EXPECT_EQ(op.outcome, FrameOutcome::kDone);
    EXPECT_TRUE(target.Holds(21, offset, bytes));
  }
}

TEST_P(TierContract, AFreedPlaceIsNotReusedWhileAnOpRuns) {
  constexpr uint64_t kBytes = 1u << 20;
  const std::optional<Copy> copy = Write(31, kBytes);
  ASSERT_TRUE(copy);
  TestFrame target(0, kBytes);
  target.Cut(1, 1, Padding());
  FrameOp op{.kind = FrameOpKind::kRead,
             .place = copy->place,
             .header = &target.header(),
             .payload = target.extents(),
             .expect = TestFrame(31, kBytes).expect(),
             .tag = ++next_tag_};
  tier().Submit(&op);
  tier().Free(copy->place);
  std::vector<std::unique_ptr<TestFrame>> frames;
  std::vector<FrameOp> writes(8);
  for (size_t i = 0; i < writes.size(); ++i) {
    const std::optional<Place> place = tier().Allocate(
        {.payload_bytes = kBytes, .hold_class = 2, .deadline = under_test_->HoldNow() + 3'600'000});
    if (!place) break;
    frames.push_back(std::make_unique<TestFrame>(40 + i, kBytes));
    frames[i]->Cut(1, 1, Padding());
    writes[i] = {.kind = FrameOpKind::kWrite,
                 .place = *place,
                 .header = &frames[i]->header(),
                 .payload = frames[i]->extents(),
                 .tag = ++next_tag_};
    tier().Submit(&writes[i]);
  }
  Finish();
  EXPECT_EQ(finished_[op.tag], 1);
  EXPECT_EQ(op.outcome, FrameOutcome::kDone);
  EXPECT_TRUE(target.Holds(31, 0, kBytes));
  for (size_t i = 0; i < frames.size(); ++i) tier().Free(writes[i].place);
  Finish();
  ExpectEmpty();
}

// The store plans a read under its lock and submits it after: in between the copy may go.
TEST_P(TierContract, AReadOfAPlaceThatWasFreedEndsAndIsNeverWrong) {
  const std::optional<Copy> copy = Write(51, 70'000);
  ASSERT_TRUE(copy);
  tier().Free(copy->place);
  const FrameOutcome outcome = Read(*copy);
  EXPECT_NE(outcome, FrameOutcome::kFailed);  // Read compares the bytes of what is done
  ExpectEmpty();
}

class GroupedTierContract : public TierContract {
 protected:
  using Found = std::map<uint64_t, Copy>;  // by seed, which is the write id

  std::vector<Copy> Fill(uint64_t payload_bytes, uint64_t first_seed) {
    std::vector<Copy> copies;
    const uint64_t most = tier().limits().capacity_bytes / payload_bytes + 1;
    for (uint64_t i = 0; i <= most; ++i) {
      const std::optional<Copy> copy = Write(first_seed + i, payload_bytes);
      if (!copy) return copies;
      copies.push_back(*copy);
    }
    ADD_FAILURE() << "takes more than its capacity";
    return copies;
  }
  // Frees a group as the store does. Returns the seeds that went.
  std::vector<uint64_t> RetireOne(const std::vector<Copy>& copies) {
    std::optional<GroupId> victim;
    for (int turn = 0; turn < 100 && !victim; ++turn) {
      victim = grouped()->Victim(under_test_->HoldNow());
      if (!victim) Turn(true);
    }
    std::vector<uint64_t> seeds;
    if (!victim) return seeds;
    std::vector<LiveCopy> live;
    grouped()->Live(*victim, live);
    grouped()->BeginRetire(*victim);
    for (const LiveCopy& one : live) {
      EXPECT_EQ(one.place.group, *victim);
      for (const Copy& copy : copies) {
        if (copy.place == one.place) {
          EXPECT_EQ(copy.seed, one.entry);
          seeds.push_back(copy.seed);
        }
      }
      tier().Free(one.place);
    }
    EXPECT_EQ(seeds.size(), live.size());
    grouped()->Retire(*victim);
    Turn(false);
    return seeds;
  }
  void Flush() {
    Finish();
    grouped()->RequestFlush();
    for (int turn = 0; turn < 1000 && tier().usage().undurable_bytes > 0; ++turn) Turn(true);
    EXPECT_EQ(tier().usage().undurable_bytes, 0u);
  }
  Found Reopen() {
    Finish();
    under_test_->Reopen();
    Found found;
    const Status status = grouped()->Recover(
        under_test_->HoldNow(), [&](const RecoveredCopy& copy) -> std::optional<EntryId> {
          const uint64_t seed = copy.placement.write_id;
          EXPECT_EQ(copy.fixed->key, TestFrame(seed, 1).key());
          EXPECT_EQ(copy.fixed->root, TestFrame(seed, 1).root());
          EXPECT_EQ(copy.fixed->parent, (BlockKey{seed, 3}));
          EXPECT_EQ(copy.fixed->index, TestFrame(seed, 1).index());
          found[seed] = {seed, copy.fixed->payload_bytes, copy.place};
          return static_cast<EntryId>(seed);
        });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return found;
  }
};

TEST_P(GroupedTierContract, AFullTierDeclinesAndWorksAgainAfterRetire) {
  const std::vector<Copy> copies = Fill(2u << 20, 1);
  ASSERT_GE(copies.size(), 8u);
  EXPECT_EQ(tier().usage().live_copies, copies.size());
  EXPECT_TRUE(grouped()->NeedsRoom());
  std::vector<uint64_t> gone;
  for (int i = 0; i < 4 && grouped()->NeedsRoom(); ++i) {
    const std::vector<uint64_t> seeds = RetireOne(copies);
    ASSERT_FALSE(seeds.empty());
    gone.insert(gone.end(), seeds.begin(), seeds.end());
  }
  EXPECT_EQ(tier().usage().live_copies, copies.size() - gone.size());
  for (const Copy& copy : copies) {
    if (std::find(gone.begin(), gone.end(), copy.seed) == gone.end()) continue;
    EXPECT_NE(Read(copy), FrameOutcome::kFailed);
    break;
  }
  const std::optional<Copy> again = Write(999'999, 2u << 20);
  ASSERT_TRUE(again);
  EXPECT_EQ(Read(*again), FrameOutcome::kDone);
  for (const Copy& copy : copies) {
    if (std::find(gone.begin(), gone.end(), copy.seed) == gone.end()) tier().Free(copy.place);
  }
  tier().Free(again->place);
  Finish();
  ExpectEmpty();
}

TEST_P(GroupedTierContract, WhatWasFlushedComesBackAfterReopen) {
  std::map<uint64_t, Copy> written;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const std::optional<Copy> copy = Write(seed, seed % 3 == 0 ? 300'000 : 1'000'000 + seed);
    ASSERT_TRUE(copy);
    written[seed] = *copy;
  }
  Flush();
  const Found found = Reopen();
  ASSERT_EQ(found.size(), written.size());
  for (const auto& [seed, copy] : found) {
    EXPECT_EQ(copy.payload_bytes, written[seed].payload_bytes);
    EXPECT_EQ(Read(copy), FrameOutcome::kDone) << seed;
  }
  EXPECT_EQ(tier().usage().live_copies, found.size());
  for (const auto& [seed, copy] : found) tier().Free(copy.place);
  Finish();
  ExpectEmpty();
}

// What was retired may come back as long as nothing has taken its place: it is as good as ever.
TEST_P(GroupedTierContract, WhatWasRetiredAndReusedNeverComesBack) {
  std::vector<Copy> copies = Fill(2u << 20, 1);
  std::vector<uint64_t> gone;
  for (uint64_t round = 1; round <= 2; ++round) {
    for (int i = 0; i < 4 && grouped()->NeedsRoom(); ++i) {
      for (const uint64_t seed : RetireOne(copies)) gone.push_back(seed);
    }
    const std::vector<Copy> more = Fill(2u << 20, 1000 * round);
    copies.insert(copies.end(), more.begin(), more.end());
  }
  ASSERT_FALSE(gone.empty());
  Flush();
  const Found found = Reopen();
  std::map<std::pair<GroupId, uint32_t>, uint64_t> places;
  for (const auto& [seed, copy] : found) {
    EXPECT_TRUE(places.try_emplace({copy.place.group, copy.place.slot}, seed).second);
    EXPECT_EQ(Read(copy), FrameOutcome::kDone) << seed;
  }
  for (const Copy& copy : copies) {
    const bool retired = std::find(gone.begin(), gone.end(), copy.seed) != gone.end();
    EXPECT_TRUE(retired || found.contains(copy.seed)) << copy.seed;
  }
}

}  // namespace holdfast::testing
