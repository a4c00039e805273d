// Entry: what the store knows of one resident (or arriving) block. 64 bytes; everything else about
// it lies in arrays by the same id, so that a look-up touches one cache line.
#pragma once

#include <cstdint>

#include "kvstore/clock.h"
#include "kvstore/tier.h"
#include "kvstore/types.h"

namespace holdfast::internal {

inline constexpr EntryId kNoEntry = UINT32_MAX;

enum TierIndex : uint8_t { kHbm = 0, kDdr = 1, kFlash = 2, kDisk = 3 };
inline constexpr int kTiers = 4;
inline constexpr uint8_t kClassesMax = 4;

constexpr Where ToWhere(int tier) noexcept { return static_cast<Where>(tier + 2); }

enum class CopyState : uint8_t { kAbsent, kArriving, kLive, kLeaving };

struct Entry {
  BlockKey key;
  EntryId parent = kNoEntry;
  uint32_t root = 0;  // index into the table of roots
  uint32_t position : 24 = 0;
  uint32_t parent_generation : 8 = 0;  // of the parent when linked: tells a reused id
  uint32_t payload_bytes = 0;
  HoldMillis deadline = kNoDeadline;
  uint32_t last_touch = 0;
  uint32_t generation = 0;  // of this id; outlives the entry
  uint32_t children = 0;    // resident entries whose parent this is
  uint32_t leases = 0;
  uint8_t copies = 0;             // two bits a tier: CopyState
  uint8_t hold_class : 3 = 0;     // 0: none; the expiry list it is on
  uint8_t charged_class : 3 = 0;  // whose budget it is charged to; 0: not granted
  uint8_t lease_tier : 2 = 0;     // whose leased bytes count it
  uint16_t frame_refs = 0;        // operations and views on its ddr frame
  uint16_t last_request = 0;      // folded id of the request that touched it last
  uint8_t moving : 1 = 0;         // a move of it is queued or running
  uint8_t refused : 1 = 0;  // admission said no when it was about to leave; cleared by a touch
  uint8_t used_on_flash : 1 = 0;  // touched since its flash copy was written
  uint8_t putting : 1 = 0;        // its first copy is arriving
  uint8_t released : 1 = 0;       // keeps its deadline, has no class any more
  uint8_t in_use : 1 = 0;         // this id belongs to a block
  uint8_t urgent : 1 = 0;         // queued to move because somebody waits for its room
  uint8_t touches = 0;            // requests that used it, saturating

  CopyState copy(int tier) const noexcept {
    return static_cast<CopyState>((copies >> (2 * tier)) & 3);
  }
  void set_copy(int tier, CopyState state) noexcept {
    copies = static_cast<uint8_t>((copies & ~(3 << (2 * tier))) |
                                  (static_cast<int>(state) << (2 * tier)));
  }
  bool live(int tier) const noexcept { return copy(tier) == CopyState::kLive; }
  bool readable(int tier) const noexcept { return copy(tier) >= CopyState::kLive; }
  // Nearest tier with a readable copy, or -1.
  int nearest() const noexcept {
    for (int t = 0; t < kTiers; ++t) {
      if (readable(t)) return t;
    }
    return -1;
  }
  // Lowest tier with a live copy, or -1.
  int lowest() const noexcept {
    for (int t = kTiers - 1; t >= 0; --t) {
      if (live(t)) return t;
    }
    return -1;
  }
  bool live_below(int tier) const noexcept {
    for (int t = tier + 1; t < kTiers; ++t) {
      if (live(t)) return true;
    }
    return false;
  }
  uint64_t frame_bytes() const noexcept { return FrameBytes(payload_bytes); }
  // Of a copy in a tier: device memory holds no headers.
  uint64_t bytes_in(int tier) const noexcept {
    return tier == kHbm ? frame_bytes() - kPageBytes : frame_bytes();
  }
};
static_assert(sizeof(Entry) == 64);

}  // namespace holdfast::internal
