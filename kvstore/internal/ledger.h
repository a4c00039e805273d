// Ledger: the logical layer. Which blocks exist, where their copies are, who pins them, until when
// they live, and which goes next. It moves no byte and waits for nothing.
//
// Threading: thread-compatible; every call happens under the store's lock.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "eviction/policy.h"
#include "kvstore/blocks.h"
#include "kvstore/internal/admission.h"
#include "kvstore/internal/entry.h"
#include "kvstore/internal/holds.h"
#include "kvstore/internal/host_frames.h"
#include "kvstore/internal/index.h"
#include "kvstore/meta_store.h"
#include "kvstore/options.h"
#include "kvstore/stats.h"
#include "kvstore/tier.h"

namespace holdfast::internal {

enum class Why : uint8_t { kRoom, kExpired, kErased, kCorrupt, kMoved };

// A reference on the frame of a ddr copy.
struct FrameRef {
  FrameAt at = kNoFrame;
  EntryId id = kNoEntry;
  uint32_t generation = 0;
};

struct BlockKeyHash {
  size_t operator()(const BlockKey& k) const noexcept { return k.lo; }
};

class Ledger {
 public:
  Status Init(const StoreOptions& options, std::array<Tier*, kTiers> tiers, HostFrames* frames,
              Instant run_now);

  Index index;
  Holds holds;
  Admission admission;
  std::array<TierStats, kTiers> stats;  // the counters; gauges are filled in by Stats
  uint64_t evictions_refused = 0;
  uint64_t spills_refused = 0;

  // ---- tiers
  bool on(int tier) const noexcept { return tier == kDdr ? ddr_on_ : tiers_[tier] != nullptr; }
  Tier* tier(int t) const noexcept { return tiers_[t]; }
  GroupedTier* grouped(int t) const noexcept { return static_cast<GroupedTier*>(tiers_[t]); }
  HostFrames& frames() noexcept { return *frames_; }
  // Where a block that leaves `from` would go by its hold, and how eagerly. -1: nowhere.
  struct Down {
    int tier = -1;
    PlacementRow row = PlacementRow::kNever;
  };
  Down DownFrom(const Entry& e, int from) const noexcept;
  // The same with admission asked: must it be moved before its copy here may go?
  bool MustMove(EntryId id, int from, Instant run_now) noexcept;

  // ---- key spaces: roots by number
  uint32_t RootNumber(const RootKey& root);  // adds it
  bool RootKnown(const RootKey& root, uint32_t& number) const noexcept;
  const RootKey& root(uint32_t number) const noexcept { return roots_[number].key; }
  void KillRoot(uint32_t number) noexcept { roots_[number].dead = true; }
  bool RootDead(uint32_t number) const noexcept { return roots_[number].dead; }

  // ---- look
  bool Served(const Entry& e, HoldMillis now) const noexcept {
    return (e.copies & 0xaa) != 0 && now < e.deadline && !roots_[e.root].dead;
  }
  // fn(i, id or kNoEntry) for blocks [first, end), look-ups prefetched ahead; fn answers false to
  // stop.
  template <typename Fn>
  void ForEach(const Blocks& blocks, size_t first, size_t end, Fn&& fn) const {
    constexpr size_t kSlotsAhead = 16, kEntriesAhead = 8;
    for (size_t i = first; i < end && i < first + kSlotsAhead; ++i) {
      index.PrefetchSlot(blocks.key(i));
    }
    for (size_t i = first; i < end && i < first + kEntriesAhead; ++i) {
      index.PrefetchEntry(blocks.key(i));
    }
    for (size_t i = first; i < end; ++i) {
      if (i + kSlotsAhead < end) index.PrefetchSlot(blocks.key(i + kSlotsAhead));
      if (i + kEntriesAhead < end) index.PrefetchEntry(blocks.key(i + kEntriesAhead));
      if (!fn(i, index.Find(blocks.key(i)))) return;
    }
  }

  // ---- entries
  // A new entry without copies. kNoEntry: the index is full.
  EntryId Add(const BlockKey& key, uint32_t root, uint32_t position, uint32_t payload_bytes);
  void LinkParent(EntryId child, EntryId parent) noexcept;
  EntryId Parent(const Entry& e) const noexcept;  // kNoEntry: none resident
  void Remove(EntryId id, Why why);               // with all its copies
  void Touch(EntryId id, uint16_t request, HoldMillis now);
  // Does what was done to a block to its ancestors: touch, and a hold when `hold_class` is not 0.
  void TouchAncestors(EntryId id, uint8_t hold_class, uint16_t request, HoldMillis now);
  bool ApplyHold(EntryId id, uint8_t hold_class, HoldMillis now);
  void Release(EntryId id);
  void PrefetchTouch(EntryId id) const noexcept;

  // ---- copies
  uint32_t write_id_low(EntryId id) const noexcept { return write_ids_[id]; }
  void set_write_id(EntryId id, uint64_t w) noexcept { write_ids_[id] = static_cast<uint32_t>(w); }
  Place place(EntryId id, int tier) const noexcept;
  FrameAt frame(EntryId id) const noexcept { return ddr_at_[id]; }
  Shape ShapeOf(EntryId id) const noexcept;
  FrameExpect ExpectOf(EntryId id) const noexcept;
  // `place` of ddr: PlaceOf(frame). The frame or place now belongs to the entry.
  void SetLive(EntryId id, int tier, Place place);
  static Place PlaceOf(FrameAt at) noexcept { return {0, at}; }
  // A copy that is rewritten within its tier.
  void Relocate(EntryId id, int tier, Place place);
  void SetLeaving(EntryId id, int tier);  // copies above turn dirty
  // Ends one copy; the last one takes the entry with it, unless a copy is arriving.
  void DropCopy(EntryId id, int tier, Why why);
  // An arriving copy that will not come; whoever was bringing it still owns its place. The entry
  // goes, for this reason, when that was all it had.
  void Abandon(EntryId id, int tier, Why why);

  FrameRef Ref(EntryId id) noexcept;  // requires a readable ddr copy
  void Unref(const FrameRef& ref);

  void Pin(EntryId id) noexcept;
  void Unpin(EntryId id) noexcept;
  uint64_t leased_bytes(int tier) const noexcept { return leased_bytes_[tier]; }
  // Whether another pinned block fits under the share of its lowest tier.
  bool MayPin(EntryId id) const noexcept;

  // ---- victims of hbm and ddr
  struct Victim {
    EntryId id = kNoEntry;
    bool must_move = false;
  };
  Victim FindVictim(int tier, HoldMillis now, Instant run_now);
  // The coldest dirty block that must move before it may go and does not move yet, where fewer than
  // `enough` frames could go at once; else kNoEntry.
  EntryId FindSpill(uint64_t enough, HoldMillis now, Instant run_now);
  // Owner of a ddr frame; for taking a page.
  EntryId OwnerOf(FrameAt at);

  // Deadlines that moved so far that they should be persisted. Taken by the driver.
  std::vector<EntryId> moved_deadlines;
  std::vector<BlockKey> forgotten;  // whose records may go

  uint64_t memory_bytes() const noexcept;

 private:
  enum List : uint8_t { kClean = 0, kLoose = 1, kGranted = 2, kLists = 2 + kClassesMax };
  struct Root {
    RootKey key;
    bool dead = false;
  };

  void FreeCopy(EntryId id, int tier, Why why);
  bool MayDrop(const Entry& e, int tier) const noexcept;
  Victim FirstOf(int tier, uint8_t list, Instant run_now);
  void Relist(EntryId id);
  uint8_t ListFor(const Entry& e, int tier) const noexcept;
  void NoteDeadline(EntryId id, HoldMillis before);
  eviction::Policy* policy(int tier) const noexcept { return policies_[tier].get(); }

  std::array<Tier*, kTiers> tiers_{};
  HostFrames* frames_ = nullptr;
  bool ddr_on_ = false;
  std::array<std::unique_ptr<eviction::Policy>, 2> policies_;  // hbm, ddr
  std::vector<PlacementRow> flash_rows_, disk_rows_;           // by class, 0: none
  double lease_share_max_ = 0.5;
  std::array<uint64_t, kTiers> leased_bytes_{};

  HugeArray<FrameAt> ddr_at_;
  HugeArray<uint32_t> hbm_at_;
  HugeArray<Place> flash_at_, disk_at_;
  HugeArray<uint32_t> write_ids_;
  uint32_t stamp_ = 0;

  std::vector<Root> roots_;
  absl::flat_hash_map<BlockKey, uint32_t, BlockKeyHash> root_numbers_;
  absl::flat_hash_map<FrameAt, EntryId> owners_;  // kept once two sizes share the arena
  bool keep_owners_ = false;
  bool persistent_ = false;  // there is a medium whose copies carry deadlines
};

}  // namespace holdfast::internal
