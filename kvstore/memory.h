// Memory of the caller, made known to the store: regions, layouts by slot, extents.
//
// A region is a range that the store may read and write. A stripe repeats once per slot: slot i
// lies at offset + i * stride of its region. A layout is the stripes that make up one payload, in
// order: vLLM's row is one, SGLang's page is K and V, a TensorRT-LLM layer group its regions.
// Extents are the same without a pattern.
//
// Threading: immutable values. Memory: what a Memory names belongs to the operation it was given to
// until that completes, cancelled or not.
#pragma once

#include <cstdint>
#include <span>

#include "kvstore/types.h"

namespace holdfast {

using RegionId = uint32_t;  // 0: none
using LayoutId = uint32_t;  // 0: none

struct Stripe {
  RegionId region = 0;
  uint64_t offset = 0;  // bytes into the region
  uint64_t stride = 0;  // bytes between slots
  uint64_t bytes = 0;   // of one slot
};

struct Memory {
  enum class Kind : uint8_t {
    kArena,    // fetch only: views in the completion
    kSlots,    // a layout and one slot per block
    kExtents,  // pieces of any memory of this process
  };
  Kind kind = Kind::kArena;
  LayoutId layout = 0;
  std::span<const int64_t> slots;          // one per block; -1: skip that block
  std::span<const Extent> extents;         // of all blocks, one after the other
  std::span<const uint32_t> extent_begin;  // blocks + 1 offsets into extents
};

// Work of somebody else that must be over before memory is read or written. `done` answers 1, 0, or
// less than 0 for failed; the driver thread calls it, and it must not wait.
struct Fence {
  int (*done)(void*) = nullptr;
  void* context = nullptr;
};

}  // namespace holdfast
