// Frame: a block as it lies below HBM. A 4 KiB header, then the payload padded to 4 KiB.
//
// The header has two parts. The fixed part is written once, at put, and travels with the payload
// from tier to tier. The placement part says where this copy lies; only a tier writes it. Byte
// layout: docs/format.md; little-endian.
//
// A granule is the smallest part of a payload that can be fetched alone: the smallest power of two,
// at least 256 KiB, that gives at most 128 of them. Each has its own XXH3-64.
//
// Threading: free functions, thread-compatible. Memory: nothing is allocated. Errors: bytes of
// outside origin give a FrameFault, never an assertion.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kvstore/clock.h"
#include "kvstore/types.h"

namespace holdfast {

inline constexpr uint32_t kGranulesMax = 128;
inline constexpr uint64_t kGranuleBytesMin = 256u << 10;
inline constexpr uint32_t kExternalKeyBytesMax = 64;
inline constexpr uint64_t kFrameMagic = 0x31454d4152464648;  // "HFFRAME1"
inline constexpr uint32_t kFrameVersion = 1;

struct FrameFixed {  // 3,840 bytes
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t granule_bytes_log2 = 0;
  BlockKey key;
  RootKey root;
  BlockKey parent;              // zero: none
  uint32_t index = 0;           // in its chain
  uint32_t external_bytes = 0;  // 0: key from tokens
  uint64_t payload_bytes = 0;
  std::byte external[kExternalKeyBytesMax]{};
  std::byte reserved[352]{};  // zero
  uint64_t granule[kGranulesMax]{};
  std::byte reserved2[2312]{};  // zero
  uint64_t checksum = 0;        // XXH3-64 of all before it
};
static_assert(sizeof(FrameFixed) == 3840);

struct FramePlacement {      // 256 bytes
  uint64_t epoch = 0;        // of the segment or bucket
  uint64_t slot = 0;         // in it
  uint64_t write_id = 0;     // unique per store and directory, growing; the highest of a key wins
  int64_t deadline_ms = 0;   // HoldMillis; kNoDeadline: none
  uint64_t hold_ttl_ms = 0;  // of the block's class; 0: none
  uint32_t granted = 0;      // 1: the hold was granted when this copy was written
  uint32_t touches = 0;      // uses so far, saturating
  std::byte reserved[200]{};
  uint64_t checksum = 0;  // XXH3-64 of all before it, seeded with the fixed part's checksum
};
static_assert(sizeof(FramePlacement) == 256);

struct FrameHeader {
  FrameFixed fixed{};
  FramePlacement placement{};
};
static_assert(sizeof(FrameHeader) == kPageBytes);

// What a reader knows about the frame that it asked for.
struct FrameExpect {
  BlockKey key{};
  RootKey root{};
  uint32_t index = 0;
  uint64_t payload_bytes = 0;
  uint64_t epoch = 0;  // epoch, slot and write id are filled in by the tier that knows them
  uint64_t slot = 0;
  uint64_t write_id = 0;  // 0: not compared
};

// Why bytes that were read are not the frame that was asked for.
enum class FrameFault : uint8_t {
  kNone,
  kMagic,
  kVersion,
  kHeaderChecksum,
  kIdentity,
  kPlacement,
  kPayload
};
std::string_view ToString(FrameFault fault) noexcept;

// Fills a fixed part but for the granule checksums and its own.
struct FrameIdentity {
  BlockKey key{};
  RootKey root{};
  BlockKey parent{};
  uint32_t index = 0;
  std::span<const std::byte> external{};  // 0 or 16..64 bytes
};
void InitFixed(const FrameIdentity& identity, uint64_t payload_bytes, FrameFixed& out) noexcept;
void SealFixed(FrameFixed& fixed) noexcept;        // after the granules are known
void SealPlacement(FrameHeader& header) noexcept;  // after placement is filled

uint32_t GranuleBytesLog2(uint64_t payload_bytes) noexcept;
uint32_t GranuleCount(uint64_t payload_bytes) noexcept;

// Fills fixed.granule from the payload in `source` (payload_bytes in all); with `target` not null
// the bytes are copied there in the same pass, in cache-sized pieces.
void ChecksumPayload(std::span<const Extent> source, std::byte* target, FrameFixed& fixed) noexcept;

// The header alone: magic, version, both checksums, identity, placement.
FrameFault CheckHeader(const FrameHeader& header, const FrameExpect& expect) noexcept;
// Without an expectation, for recovery: magic, version, checksums, sane lengths.
FrameFault CheckHeader(const FrameHeader& header) noexcept;
// The payload bytes [offset, offset + sum of extents) that lie in `extents`; offset is a multiple
// of the granule, and the range ends on a granule or at the payload's end (padding after it
// ignored).
FrameFault CheckPayload(const FrameFixed& fixed, uint64_t offset,
                        std::span<const Extent> extents) noexcept;

uint64_t Checksum64(std::span<const std::byte> bytes, uint64_t seed = 0) noexcept;  // XXH3-64

}  // namespace holdfast
