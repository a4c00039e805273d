// FrameSpace: where frames lie in one range of memory, without touching it. Used for the arena
// (host) and for hbm (device).
//
// The range is cut into pages of `page_bytes` (64 MiB by default). A page holds frames of one size;
// sizes share the range, and a page changes its size after its frames were freed. A frame larger
// than half a page takes a run of adjacent pages.
//
// Threading: thread-compatible; the store's lock protects it. Memory: bookkeeping is bounded by
// range / 4 KiB and grows only with the frame sizes in use.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvstore/types.h"

namespace holdfast {

struct FrameSpaceOptions {
  uint64_t range_bytes = 0;           // multiple of page_bytes
  uint64_t page_bytes = 64ull << 20;  // power of two, at least 64 KiB
};

class FrameSpace {
 public:
  explicit FrameSpace(const FrameSpaceOptions& options);
  ~FrameSpace();
  FrameSpace(const FrameSpace&) = delete;
  FrameSpace& operator=(const FrameSpace&) = delete;

  // Offset of a frame of exactly `bytes` (multiple of 4096), or nullopt: free something first.
  std::optional<uint64_t> Allocate(uint64_t bytes);
  void Free(uint64_t offset);

  uint64_t used_bytes() const noexcept;  // sum of allocated frames
  uint64_t frames() const noexcept;      // allocated
  // Frames of this size that could be allocated now without freeing anything.
  uint64_t Available(uint64_t bytes) const noexcept;
  // Frames of this size that an empty range would hold.
  uint64_t CapacityFrames(uint64_t bytes) const noexcept;
  // When a size has no free frame: the page whose eviction would give one, by fewest frames in use
  // among pages of other sizes above their floor of two pages; nullopt when none. Its frames
  // follow.
  std::optional<uint64_t> PageToTake(uint64_t bytes) const;
  void FramesOfPage(uint64_t page_offset, std::vector<uint64_t>& offsets) const;

 private:
  struct State;
  State* state_;
};

}  // namespace holdfast
