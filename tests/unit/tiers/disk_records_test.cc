#include "tiers/disk_records.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/testing/test_frame.h"

namespace holdfast {
namespace {

using testing::TestFrame;

TEST(DiskRecordsTest, FamilyNamesComeBackAndOthersAreRefused) {
  for (const BucketLine& line :
       {BucketLine{2, 1'764'000'900'000, 0}, BucketLine{kUndatedWidth, kNoDeadline, 21'600'000}}) {
    const auto parsed = ParseFamilyName(FamilyName(4711, line));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->id, 4711u);
    EXPECT_EQ(parsed->line, line);
  }
  for (const char* name : {"", "default", "meta", "b", "b1", "b1.2.3", "b1.2.3.4.5", "b1.9.3.4",
                           "b-1.2.3.4", "b1.2.x.4", "b4294967295.0.1.0", "b1.2.3.4 "}) {
    EXPECT_FALSE(ParseFamilyName(name)) << name;
  }
}

TEST(DiskRecordsTest, SlotKeysSortAsTheirSlots) {
  EXPECT_LT(SlotKey('p', 255), SlotKey('p', 256));
  EXPECT_EQ(ParseSlotKey('m', SlotKey('m', 0x01020304)), 0x01020304u);
  EXPECT_FALSE(ParseSlotKey('m', SlotKey('p', 1)));
  EXPECT_FALSE(ParseSlotKey('m', "m123"));
}

TEST(DiskRecordsTest, ABlockRecordCarriesWhatAnOpeningStoreNeeds) {
  TestFrame frame(77, 123'456);
  FrameFixed& fixed = frame.header().fixed;
  fixed.external_bytes = 20;
  std::memcpy(fixed.external, "external-key-of-20-b", 20);
  frame.header().placement.deadline_ms = 5'000;
  frame.header().placement.hold_ttl_ms = 300;
  frame.header().placement.granted = 1;
  frame.header().placement.touches = 9;
  const Place place{3, 12};
  const std::string bytes = EncodeBlockRecord(frame.header(), place);
  EXPECT_EQ(bytes.size(), kBlockRecordBytes + 20);

  BlockRecord out;
  ASSERT_TRUE(DecodeBlockRecord(bytes, place, out));
  EXPECT_EQ(out.fixed.key, fixed.key);
  EXPECT_EQ(out.fixed.root, fixed.root);
  EXPECT_EQ(out.fixed.parent, fixed.parent);
  EXPECT_EQ(out.fixed.index, fixed.index);
  EXPECT_EQ(out.fixed.payload_bytes, 123'456u);
  EXPECT_EQ(out.fixed.granule_bytes_log2, fixed.granule_bytes_log2);
  EXPECT_EQ(std::memcmp(out.fixed.external, fixed.external, kExternalKeyBytesMax), 0);
  EXPECT_EQ(out.placement.write_id, 77u);
  EXPECT_EQ(out.placement.deadline_ms, 5'000);
  EXPECT_EQ(out.placement.hold_ttl_ms, 300u);
  EXPECT_EQ(out.placement.granted, 1u);
  EXPECT_EQ(out.placement.touches, 9u);
}

TEST(DiskRecordsTest, NoFlippedBitCutOrMovedBlockRecordIsRead) {
  TestFrame frame(5, 1000);
  const std::string bytes = EncodeBlockRecord(frame.header(), {1, 2});
  BlockRecord out;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(DecodeBlockRecord(flipped, {1, 2}, out)) << bit;
  }
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeBlockRecord(bytes.substr(0, length), {1, 2}, out)) << length;
  }
  EXPECT_FALSE(DecodeBlockRecord(bytes + "x", {1, 2}, out));
  EXPECT_FALSE(DecodeBlockRecord(bytes, {1, 3}, out));
  EXPECT_FALSE(DecodeBlockRecord(bytes, {2, 2}, out));
  EXPECT_TRUE(DecodeBlockRecord(bytes, {1, 2}, out));
}

TEST(DiskRecordsTest, NoFlippedBitOfAMetaRecordIsRead) {
  MetaBatch batch;
  batch.deadlines.push_back({{1, 2}, 3, 4, 5, true});
  batch.tombstones.push_back({{6, 7}, 8});
  batch.epochs.push_back({{9, 10}, 11, {{12, 13}, {14, 15}}});
  batch.hold_now = 16;
  batch.write_id_next = 17;
  for (const MetaChange& change : EncodeMeta(batch)) {
    MetaSnapshot snapshot;
    EXPECT_TRUE(DecodeMeta(change.key, *change.value, snapshot));
    for (size_t bit = 0; bit < change.value->size() * 8; ++bit) {
      std::string flipped = *change.value;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(DecodeMeta(change.key, flipped, snapshot)) << change.key << " " << bit;
    }
    std::string other = change.key;
    other.back() = static_cast<char>(other.back() ^ 1);
    EXPECT_FALSE(DecodeMeta(other, *change.value, snapshot));
  }
}

TEST(DiskRecordsTest, TheFormatVersionComesBack) {
  EXPECT_EQ(DecodeFormat(EncodeFormat(3)), 3u);
  EXPECT_FALSE(DecodeFormat("1"));
  EXPECT_FALSE(DecodeFormat(""));
}

}  // namespace
}  // namespace holdfast
