#include "kvstore/frame.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kvstore/xxh3.h"
#include "tests/testing/test_frame.h"

namespace holdfast {
namespace {

std::vector<std::byte> Pattern(uint64_t bytes, uint64_t seed = 1) {
  std::vector<std::byte> data(bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>(testing::Mix(seed + i / 8) >> (i % 8 * 8));
  }
  return data;
}

// A header that is whole: identity, granules of `payload`, placement.
FrameHeader MakeHeader(std::vector<std::byte>& payload) {
  FrameHeader header{};
  const std::array<std::byte, 20> external{std::byte{9}};
  InitFixed({.key = {1, 2}, .root = {3, 4}, .parent = {5, 6}, .index = 7, .external = external},
            payload.size(), header.fixed);
  const Extent whole{payload.data(), payload.size()};
  ChecksumPayload({&whole, 1}, nullptr, header.fixed);
  SealFixed(header.fixed);
  header.placement.epoch = 11;
  header.placement.slot = 12;
  header.placement.write_id = 13;
  header.placement.deadline_ms = 14;
  SealPlacement(header);
  return header;
}
FrameExpect Expectation(uint64_t payload_bytes) {
  return {.key = {1, 2},
          .root = {3, 4},
          .index = 7,
          .payload_bytes = payload_bytes,
          .epoch = 11,
          .slot = 12,
          .write_id = 13};
}

TEST(FrameTest, BytesLieWhereTheDocumentSays) {
  EXPECT_EQ(offsetof(FrameFixed, magic), 0u);
  EXPECT_EQ(offsetof(FrameFixed, version), 8u);
  EXPECT_EQ(offsetof(FrameFixed, granule_bytes_log2), 12u);
  EXPECT_EQ(offsetof(FrameFixed, key), 16u);
  EXPECT_EQ(offsetof(FrameFixed, root), 32u);
  EXPECT_EQ(offsetof(FrameFixed, parent), 48u);
  EXPECT_EQ(offsetof(FrameFixed, index), 64u);
  EXPECT_EQ(offsetof(FrameFixed, external_bytes), 68u);
  EXPECT_EQ(offsetof(FrameFixed, payload_bytes), 72u);
  EXPECT_EQ(offsetof(FrameFixed, external), 80u);
  EXPECT_EQ(offsetof(FrameFixed, granule), 496u);
  EXPECT_EQ(offsetof(FrameFixed, checksum), 3832u);
  EXPECT_EQ(offsetof(FrameHeader, placement), 3840u);
  EXPECT_EQ(offsetof(FramePlacement, write_id), 16u);
  EXPECT_EQ(offsetof(FramePlacement, deadline_ms), 24u);
  EXPECT_EQ(offsetof(FramePlacement, hold_ttl_ms), 32u);
  EXPECT_EQ(offsetof(FramePlacement, granted), 40u);
  EXPECT_EQ(offsetof(FramePlacement, touches), 44u);
  EXPECT_EQ(offsetof(FramePlacement, checksum), 248u);
}

TEST(FrameTest, ChecksumsAreTheGoldenOnes) {
  std::vector<std::byte> payload = Pattern((256u << 10) + 1);
  const FrameHeader header = MakeHeader(payload);
  EXPECT_EQ(Checksum64({}), 0x2d06800538d394c2u);  // XXH3-64 of nothing, as its author publishes
  EXPECT_EQ(header.fixed.granule[0], 12979103693891447394u);
  EXPECT_EQ(header.fixed.granule[1], 7876639392340321016u);
  EXPECT_EQ(header.fixed.checksum, 11949053561524843258u);
  EXPECT_EQ(header.placement.checksum, 14183560833259485633u);
}

TEST(FrameTest, GranulesAreTheSmallestPowerOfTwoThatGivesAtMost128) {
  EXPECT_EQ(GranuleBytesLog2(1), 18u);
  EXPECT_EQ(GranuleBytesLog2(32u << 20), 18u);
  EXPECT_EQ(GranuleBytesLog2((32u << 20) + 1), 19u);
  EXPECT_EQ(GranuleBytesLog2(64u << 20), 19u);
  EXPECT_EQ(GranuleBytesLog2(kPayloadBytesMax), 21u);
  EXPECT_EQ(GranuleCount(1), 1u);
  EXPECT_EQ(GranuleCount(256u << 10), 1u);
  EXPECT_EQ(GranuleCount((256u << 10) + 1), 2u);
  EXPECT_EQ(GranuleCount(32u << 20), 128u);
  EXPECT_EQ(GranuleCount(kPayloadBytesMax), 128u);
}

TEST(FrameTest, EveryBitOfTheHeaderIsGuarded) {
  std::vector<std::byte> payload = Pattern(1000);
  FrameHeader header = MakeHeader(payload);
  const FrameExpect expect = Expectation(1000);
  ASSERT_EQ(CheckHeader(header), FrameFault::kNone);
  ASSERT_EQ(CheckHeader(header, expect), FrameFault::kNone);
  auto* bytes = reinterpret_cast<unsigned char*>(&header);
  for (size_t bit = 0; bit < sizeof(header) * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    const FrameFault fault = CheckHeader(header);
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    const FrameFault wanted = bit < 64   ? FrameFault::kMagic
                              : bit < 96 ? FrameFault::kVersion
                                         : FrameFault::kHeaderChecksum;
    ASSERT_EQ(fault, wanted) << "bit " << bit;
  }
}

TEST(FrameTest, AHeaderOfAnotherFrameIsNamedByWhatDiffers) {
  std::vector<std::byte> payload = Pattern(1000);
  const FrameHeader header = MakeHeader(payload);
  const auto fault = [&header](auto change) {
    FrameExpect expect = Expectation(1000);
    change(expect);
    return CheckHeader(header, expect);
  };
  EXPECT_EQ(fault([](FrameExpect& e) { e.key.hi ^= 1; }), FrameFault::kIdentity);
  EXPECT_EQ(fault([](FrameExpect& e) { e.key.lo ^= 1; }), FrameFault::kIdentity);
  EXPECT_EQ(fault([](FrameExpect& e) { e.root.hi ^= 1; }), FrameFault::kIdentity);
  EXPECT_EQ(fault([](FrameExpect& e) { e.root.lo ^= 1; }), FrameFault::kIdentity);
  EXPECT_EQ(fault([](FrameExpect& e) { e.index ^= 1; }), FrameFault::kIdentity);
  EXPECT_EQ(fault([](FrameExpect& e) { e.payload_bytes ^= 1; }), FrameFault::kIdentity);
  EXPECT_EQ(fault([](FrameExpect& e) { e.epoch ^= 1; }), FrameFault::kPlacement);
  EXPECT_EQ(fault([](FrameExpect& e) { e.slot ^= 1; }), FrameFault::kPlacement);
  EXPECT_EQ(fault([](FrameExpect& e) { e.write_id ^= 1; }), FrameFault::kPlacement);
  EXPECT_EQ(fault([](FrameExpect& e) { e.write_id = 0; }), FrameFault::kNone);
}

TEST(FrameTest, LengthsOutOfBoundsAreFaultsThoughTheirChecksumsHold) {
  std::vector<std::byte> payload = Pattern(1000);
  const FrameHeader good = MakeHeader(payload);
  const auto fault = [&good](auto change) {
    FrameHeader header = good;
    change(header.fixed);
    SealFixed(header.fixed);
    SealPlacement(header);
    return CheckHeader(header);
  };
  EXPECT_EQ(fault([](FrameFixed&) {}), FrameFault::kNone);
  EXPECT_NE(fault([](FrameFixed& f) { f.payload_bytes = 0; }), FrameFault::kNone);
  EXPECT_NE(fault([](FrameFixed& f) { f.payload_bytes = kPayloadBytesMax + 1; }),
            FrameFault::kNone);
  EXPECT_NE(fault([](FrameFixed& f) { f.granule_bytes_log2 = 60; }), FrameFault::kNone);
  EXPECT_NE(fault([](FrameFixed& f) { f.external_bytes = 65; }), FrameFault::kNone);
  EXPECT_NE(fault([](FrameFixed& f) { f.external_bytes = 15; }), FrameFault::kNone);
}

TEST(FrameTest, APlacementDoesNotFitAnotherFixedPart) {
  std::vector<std::byte> one = Pattern(1000, 1);
  std::vector<std::byte> two = Pattern(1000, 2);
  FrameHeader header = MakeHeader(one);
  header.fixed = MakeHeader(two).fixed;
  EXPECT_EQ(CheckHeader(header), FrameFault::kHeaderChecksum);
}

TEST(FrameTest, EveryCutOfThePayloadGivesTheSameGranulesAndCopy) {
  constexpr uint64_t kSeed = 42;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  for (const uint64_t bytes : {1u, 63u, 4'097u, 262'143u, 262'145u, 700'001u}) {
    std::vector<std::byte> payload = Pattern(bytes);
    const FrameHeader whole = MakeHeader(payload);
    for (int round = 0; round < 8; ++round) {
      std::vector<Extent> extents;
      for (uint64_t at = 0; at < bytes;) {
        const uint64_t piece = std::min<uint64_t>(bytes - at, random() % (bytes / 3 + 2));
        extents.push_back({payload.data() + at, piece});  // empty ones too
        at += piece;
      }
      // Aligned for streaming stores on every other round, off by one otherwise.
      const testing::AlignedBytes target = testing::AllocateAligned(bytes + 1);
      std::byte* to = target.get() + round % 2;
      FrameFixed fixed = whole.fixed;
      std::fill(std::begin(fixed.granule), std::end(fixed.granule), 0);
      ChecksumPayload(extents, round < 6 ? to : nullptr, fixed);
      EXPECT_TRUE(std::equal(std::begin(fixed.granule), std::end(fixed.granule),
                             std::begin(whole.fixed.granule)));
      if (round < 6) {
        EXPECT_EQ(std::memcmp(to, payload.data(), bytes), 0);
      }
      EXPECT_EQ(CheckPayload(whole.fixed, 0, extents), FrameFault::kNone);
    }
  }
}

TEST(FrameTest, ABitFlippedAnywhereInThePayloadIsFoundInItsGranuleOnly) {
  const uint64_t granule = kGranuleBytesMin;
  std::vector<std::byte> payload = Pattern(3 * granule + 100);
  const FrameHeader header = MakeHeader(payload);
  for (const uint64_t at :
       {uint64_t{0}, granule - 1, granule, 2 * granule + 77, 3 * granule, 3 * granule + 99}) {
    payload[at] ^= std::byte{0x10};
    const Extent whole{payload.data(), payload.size()};
    EXPECT_EQ(CheckPayload(header.fixed, 0, {&whole, 1}), FrameFault::kPayload) << at;
    for (uint64_t g = 0; g < 4; ++g) {
      const Extent part{payload.data() + g * granule,
                        std::min(granule, payload.size() - g * granule)};
      EXPECT_EQ(CheckPayload(header.fixed, g * granule, {&part, 1}),
                at / granule == g ? FrameFault::kPayload : FrameFault::kNone);
    }
    payload[at] ^= std::byte{0x10};
  }
}

TEST(FrameTest, PaddingIsIgnoredAndPartGranulesAreNot) {
  std::vector<std::byte> payload = Pattern(kGranuleBytesMin + 100);
  const FrameHeader header = MakeHeader(payload);
  payload.resize(kGranuleBytesMin + 4096, std::byte{0xff});
  const Extent padded{payload.data(), payload.size()};
  EXPECT_EQ(CheckPayload(header.fixed, 0, {&padded, 1}), FrameFault::kNone);
  const Extent last{payload.data() + kGranuleBytesMin, 4096};
  EXPECT_EQ(CheckPayload(header.fixed, kGranuleBytesMin, {&last, 1}), FrameFault::kNone);
  const Extent part{payload.data(), 4096};
  EXPECT_EQ(CheckPayload(header.fixed, 0, {&part, 1}), FrameFault::kPayload);
  EXPECT_EQ(CheckPayload(header.fixed, 4096, {&part, 1}), FrameFault::kPayload);
  EXPECT_EQ(CheckPayload(header.fixed, 2 * kGranuleBytesMin, {&part, 1}), FrameFault::kPayload);
  EXPECT_EQ(CheckPayload(header.fixed, 0, {}), FrameFault::kPayload);
}

TEST(FrameTest, TheLargestPayloadHas128Granules) {
  std::vector<std::byte> payload = Pattern(1u << 20);
  // 256 MiB from one MiB, named often.
  std::vector<Extent> extents(256, Extent{payload.data(), payload.size()});
  FrameFixed fixed{};
  InitFixed({.key = {1, 1}}, kPayloadBytesMax, fixed);
  ChecksumPayload(extents, nullptr, fixed);
  EXPECT_NE(fixed.granule[127], 0u);
  EXPECT_EQ(CheckPayload(fixed, 0, extents), FrameFault::kNone);
}

TEST(FrameTest, Avx2AndBaselineAgreeForEverySize) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this CPU has no AVX2";
  const std::vector<std::byte> data = Pattern(70'000);
  const testing::AlignedBytes copies[] = {testing::AllocateAligned(70'000),
                                          testing::AllocateAligned(70'000)};
  for (size_t bytes = 0; bytes < data.size(); bytes = bytes < 1'500 ? bytes + 1 : bytes * 9 / 8) {
    EXPECT_EQ(internal::kXxh3Avx2.hash(data.data() + 1, bytes, 5),
              internal::kXxh3Baseline.hash(data.data() + 1, bytes, 5));
    uint64_t digests[2];
    const internal::Xxh3* tables[] = {&internal::kXxh3Avx2, &internal::kXxh3Baseline};
    for (int i = 0; i < 2; ++i) {
      internal::Xxh3State state;
      tables[i]->reset(&state);
      tables[i]->update(&state, data.data() + 1, bytes / 3);
      tables[i]->copy_and_update(&state, copies[i].get(), data.data() + 1 + bytes / 3,
                                 bytes - bytes / 3);
      tables[i]->end_copies();
      digests[i] = tables[i]->digest(&state);
      EXPECT_EQ(std::memcmp(copies[i].get(), data.data() + 1 + bytes / 3, bytes - bytes / 3), 0);
    }
    EXPECT_EQ(digests[0], digests[1]) << bytes;
    EXPECT_EQ(digests[0], internal::kXxh3Baseline.hash(data.data() + 1, bytes, 0)) << bytes;
  }
}

TEST(FrameTest, FaultsHaveNames) {
  EXPECT_EQ(ToString(FrameFault::kNone), "none");
  EXPECT_EQ(ToString(FrameFault::kPayload), "payload");
}

}  // namespace
}  // namespace holdfast
