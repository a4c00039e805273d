#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/tiers/sim_flash.h"
#include "tiers/flash_format.h"

namespace holdfast::testing {
namespace {

using internal::FlashSuperblock;

constexpr uint64_t kCapacityBytes = 2u << 20;
const FlashTierOptions kOptions{.segment_bytes = 160u << 10,
                                .segment_bytes_min = 64u << 10,
                                .segments_min = 8,
                                .payload_bytes_typical = 20'000,
                                .store_id = {1, 2}};

FlashSuperblock ReadCopy(const SimFlash& flash, uint64_t copy) {
  FlashSuperblock block{};
  flash.image().Read(copy * kPageBytes, std::as_writable_bytes(std::span(&block, 1)));
  return block;
}
void WriteCopy(SimFlash& flash, uint64_t copy, const FlashSuperblock& block) {
  flash.image().Write(copy * kPageBytes, std::as_bytes(std::span(&block, 1)));
}

TEST(FlashSuperblockTest, ANewMediumGetsTwoEqualCopies) {
  SimFlash flash(kCapacityBytes, kOptions);
  ASSERT_TRUE(flash.OpenEmpty().ok());
  for (const uint64_t copy : {0, 1}) {
    const FlashSuperblock block = ReadCopy(flash, copy);
    EXPECT_EQ(CheckSuperblock(block), internal::SuperblockState::kGood);
    EXPECT_EQ(block.store_id, (BlockKey{1, 2}));
    EXPECT_EQ(block.opens, 1u);
  }
  const uint64_t segment_bytes = ReadCopy(flash, 0).segment_bytes;
  EXPECT_LE(segment_bytes, 160u << 10);
  EXPECT_EQ(flash.tier().usage().groups, (kCapacityBytes - 8192) / segment_bytes);
}

TEST(FlashSuperblockTest, EitherBadCopyIsMendedFromTheOther) {
  for (const uint64_t bad : {0, 1}) {
    SimFlash flash(kCapacityBytes, kOptions);
    ASSERT_TRUE(flash.OpenEmpty().ok());
    const auto place = flash.Put(5, 20'000);
    ASSERT_TRUE(place && flash.Flush());
    flash.image().FlipBit(bad * kPageBytes + 20, 3);
    ASSERT_TRUE(flash.Open().ok());
    EXPECT_EQ(flash.RecoverAll().count(5), 1u);
    EXPECT_EQ(CheckSuperblock(ReadCopy(flash, bad)), internal::SuperblockState::kGood);
    EXPECT_EQ(ReadCopy(flash, bad).opens, 2u);
  }
}

TEST(FlashSuperblockTest, TwoBadCopiesAreDataLossThatNamesTheFileAndTheRemedy) {
  SimFlash flash(kCapacityBytes, kOptions);
  ASSERT_TRUE(flash.OpenEmpty().ok());
  flash.image().FlipBit(20, 3);
  flash.image().FlipBit(kPageBytes + 20, 3);
  const Status status = flash.Open();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("flash sim"), std::string::npos);
  EXPECT_NE(status.message().find("remove the file"), std::string::npos);
}

TEST(FlashSuperblockTest, SomebodyElsesFirstPageIsNeverOverwritten) {
  SimFlash flash(kCapacityBytes, kOptions);
  FlashSuperblock theirs{};
  theirs.reserved[100] = std::byte{1};
  WriteCopy(flash, 0, theirs);
  EXPECT_EQ(flash.Open().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReadCopy(flash, 0).reserved[100], std::byte{1});
}

TEST(FlashSuperblockTest, ANewerFormatIsRefusedByName) {
  for (const uint64_t copy : {0, 1}) {
    SimFlash flash(kCapacityBytes, kOptions);
    ASSERT_TRUE(flash.OpenEmpty().ok());
    FlashSuperblock block = ReadCopy(flash, copy);
    block.version = internal::kFlashVersion + 1;
    block.checksum =
        Checksum64(std::as_bytes(std::span(&block, 1)).first(offsetof(FlashSuperblock, checksum)));
    WriteCopy(flash, copy, block);
    const Status status = flash.Open();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("newer version"), std::string::npos);
  }
}

TEST(FlashSuperblockTest, AnotherStoresFileIsRefused) {
  SimFlash flash(kCapacityBytes, kOptions);
  ASSERT_TRUE(flash.OpenEmpty().ok());
  flash.options().store_id = {1, 3};
  EXPECT_EQ(flash.Open().code(), StatusCode::kFailedPrecondition);
  flash.options().store_id = {1, 2};
  EXPECT_TRUE(flash.Open().ok());
}

TEST(FlashSuperblockTest, TheMediumsSegmentSizeWinsOverTheOptions) {
  SimFlash flash(kCapacityBytes, kOptions);
  ASSERT_TRUE(flash.OpenEmpty().ok());
  const uint64_t groups = flash.tier().usage().groups;
  flash.options().segment_bytes = 64u << 10;
  ASSERT_TRUE(flash.OpenEmpty().ok());
  EXPECT_EQ(flash.tier().usage().groups, groups);
}

TEST(FlashSuperblockTest, AMediumTooSmallForFourSegmentsIsRefused) {
  SimFlash flash(200'704, kOptions);
  EXPECT_EQ(flash.Open().code(), StatusCode::kInvalidArgument);
}

TEST(FlashSuperblockTest, AFailingMediumIsAnIoErrorThatKeepsItsNumber) {
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite, IoKind::kSync}) {
    SimFlash flash(kCapacityBytes, kOptions);
    flash.PlanAtOpen({.kind = kind, .error = EROFS});
    const Status status = flash.Open();
    EXPECT_EQ(status.code(), StatusCode::kIoError);
    EXPECT_EQ(status.os_errno(), EROFS);
    EXPECT_TRUE(flash.Open().ok());
  }
}

TEST(FlashFormatTest, SegmentsAreAMultipleOfTheFrameThatWastesLittle) {
  for (const uint64_t gib : {1, 4, 8, 16, 64, 1000}) {
    const uint64_t capacity = gib << 30;
    const uint64_t bytes = internal::ChooseSegmentBytes(capacity, {});
    const uint64_t stride = FrameBytes(2u << 20);
    const uint64_t frames = capacity / bytes * internal::SlotsOf(bytes, stride);
    EXPECT_GE(frames * stride, capacity / 100 * 98) << gib;
    EXPECT_GE(capacity / bytes, 16u) << gib;
    EXPECT_LE(bytes, 256u << 20) << gib;
    EXPECT_GE(bytes, std::min<uint64_t>(192u << 20, capacity / 22)) << gib;
  }
}

TEST(FlashFormatTest, FramesAndSummaryFitTheirSegmentForEveryFrameSize) {
  for (const uint64_t segment_bytes : {64u << 10, 1u << 20, 267'386'880u}) {
    for (uint64_t payload = 1; payload <= 4u << 20; payload = payload * 3 + 1) {
      const uint64_t stride = FrameBytes(payload);
      const uint32_t slots = internal::SlotsOf(segment_bytes, stride);
      if (slots == 0) continue;
      EXPECT_LE(internal::kSlotsOffset + slots * stride,
                internal::SummaryOffset(segment_bytes, slots));
      EXPECT_GT(internal::SegmentBytesFor(slots + 1, stride), segment_bytes);
    }
  }
}

TEST(FlashFormatTest, BytesLieWhereTheDocumentSays) {
  using internal::SegmentHeader, internal::SegmentShape, internal::SummaryEntry;
  EXPECT_EQ(offsetof(FlashSuperblock, segment_bytes), 16u);
  EXPECT_EQ(offsetof(FlashSuperblock, store_id), 24u);
  EXPECT_EQ(offsetof(FlashSuperblock, opens), 40u);
  EXPECT_EQ(offsetof(FlashSuperblock, checksum), 4088u);
  EXPECT_EQ(offsetof(SegmentHeader, epoch), 8u);
  EXPECT_EQ(offsetof(SegmentHeader, segment), 16u);
  EXPECT_EQ(offsetof(SegmentShape, stride_bytes), 24u);
  EXPECT_EQ(offsetof(SegmentShape, created_ms), 32u);
  EXPECT_EQ(offsetof(SegmentShape, hold_class), 40u);
  EXPECT_EQ(offsetof(SummaryEntry, payload_bytes), 48u);
  EXPECT_EQ(offsetof(SummaryEntry, external), 96u);
  FlashSuperblock block{};
  block.segment_bytes = 1u << 20;
  SealSuperblock(block);
  EXPECT_EQ(block.checksum, 9273766685531647970u);  // golden
}

}  // namespace
}  // namespace holdfast::testing
