// FrameSpace: where frames lie in one range of memory, without touching it. Used for the arena
// (host) and for hbm (device).
//
// The range is cut into pages of `page_bytes` (64 MiB by default). A page holds frames of one size;
// sizes share the range, and a page changes its size after its frames were freed. A frame larger
// than half a page takes a run of adjacent pages.
//
// Usage:
//   std::optional<uint64_t> offset = space.Allocate(bytes);
//   if (!offset) { free a frame of `bytes`, or, where there are none, all of a page:
//     if (auto page = space.PageToTake(bytes)) space.FramesOfPage(*page, offsets);  ... }
//
// Floor: a size with frames in use keeps its last two pages, also empty ones, until its last frame
// is freed; PageToTake never names one of them.
//
// Threading: thread-compatible; the store's lock protects it. Memory: 48 bytes a page, and 4 bytes
// for each frame that a page holds, allocated at the first use of the page for a frame size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

  // Offset of a frame of exactly `bytes` (multiple of 4096, at most FrameBytes(kPayloadBytesMax)),
  // or nullopt: free something first. O(1); where a free page is taken, a scan of one bit a page.
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
  // follow. For a frame that takes a run of pages: one page of the cheapest run, to be asked for
  // again until Allocate succeeds. Pages in `except` (of those named before: their frames cannot go
  // now) are left alone. Scans the pages.
  std::optional<uint64_t> PageToTake(uint64_t bytes, std::span<const uint64_t> except = {}) const;
  // Appends the frames in use of the page, or of the run that it belongs to.
  void FramesOfPage(uint64_t page_offset, std::vector<uint64_t>& offsets) const;
  // Nothing is allocated in a closed page, so that one that is being emptied gets empty while its
  // size goes on elsewhere. It is open again once it is empty. For pages of PageToTake.
  void ClosePage(uint64_t page_offset);
  void ReopenPage(
      uint64_t page_offset);  // its frames cannot go after all; no effect on an open one

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast
