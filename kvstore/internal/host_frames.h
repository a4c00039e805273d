// HostFrames: the arena's frames, shared between the ddr tier (bounded by ddr_bytes) and staging
// (bounded by its own share), and the references that keep a frame from being used again.
//
// A frame belongs to an entry while that has a ddr copy. References of running operations and of
// views are counted in the entry; when the copy goes first, the frame stays as a remnant until the
// last ends.
//
// Without bytes a frame is a name that takes no memory, so that ddr_bytes has no bound but the
// index's.
//
// Threading: payload() and header() thread-safe; the rest thread-compatible (the store's lock).
#pragma once

#include <memory>
#include <optional>

#include <absl/container/flat_hash_map.h>

#include "kvstore/arena.h"
#include "kvstore/environment.h"
#include "kvstore/frame.h"
#include "kvstore/internal/entry.h"
#include "kvstore/options.h"

namespace holdfast::internal {

// A frame by its offset in units of 4 KiB.
using FrameAt = uint32_t;
inline constexpr FrameAt kNoFrame = UINT32_MAX;

class HostFrames {
 public:
  Status Init(const StoreOptions& options, const StartThread& start_thread);

  enum class Use : uint8_t {
    kDdr,
    kStaging,
    kStagingUrgent
  };  // urgent: a fetch; may use the reserve
  // kNoFrame: over the share of this use, or no page for this size.
  FrameAt Allocate(uint64_t frame_bytes, Use use);
  void Free(FrameAt at, uint64_t frame_bytes, Use use);
  // A staging frame becomes a ddr frame. False: over ddr's share.
  bool Adopt(uint64_t frame_bytes);
  // The copy went while operations or views still use its frame.
  void Orphan(FrameAt at, uint64_t frame_bytes, uint32_t refs);
  void ReleaseOrphan(FrameAt at);

  std::byte* payload(FrameAt at) const noexcept { return base(at) + kPageBytes; }
  FrameHeader* header(FrameAt at) const noexcept {  // requires bytes()
    return reinterpret_cast<FrameHeader*>(base(at));
  }
  bool bytes() const noexcept { return bytes_; }
  bool DdrHasRoom(uint64_t frame_bytes) const noexcept {
    return ddr_used_ + frame_bytes <= ddr_capacity_;
  }
  uint64_t ddr_used() const noexcept { return ddr_used_; }
  uint64_t ddr_capacity() const noexcept { return ddr_capacity_; }
  uint64_t staging_used() const noexcept { return staging_used_; }
  const Arena& arena() const noexcept { return *arena_; }

  // Sizes share the range by pages. When Allocate found no page for a size although bytes are left:
  // the frames of the page that should go.
  void PageToTake(uint64_t frame_bytes, std::vector<FrameAt>& frames) const;

 private:
  uint64_t RangeBytes(uint64_t frame_bytes) const noexcept {
    return bytes_ ? frame_bytes : kPageBytes;
  }
  std::byte* base(FrameAt at) const noexcept { return arena_->data(uint64_t{at} * kPageBytes); }

  std::unique_ptr<Arena> arena_;
  bool bytes_ = true;
  uint64_t ddr_capacity_ = 0, ddr_used_ = 0;
  uint64_t staging_capacity_ = 0, staging_reserve_ = 0, staging_used_ = 0;
  struct Remnant {
    uint64_t bytes;
    uint32_t refs;
  };
  absl::flat_hash_map<FrameAt, Remnant> remnants_;
};

}  // namespace holdfast::internal
