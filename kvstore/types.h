// Small values that every layer shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast {

inline constexpr uint64_t kPageBytes = 4096;              // frames, headers, direct I/O
inline constexpr uint64_t kPayloadBytesMax = 256u << 20;  // of one block

// Identity of a block: the first 128 bits of a SHA-256 (kvstore/blocks.h). All bits are compared.
struct BlockKey {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

// Identity of a key space at one epoch, from the same function.
using RootKey = BlockKey;

// Where the nearest live copy of a block is.
enum class Where : uint8_t { kAbsent, kArriving, kHbm, kDdr, kFlash, kDisk };
std::string_view ToString(Where where) noexcept;

// One piece of memory.
struct Extent {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}
// Bytes of a frame: a header and the payload, padded.
constexpr uint64_t FrameBytes(uint64_t payload_bytes) noexcept {
  return kPageBytes + RoundUp(payload_bytes, kPageBytes);
}

}  // namespace holdfast
