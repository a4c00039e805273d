#include "tiers/flash_format.h"

#include <algorithm>
#include <cstring>

namespace holdfast::internal {
namespace {

// Of everything in front of the checksum, which comes last.
template <typename T>
uint64_t ChecksumOf(const T& value) noexcept {
  static_assert(offsetof(T, checksum) + sizeof(uint64_t) == sizeof(T));
  return Checksum64({reinterpret_cast<const std::byte*>(&value), offsetof(T, checksum)});
}

uint64_t SummaryChecksum(const SummaryView& view) noexcept {
  const uint64_t entries = Checksum64(std::as_bytes(view.entries));
  return Checksum64(
      {reinterpret_cast<const std::byte*>(view.header), offsetof(SummaryHeader, checksum)},
      entries);
}

}  // namespace

void SealSuperblock(FlashSuperblock& block) noexcept {
  block.magic = kFlashMagic;
  block.version = kFlashVersion;
  block.checksum = ChecksumOf(block);
}

void SealSegmentHeader(SegmentHeader& header) noexcept {
  header.magic = kSegmentMagic;
  header.checksum = ChecksumOf(header);
}

void SealSegmentShape(SegmentShape& shape) noexcept {
  shape.magic = kShapeMagic;
  shape.checksum = ChecksumOf(shape);
}

SuperblockState CheckSuperblock(const FlashSuperblock& block) noexcept {
  const auto bytes = std::as_bytes(std::span(&block, 1));
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return SuperblockState::kZero;
  }
  if (block.magic != kFlashMagic || block.checksum != ChecksumOf(block)) {
    return SuperblockState::kBad;
  }
  if (block.version != kFlashVersion) return SuperblockState::kNewerVersion;
  const bool sane = block.segment_bytes % kPageBytes == 0 &&
                    block.segment_bytes >= SegmentBytesFor(1, FrameBytes(1));
  return sane ? SuperblockState::kGood : SuperblockState::kBad;
}

bool CheckSegmentHeader(const SegmentHeader& header, uint64_t segment) noexcept {
  return header.magic == kSegmentMagic && header.segment == segment &&
         header.checksum == ChecksumOf(header);
}

bool CheckSegmentShape(const SegmentShape& shape, const SegmentHeader& header,
                       uint64_t segment_bytes) noexcept {
  return shape.magic == kShapeMagic && shape.epoch == header.epoch &&
         shape.segment == header.segment && shape.checksum == ChecksumOf(shape) &&
         shape.stride_bytes % kPageBytes == 0 && shape.stride_bytes >= FrameBytes(1) &&
         SlotsOf(segment_bytes, shape.stride_bytes) > 0;
}

SummaryView ViewSummary(std::byte* bytes, uint32_t slots) noexcept {
  return {reinterpret_cast<SummaryHeader*>(bytes),
          {reinterpret_cast<SummaryEntry*>(bytes + sizeof(SummaryHeader)), slots}};
}

void SealSummary(const SummaryView& view, uint64_t epoch, uint64_t segment) noexcept {
  *view.header = SummaryHeader{};
  view.header->magic = kSummaryMagic;
  view.header->epoch = epoch;
  view.header->segment = segment;
  view.header->slots = static_cast<uint32_t>(view.entries.size());
  view.header->checksum = SummaryChecksum(view);
}

bool CheckSummary(const SummaryView& view, uint64_t epoch, uint64_t segment) noexcept {
  const SummaryHeader& header = *view.header;
  return header.magic == kSummaryMagic && header.epoch == epoch && header.segment == segment &&
         header.slots == view.entries.size() && header.checksum == SummaryChecksum(view);
}

SummaryEntry MakeSummaryEntry(const FrameHeader& header) noexcept {
  const FrameFixed& fixed = header.fixed;
  const FramePlacement& placement = header.placement;
  SummaryEntry entry{.key = fixed.key,
                     .root = fixed.root,
                     .parent = fixed.parent,
                     .payload_bytes = fixed.payload_bytes,
                     .write_id = placement.write_id,
                     .deadline_ms = placement.deadline_ms,
                     .hold_ttl_ms = placement.hold_ttl_ms,
                     .index = fixed.index,
                     .granted = placement.granted,
                     .touches = placement.touches,
                     .external_bytes = fixed.external_bytes,
                     .external = {}};
  std::memcpy(entry.external, fixed.external, sizeof(entry.external));
  return entry;
}

void RestoreHeader(const SummaryEntry& entry, FrameHeader& out) noexcept {
  InitFixed({.key = entry.key,
             .root = entry.root,
             .parent = entry.parent,
             .index = entry.index,
             .external = {entry.external, entry.external_bytes}},
            entry.payload_bytes, out.fixed);
  out.placement = FramePlacement{};
  out.placement.write_id = entry.write_id;
  out.placement.deadline_ms = entry.deadline_ms;
  out.placement.hold_ttl_ms = entry.hold_ttl_ms;
  out.placement.granted = entry.granted;
  out.placement.touches = entry.touches;
}

bool SaneEntry(const SummaryEntry& entry, uint64_t stride_bytes) noexcept {
  return entry.payload_bytes >= 1 && entry.payload_bytes <= kPayloadBytesMax &&
         FrameBytes(entry.payload_bytes) == stride_bytes &&
         entry.external_bytes <= kExternalKeyBytesMax;
}

uint64_t SummaryBytes(uint32_t slots) noexcept {
  return RoundUp(sizeof(SummaryHeader) + uint64_t{slots} * sizeof(SummaryEntry), kPageBytes);
}

uint32_t SlotsOf(uint64_t segment_bytes, uint64_t stride_bytes) noexcept {
  if (segment_bytes <= kSlotsOffset + kPageBytes) return 0;
  auto slots = static_cast<uint32_t>(
      std::min<uint64_t>((segment_bytes - kSlotsOffset - kPageBytes) / stride_bytes, UINT32_MAX));
  while (slots > 0 && SegmentBytesFor(slots, stride_bytes) > segment_bytes) --slots;
  return slots;
}

uint64_t SummaryOffset(uint64_t segment_bytes, uint32_t slots) noexcept {
  return segment_bytes - SummaryBytes(slots);
}

uint64_t SegmentBytesFor(uint32_t slots, uint64_t stride_bytes) noexcept {
  return kSlotsOffset + slots * stride_bytes + SummaryBytes(slots);
}

uint64_t ChooseSegmentBytes(uint64_t capacity_bytes, const FlashTierOptions& options) noexcept {
  const uint64_t usable = capacity_bytes > kSegmentsOffset ? capacity_bytes - kSegmentsOffset : 0;
  const uint64_t stride = FrameBytes(options.payload_bytes_typical);
  uint64_t aim = std::min(options.segment_bytes, usable / std::max(options.segments_min, 1u));
  aim = std::max(aim, std::min(options.segment_bytes_min, usable));
  const uint32_t most = std::max(SlotsOf(aim, stride), 1u);
  uint64_t best = SegmentBytesFor(most, stride);
  uint64_t least_waste = UINT64_MAX;
  for (uint32_t slots = most; slots > 0 && slots >= most - most / 4; --slots) {
    const uint64_t bytes = SegmentBytesFor(slots, stride);
    const uint64_t waste = usable - usable / bytes * slots * stride;
    if (waste < least_waste) {
      least_waste = waste;
      best = bytes;
    }
    if (waste < usable / 50) break;
  }
  return best;
}

Pages AllocatePages(uint64_t bytes) {
  Pages pages(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kPageBytes})));
  std::memset(pages.get(), 0, bytes);
  return pages;
}

}  // namespace holdfast::internal
