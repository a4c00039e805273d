#include "kvstore/internal/host_frames.h"

#include <algorithm>

#include "kvstore/check.h"

namespace holdfast::internal {
namespace {

// Pages that `bytes` of frames of one size take.
uint64_t PagesFor(uint64_t bytes, uint64_t frame, uint64_t page) {
  if (frame > page / 2) return ((frame + page - 1) / page) * (bytes / frame + 1);
  return bytes / (page / frame * frame) + 1;
}

// Two pages stay with each size in use; a few more so that a second size finds room.
uint64_t PagesOfBytes(const StoreOptions& options, uint64_t staging_bytes) {
  const uint64_t typical = FrameBytes(options.payload_bytes_typical);
  const uint64_t longest = FrameBytes(options.payload_bytes_max);
  return PagesFor(options.ddr_bytes, typical, options.page_bytes) +
         PagesFor(staging_bytes, typical, options.page_bytes) +
         2 * ((longest + options.page_bytes - 1) / options.page_bytes) + 2;
}

// Without bytes a frame is only a name, kPageBytes of the range whatever its size.
uint64_t PagesOfNames(const StoreOptions& options, uint64_t staging_bytes) {
  constexpr uint64_t kFrameBytesMin = FrameBytes(1);
  const uint64_t names = std::min(options.ddr_bytes / kFrameBytesMin, options.index_entries_max) +
                         staging_bytes / kFrameBytesMin;
  return PagesFor(names * kPageBytes, kPageBytes, options.page_bytes) + 2;
}

}  // namespace

Status HostFrames::Init(const StoreOptions& options, const StartThread& start_thread) {
  bytes_ = options.bytes;
  const uint64_t typical = FrameBytes(options.payload_bytes_typical);
  const uint64_t longest = FrameBytes(options.payload_bytes_max);
  ddr_capacity_ = options.ddr_bytes;
  staging_reserve_ = 8 * typical;
  staging_capacity_ = std::max(options.staging_frames * typical + 8 * typical, 2 * longest);
  const uint64_t pages =
      bytes_ ? PagesOfBytes(options, staging_capacity_) : PagesOfNames(options, staging_capacity_);
  if (pages > kNoFrame / (options.page_bytes / kPageBytes)) {
    return Status(StatusCode::kInvalidArgument,
                  "ddr_bytes: " + std::to_string(ddr_capacity_) +
                      "; host memory, with what pages waste and staging, is below 16 TiB");
  }
  ArenaOptions arena;
  arena.space = {.range_bytes = pages * options.page_bytes, .page_bytes = options.page_bytes};
  arena.bytes = options.bytes;
  arena.populate = options.bytes && options.ddr_bytes > 0;
  arena.start_thread = start_thread;
  HF_ASSIGN_OR_RETURN(arena_, Arena::Create(arena));
  return {};
}

FrameAt HostFrames::Allocate(uint64_t frame_bytes, Use use) {
  if (use == Use::kDdr) {
    if (!DdrHasRoom(frame_bytes)) return kNoFrame;
  } else {
    const uint64_t reserve = use == Use::kStaging ? staging_reserve_ : 0;
    if (staging_used_ + frame_bytes + reserve > staging_capacity_ && staging_used_ > 0) {
      return kNoFrame;
    }
  }
  const std::optional<uint64_t> offset = arena_->space().Allocate(RangeBytes(frame_bytes));
  if (!offset.has_value()) return kNoFrame;
  (use == Use::kDdr ? ddr_used_ : staging_used_) += frame_bytes;
  return static_cast<FrameAt>(*offset / kPageBytes);
}

void HostFrames::Free(FrameAt at, uint64_t frame_bytes, Use use) {
  (use == Use::kDdr ? ddr_used_ : staging_used_) -= frame_bytes;
  arena_->space().Free(uint64_t{at} * kPageBytes);
}

bool HostFrames::Adopt(uint64_t frame_bytes) {
  if (!DdrHasRoom(frame_bytes)) return false;
  ddr_used_ += frame_bytes;
  staging_used_ -= frame_bytes;
  return true;
}

void HostFrames::Orphan(FrameAt at, uint64_t frame_bytes, uint32_t refs) {
  remnants_.emplace(at, Remnant{frame_bytes, refs});
}

void HostFrames::ReleaseOrphan(FrameAt at) {
  const auto it = remnants_.find(at);
  HF_CHECK(it != remnants_.end());
  if (--it->second.refs > 0) return;
  Free(at, it->second.bytes, Use::kDdr);
  remnants_.erase(it);
}

void HostFrames::PageToTake(uint64_t frame_bytes, std::vector<FrameAt>& frames) const {
  frames.clear();
  const std::optional<uint64_t> page = arena_->space().PageToTake(RangeBytes(frame_bytes));
  if (!page.has_value()) return;
  std::vector<uint64_t> offsets;
  arena_->space().FramesOfPage(*page, offsets);
  for (uint64_t offset : offsets) frames.push_back(static_cast<FrameAt>(offset / kPageBytes));
}

}  // namespace holdfast::internal
