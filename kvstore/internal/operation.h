// What is under way: operations of callers, loads (reads that bring copies up, shared by those who
// wait for them) and moves (copies written elsewhere by the store's own decision).
#pragma once

#include <memory>
#include <vector>

#include "kvstore/blocks.h"
#include "kvstore/completion_queue.h"
#include "kvstore/internal/ledger.h"
#include "kvstore/memory.h"
#include "kvstore/store.h"
#include "kvstore/tier.h"

namespace holdfast::internal {

class ViewLease;

// One verb of a caller, until its completion. Fields are guarded by the store's lock, but for those
// fixed at submit.
struct Operation {
  enum class Kind : uint8_t { kFetch, kPut, kPrefetch, kMeta };
  // Where an item is. While kCopying or kOnDevice somebody reads or writes the caller's memory: it
  // can become final only when that ends.
  enum class At : uint8_t { kNotBegun, kWaiting, kCopying, kOnDevice, kFinal };

  Kind kind = Kind::kFetch;
  OpId id = 0;
  Blocks blocks;
  CompletionQueue* queue = nullptr;
  uint64_t tag = 0;
  std::span<Item> results;
  Instant started{};
  uint16_t request = 0;

  // The caller's memory, spans copied.
  Memory::Kind memory = Memory::Kind::kArena;
  std::vector<int64_t> slots;
  std::vector<Extent> extents;
  std::vector<uint32_t> extent_begin;
  std::vector<Stripe> stripes;    // of the layout, with region 0 and `offset` an address
  std::vector<RegionId> regions;  // that it may touch

  FetchOptions fetch;
  Where to = Where::kDdr;  // of a prefetch
  PutOptions put;
  std::vector<uint8_t> hold_classes;  // of a put: one for all or one per block
  Instant give_up = Instant::max();   // of a put that waits for room
  FrameAt reserved = kNoFrame;        // of a commit: the frame that already holds the payload
  uint64_t reserved_bytes = 0;

  std::vector<At> at;
  std::vector<EntryId> touched;  // accepted blocks, to be touched deepest first
  size_t accepting = 0;          // blocks before it were looked up
  size_t touch_left = 0;         // of touched, from the front
  EntryId touch_at = kNoEntry;   // touched last; its ancestors follow
  uint32_t touch_generation = 0;
  size_t cursor = 0;  // blocks before it were begun
  size_t finals = 0;
  size_t good = 0;        // done or kept
  size_t cut = SIZE_MAX;  // blocks from here on end as `cut_item`
  Item cut_item = Item::kMiss;
  uint32_t window = 0;          // frames it streams through now
  EntryId last_put = kNoEntry;  // parent of the next block of a linked put
  uint32_t last_put_generation = 0;
  bool accepted = false;
  bool running = false;  // somebody runs it outside the lock
  bool parked = false;   // waits for room
  bool completed = false;
  std::unique_ptr<ViewLease> views;

  size_t size() const noexcept { return blocks.size(); }
  bool skips(size_t i) const noexcept {
    return memory == Memory::Kind::kSlots && !slots.empty() && slots[i] < 0;
  }
  // Pieces of the caller's memory for block i, in order.
  void ExtentsOf(size_t i, std::vector<Extent>& out) const;
  uint64_t MemoryBytes(size_t i) const noexcept;
  uint8_t hold_class(size_t i) const noexcept {
    return hold_classes[hold_classes.size() == 1 ? 0 : i];
  }
};
using OperationPtr = std::shared_ptr<Operation>;

// One frame operation of a tier and what it is for.
struct Transfer {
  enum class Kind : uint8_t { kLoad, kMove, kDirectPut };
  explicit Transfer(Kind k) noexcept : kind(k) {}
  virtual ~Transfer() = default;

  const Kind kind;
  FrameOp io;
  std::vector<Extent> extents;  // that io.payload names
  int tier = -1;                // where io runs
  uint32_t stamp = 0;           // last touch that the target's group was told at allocation
  EntryId id = kNoEntry;
  uint32_t generation = 0;
};

struct Load final : Transfer {
  Load() noexcept : Transfer(Kind::kLoad) {}
  struct Attached {
    OperationPtr op;
    uint32_t block = 0;
  };
  std::vector<Attached> attached;
  FrameAt frame = kNoFrame;  // kNoFrame: straight into the memory of attached[0]
  HostFrames::Use use = HostFrames::Use::kStaging;
  uint64_t frame_bytes = 0;
  uint64_t offset = 0, bytes = 0;  // of the payload; 0 bytes: all
  bool arriving = false;           // becomes the ddr copy
  bool retried = false;
  Item failed = Item::kMiss;  // what the first try ended as
};

struct Move final : Transfer {
  Move() noexcept : Transfer(Kind::kMove) {}
  enum class Reason : uint8_t { kSpill, kAtPut, kRewrite, kPromote };
  Reason reason = Reason::kSpill;
  int from = -1, to = -1;
  FrameRef source;           // of a ddr copy
  FrameAt frame = kNoFrame;  // staging, when the source had to be read
  HostFrames::Use use = HostFrames::Use::kStaging;
  uint64_t bytes = 0;  // counted as in flight
  Place target;
  bool writing = false;
  bool reclaim = false;  // the source's group waits for it
};

// A put that goes straight into a tier, because there is no ddr.
struct DirectPut final : Transfer {
  DirectPut() noexcept : Transfer(Kind::kDirectPut) {}
  OperationPtr op;
  uint32_t block = 0;
  uint64_t payload_bytes = 0;
  FrameAt frame = kNoFrame;  // staging when it bounces
  Place target;
  Item item = Item::kDone;  // kDone or kDowngraded
};

}  // namespace holdfast::internal
