#include "kvstore/frame.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "kvstore/check.h"
#include "kvstore/xxh3.h"

static_assert(std::endian::native == std::endian::little, "frames are written as they lie");

namespace holdfast {
namespace internal {

const Xxh3& ChosenXxh3() noexcept {
  static const Xxh3& chosen = __builtin_cpu_supports("avx2") ? kXxh3Avx2 : kXxh3Baseline;
  return chosen;
}

}  // namespace internal
namespace {

using internal::Xxh3;
using internal::Xxh3State;

// A piece is copied while it lies in the first cache level, where hashing brought it.
constexpr uint64_t kPieceBytes = 8u << 10;

uint64_t FixedChecksum(const FrameFixed& fixed) noexcept {
  return internal::ChosenXxh3().hash(&fixed, offsetof(FrameFixed, checksum), 0);
}

uint64_t PlacementChecksum(const FrameHeader& header) noexcept {
  return internal::ChosenXxh3().hash(&header.placement, offsetof(FramePlacement, checksum),
                                     header.fixed.checksum);
}

// Walks the extents in order, copying on the way where there is a target.
class PayloadReader {
 public:
  PayloadReader(std::span<const Extent> extents, std::byte* target) noexcept
      : extents_(extents), target_(target) {}

  // Hash of the next `bytes`; false when the extents end before.
  bool Hash(uint64_t bytes, uint64_t& hash) noexcept {
    SkipEmpty();
    if (target_ == nullptr && !extents_.empty() && extents_[0].bytes - used_ >= bytes) {
      hash = xxh3_.hash(extents_[0].data + used_, bytes, 0);
      used_ += bytes;
      return true;
    }
    Xxh3State state;  // NOLINT(cppcoreguidelines-pro-type-member-init): reset() fills it
    xxh3_.reset(&state);
    while (bytes > 0) {
      SkipEmpty();
      if (extents_.empty()) return false;
      uint64_t piece = std::min(bytes, extents_[0].bytes - used_);
      const std::byte* data = extents_[0].data + used_;
      if (target_ != nullptr) {
        piece = std::min(piece, kPieceBytes);
        xxh3_.copy_and_update(&state, target_, data, piece);
        target_ += piece;
      } else {
        xxh3_.update(&state, data, piece);
      }
      used_ += piece;
      bytes -= piece;
    }
    hash = xxh3_.digest(&state);
    return true;
  }

 private:
  void SkipEmpty() noexcept {
    while (!extents_.empty() && used_ == extents_[0].bytes) {
      extents_ = extents_.subspan(1);
      used_ = 0;
    }
  }

  const Xxh3& xxh3_ = internal::ChosenXxh3();
  std::span<const Extent> extents_;
  uint64_t used_ = 0;  // of the first extent
  std::byte* target_;
};

bool SaneLengths(const FrameFixed& fixed) noexcept {
  return fixed.payload_bytes >= 1 && fixed.payload_bytes <= kPayloadBytesMax &&
         fixed.granule_bytes_log2 == GranuleBytesLog2(fixed.payload_bytes) &&
         (fixed.external_bytes == 0 ||
          (fixed.external_bytes >= 16 && fixed.external_bytes <= kExternalKeyBytesMax));
}

}  // namespace

std::string_view ToString(FrameFault fault) noexcept {
  switch (fault) {
    case FrameFault::kNone:
      return "none";
    case FrameFault::kMagic:
      return "magic";
    case FrameFault::kVersion:
      return "version";
    case FrameFault::kHeaderChecksum:
      return "header checksum";
    case FrameFault::kIdentity:
      return "identity";
    case FrameFault::kPlacement:
      return "placement";
    case FrameFault::kPayload:
      return "payload";
  }
  return "unknown";
}

uint32_t GranuleBytesLog2(uint64_t payload_bytes) noexcept {
  const uint64_t least =
      std::max<uint64_t>(kGranuleBytesMin, (payload_bytes + kGranulesMax - 1) / kGranulesMax);
  return static_cast<uint32_t>(std::bit_width(least - 1));
}

uint32_t GranuleCount(uint64_t payload_bytes) noexcept {
  const uint32_t log2 = GranuleBytesLog2(payload_bytes);
  return static_cast<uint32_t>((payload_bytes + (1ull << log2) - 1) >> log2);
}

void InitFixed(const FrameIdentity& identity, uint64_t payload_bytes, FrameFixed& out) noexcept {
  HF_CHECK(payload_bytes >= 1 && payload_bytes <= kPayloadBytesMax);
  HF_CHECK(identity.external.size() <= kExternalKeyBytesMax);
  out = FrameFixed{};
  out.magic = kFrameMagic;
  out.version = kFrameVersion;
  out.granule_bytes_log2 = GranuleBytesLog2(payload_bytes);
  out.key = identity.key;
  out.root = identity.root;
  out.parent = identity.parent;
  out.index = identity.index;
  out.external_bytes = static_cast<uint32_t>(identity.external.size());
  out.payload_bytes = payload_bytes;
  if (!identity.external.empty()) {
    std::memcpy(out.external, identity.external.data(), identity.external.size());
  }
}

void SealFixed(FrameFixed& fixed) noexcept { fixed.checksum = FixedChecksum(fixed); }

void SealPlacement(FrameHeader& header) noexcept {
  header.placement.checksum = PlacementChecksum(header);
}

void ChecksumPayload(std::span<const Extent> source, std::byte* target,
                     FrameFixed& fixed) noexcept {
  const uint64_t granule_bytes = 1ull << fixed.granule_bytes_log2;
  PayloadReader reader(source, target);
  uint64_t left = fixed.payload_bytes;
  for (uint32_t i = 0; left > 0; ++i) {
    HF_CHECK(i < kGranulesMax);
    const uint64_t bytes = std::min(left, granule_bytes);
    HF_CHECK(reader.Hash(bytes, fixed.granule[i]));
    left -= bytes;
  }
  if (target != nullptr) internal::ChosenXxh3().end_copies();
}

FrameFault CheckHeader(const FrameHeader& header) noexcept {
  if (header.fixed.magic != kFrameMagic) return FrameFault::kMagic;
  if (header.fixed.version != kFrameVersion) return FrameFault::kVersion;
  if (header.fixed.checksum != FixedChecksum(header.fixed) ||
      header.placement.checksum != PlacementChecksum(header) || !SaneLengths(header.fixed)) {
    return FrameFault::kHeaderChecksum;
  }
  return FrameFault::kNone;
}

FrameFault CheckHeader(const FrameHeader& header, const FrameExpect& expect) noexcept {
  if (const FrameFault fault = CheckHeader(header); fault != FrameFault::kNone) return fault;
  const FrameFixed& fixed = header.fixed;
  if (fixed.key != expect.key || fixed.root != expect.root || fixed.index != expect.index ||
      fixed.payload_bytes != expect.payload_bytes) {
    return FrameFault::kIdentity;
  }
  const FramePlacement& placement = header.placement;
  if (placement.epoch != expect.epoch || placement.slot != expect.slot ||
      (expect.write_id != 0 && placement.write_id != expect.write_id)) {
    return FrameFault::kPlacement;
  }
  return FrameFault::kNone;
}

FrameFault CheckPayload(const FrameFixed& fixed, uint64_t offset,
                        std::span<const Extent> extents) noexcept {
  const uint64_t granule_bytes = 1ull << fixed.granule_bytes_log2;
  if (offset >= fixed.payload_bytes || offset % granule_bytes != 0) return FrameFault::kPayload;
  uint64_t left = 0;
  for (const Extent& extent : extents) left += extent.bytes;
  left = std::min(left, fixed.payload_bytes - offset);
  const bool reaches_end = offset + left == fixed.payload_bytes;
  if (left == 0 || (left % granule_bytes != 0 && !reaches_end)) return FrameFault::kPayload;
  PayloadReader reader(extents, nullptr);
  for (uint64_t i = offset / granule_bytes; left > 0; ++i) {
    const uint64_t bytes = std::min(left, granule_bytes);
    uint64_t hash = 0;
    if (i >= kGranulesMax || !reader.Hash(bytes, hash) || hash != fixed.granule[i]) {
      return FrameFault::kPayload;
    }
    left -= bytes;
  }
  return FrameFault::kNone;
}

uint64_t Checksum64(std::span<const std::byte> bytes, uint64_t seed) noexcept {
  return internal::ChosenXxh3().hash(bytes.data(), bytes.size(), seed);
}

}  // namespace holdfast
