// The bytes of the flash log: superblock, the two header pages of a segment, its summary, and the
// arithmetic of where frames lie. Byte layout and reasons: docs/format.md.
//
// Threading: free functions, thread-compatible. Errors: bytes of outside origin give false, never
// an assertion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "kvstore/clock.h"
#include "kvstore/frame.h"
#include "kvstore/tiers.h"
#include "kvstore/types.h"

namespace holdfast::internal {

inline constexpr uint64_t kFlashMagic = 0x314853414c464648;    // "HFFLASH1"
inline constexpr uint64_t kSegmentMagic = 0x31544d4745534648;  // "HFSEGMT1"
inline constexpr uint64_t kShapeMagic = 0x3145504148534648;    // "HFSHAPE1"
inline constexpr uint64_t kSummaryMagic = 0x3159524d55534648;  // "HFSUMRY1"
inline constexpr uint32_t kFlashVersion = 1;
inline constexpr uint64_t kSuperblockCopies = 2;
inline constexpr uint64_t kSegmentsOffset = kSuperblockCopies * kPageBytes;
inline constexpr uint64_t kSlotsOffset = 2 * kPageBytes;  // in a segment: header and shape before

struct FlashSuperblock {  // one page, twice
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t reserved0 = 0;
  uint64_t segment_bytes = 0;
  BlockKey store_id;
  uint64_t opens = 0;  // times opened; the high half of every epoch given since
  std::byte reserved[4040]{};
  uint64_t checksum = 0;  // XXH3-64 of all before it
};
static_assert(sizeof(FlashSuperblock) == kPageBytes);

// Written and flushed before a segment's new life: from then on nothing of its old life counts.
struct SegmentHeader {  // first page
  uint64_t magic = 0;
  uint64_t epoch = 0;
  uint64_t segment = 0;
  std::byte reserved[4064]{};
  uint64_t checksum = 0;
};
static_assert(sizeof(SegmentHeader) == kPageBytes);

// Written with the first frame, whose size and class are not known before.
struct SegmentShape {  // second page
  uint64_t magic = 0;
  uint64_t epoch = 0;
  uint64_t segment = 0;
  uint64_t stride_bytes = 0;
  HoldMillis created_ms = 0;
  uint32_t hold_class = 0;
  uint32_t reserved0 = 0;
  std::byte reserved[4040]{};
  uint64_t checksum = 0;
};
static_assert(sizeof(SegmentShape) == kPageBytes);

// What recovery needs of one frame.
struct SummaryEntry {
  BlockKey key;
  RootKey root;
  BlockKey parent;
  uint64_t payload_bytes = 0;  // 0: the slot holds no copy
  uint64_t write_id = 0;
  int64_t deadline_ms = 0;
  uint64_t hold_ttl_ms = 0;
  uint32_t index = 0;
  uint32_t granted = 0;
  uint32_t touches = 0;
  uint32_t external_bytes = 0;
  std::byte external[kExternalKeyBytesMax]{};
};
static_assert(sizeof(SummaryEntry) == 160);

struct SummaryHeader {
  uint64_t magic = 0;
  uint64_t epoch = 0;
  uint64_t segment = 0;
  uint32_t slots = 0;
  uint32_t reserved0 = 0;
  std::byte reserved[24]{};
  uint64_t checksum = 0;  // of all before it, seeded with that of the entries
};
static_assert(sizeof(SummaryHeader) == 64);

// Each fills magic, version and checksum.
void SealSuperblock(FlashSuperblock& block) noexcept;
void SealSegmentHeader(SegmentHeader& header) noexcept;
void SealSegmentShape(SegmentShape& shape) noexcept;

enum class SuperblockState : uint8_t { kGood, kNewerVersion, kZero, kBad };
SuperblockState CheckSuperblock(const FlashSuperblock& block) noexcept;
bool CheckSegmentHeader(const SegmentHeader& header, uint64_t segment) noexcept;
// Of the same life as `header`, with a stride that fits.
bool CheckSegmentShape(const SegmentShape& shape, const SegmentHeader& header,
                       uint64_t segment_bytes) noexcept;

// The summary of `slots` entries at `bytes`, which hold SummaryBytes(slots).
struct SummaryView {
  SummaryHeader* header;
  std::span<SummaryEntry> entries;
};
SummaryView ViewSummary(std::byte* bytes, uint32_t slots) noexcept;
void SealSummary(const SummaryView& view, uint64_t epoch, uint64_t segment) noexcept;
bool CheckSummary(const SummaryView& view, uint64_t epoch, uint64_t segment) noexcept;

SummaryEntry MakeSummaryEntry(const FrameHeader& header) noexcept;
// The reverse, but for the granules' checksums.
void RestoreHeader(const SummaryEntry& entry, FrameHeader& out) noexcept;
// Lengths within bounds for this stride; a checksum that matches does not make them so.
bool SaneEntry(const SummaryEntry& entry, uint64_t stride_bytes) noexcept;

uint64_t SummaryBytes(uint32_t slots) noexcept;  // padded to a page
// Frames of `stride_bytes` in a segment with its header pages and summary.
uint32_t SlotsOf(uint64_t segment_bytes, uint64_t stride_bytes) noexcept;
uint64_t SummaryOffset(uint64_t segment_bytes, uint32_t slots) noexcept;  // in the segment
// Bytes of a segment that holds exactly `slots` frames.
uint64_t SegmentBytesFor(uint32_t slots, uint64_t stride_bytes) noexcept;
// About options.segment_bytes, or less where flash would hold fewer than segments_min: the largest
// multiple of the typical frame near it that leaves less than 2 % of the medium unused, else the
// one that leaves least.
uint64_t ChooseSegmentBytes(uint64_t capacity_bytes, const FlashTierOptions& options) noexcept;

struct FreePages {
  void operator()(std::byte* p) const noexcept {
    ::operator delete (p, std::align_val_t{kPageBytes});
  }
};
// Zeroed, aligned for direct I/O.
using Pages = std::unique_ptr<std::byte[], FreePages>;
Pages AllocatePages(uint64_t bytes);

}  // namespace holdfast::internal
