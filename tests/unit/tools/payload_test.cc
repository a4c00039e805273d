#include "bench/payload.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::tools {
namespace {

constexpr BlockKey kKey = {.hi = 0x0123456789abcdef, .lo = 7};
constexpr BlockKey kOther = {.hi = 0x0123456789abcdef, .lo = 8};
constexpr size_t kSizes[] = {1, 7, 8, 9, 4095, 4096, 4097, 3 * 4096 + 5, 65536};

std::vector<std::byte> Filled(const BlockKey& key, size_t bytes) {
  std::vector<std::byte> payload(bytes);
  FillPayload(key, payload);
  return payload;
}

TEST(Payload, WhatWasFilledIsRightAtEveryLength) {
  for (const size_t bytes : kSizes) {
    EXPECT_EQ(FirstWrongByte(kKey, Filled(kKey, bytes)), std::nullopt) << bytes;
  }
}

TEST(Payload, LengthDoesNotChangeTheBytes) {
  const std::vector<std::byte> longer = Filled(kKey, 65536);
  for (const size_t bytes : kSizes) {
    EXPECT_EQ(std::memcmp(Filled(kKey, bytes).data(), longer.data(), bytes), 0) << bytes;
  }
}

TEST(Payload, EveryFlippedByteIsFoundAtItsOffset) {
  std::vector<std::byte> payload = Filled(kKey, 3 * 4096 + 5);
  for (size_t at = 0; at < payload.size(); at += at < 64 ? 1 : 61) {
    payload[at] ^= std::byte{0x10};
    EXPECT_EQ(FirstWrongByte(kKey, payload), at);
    EXPECT_EQ(CountWrongBytes(kKey, payload), 1u);
    payload[at] ^= std::byte{0x10};
  }
}

TEST(Payload, BytesOfAnotherKeyOrOffsetAreWrong) {
  for (const size_t bytes : kSizes) {
    if (bytes < 8) continue;
    const std::optional<uint64_t> wrong = FirstWrongByte(kKey, Filled(kOther, bytes));
    ASSERT_TRUE(wrong.has_value());
    EXPECT_LT(*wrong, 8u);
  }
  std::vector<std::byte> payload = Filled(kKey, 65536);
  std::rotate(payload.begin(), payload.begin() + 4096, payload.end());
  EXPECT_TRUE(FirstWrongByte(kKey, payload).has_value());
}

TEST(Payload, SpoiledPagesAreAllWrong) {
  for (const size_t bytes : kSizes) {
    std::vector<std::byte> payload = Filled(kKey, bytes);
    SpoilPayload(payload);
    EXPECT_EQ(CountWrongBytes(kKey, payload), (bytes + 4095) / 4096) << bytes;
    EXPECT_EQ(FirstWrongByte(kKey, payload), std::min<size_t>(bytes, 4096) - 1);
  }
}

}  // namespace
}  // namespace holdfast::tools
