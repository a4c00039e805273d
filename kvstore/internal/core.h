// Core: the store behind store.h. It joins the ledger (what is where, under one lock) with the
// movers (ops, loads, moves) and runs the driver. Its verbs live in one file each: look.cc,
// fetch.cc, put.cc, keep.cc, move.cc, reclaim.cc, driver.cc, open.cc, recover.cc, close.cc,
// core_stats.cc.
//
// Threading: thread-safe. Under mutex_ nothing does I/O, hashes, copies a payload or waits; one
// hold of it covers at most kBlocksPerLock blocks. What has to happen outside (submits, jobs,
// completions) is put into the outbox and done by ~Section.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "kvstore/internal/job_queue.h"
#include "kvstore/internal/leases.h"
#include "kvstore/internal/ledger.h"
#include "kvstore/internal/operation.h"
#include "kvstore/mutex.h"
#include "kvstore/store.h"
#include "kvstore/waiter.h"

namespace holdfast::internal {

inline constexpr size_t kBlocksPerLock = 256;
inline constexpr Duration kPausedSpillEvery = std::chrono::milliseconds(10);

// What a locked section wants done once the lock is free.
struct Outbox {
  std::vector<Transfer*> submits;
  std::vector<std::function<void()>> jobs;
  std::vector<std::pair<CompletionQueue*, Completion>> completions;
  std::vector<OperationPtr> finished;  // kept alive until the lock is free
  bool ring = false;
  bool wake_waiters = false;
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  static Result<std::shared_ptr<Core>> Open(StoreOptions options, Environment environment);
  Core(StoreOptions options, Environment environment);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // store.h's verbs
  Status Drain(Instant until) HF_EXCLUDES(mutex_);
  Status DrainRegion(RegionId region, Instant until) HF_EXCLUDES(mutex_);
  Status Close(Instant until) HF_EXCLUDES(mutex_);
  Result<SpaceId> OpenSpace(const SpaceSpec& spec) HF_EXCLUDES(mutex_);
  Result<KeySpace> Space(SpaceId space) HF_EXCLUDES(mutex_);
  Status NewEpoch(SpaceId space) HF_EXCLUDES(mutex_);
  Result<RegionId> AddRegion(std::span<std::byte> memory) HF_EXCLUDES(mutex_);
  Status RemoveRegion(RegionId region, Instant until) HF_EXCLUDES(mutex_);
  Result<LayoutId> AddLayout(std::span<const Stripe> stripes) HF_EXCLUDES(mutex_);
  void Find(const Blocks& blocks, std::span<Where> out) HF_EXCLUDES(mutex_);
  Match FindPrefix(const Blocks& blocks, size_t first, Duration lease) HF_EXCLUDES(mutex_);
  void Want(const Blocks& blocks, Hold hold, uint64_t request, std::span<bool> out)
      HF_EXCLUDES(mutex_);
  Result<OpId> SubmitFetch(const Blocks& blocks, const Memory& target, const FetchOptions& options,
                           CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  Result<OpId> SubmitPrefetch(const Blocks& blocks, Where to, const FetchOptions& options,
                              CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  Result<OpId> SubmitPut(const Blocks& blocks, const Memory& source, const PutOptions& options,
                         CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  Result<Lease> Reserve(uint64_t payload_bytes) HF_EXCLUDES(mutex_);
  Result<OpId> SubmitCommit(Lease frame, const Blocks& one, const PutOptions& options,
                            CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  void Cancel(OpId op) HF_EXCLUDES(mutex_);
  Status Wait(OpId op, Instant until) HF_EXCLUDES(mutex_);
  void Touch(const Blocks& blocks, uint64_t request) HF_EXCLUDES(mutex_);
  Status SetHold(const Blocks& blocks, Hold hold, std::span<bool> granted) HF_EXCLUDES(mutex_);
  Result<OpId> SubmitRelease(const Blocks& blocks, CompletionQueue* queue, uint64_t tag)
      HF_EXCLUDES(mutex_);
  Result<OpId> SubmitErase(const Blocks& blocks, CompletionQueue* queue, uint64_t tag)
      HF_EXCLUDES(mutex_);
  StoreStats Stats() HF_EXCLUDES(mutex_);
  bool Step() HF_EXCLUDES(mutex_);

  // For leases.
  void EndPins(PinLease* lease) HF_EXCLUDES(mutex_);
  void EndViews(const ViewLease& lease) HF_EXCLUDES(mutex_);
  void EndReserved(FrameAt at, uint64_t frame_bytes, HeldList::iterator held) HF_EXCLUDES(mutex_);
  const std::byte* PayloadAt(FrameAt at) const noexcept { return frames_.payload(at); }
  std::byte* MutablePayloadAt(FrameAt at) noexcept { return frames_.payload(at); }
  Instant RunNow() noexcept { return run_clock_->Now(); }
  // In a child, which has the memory and none of the threads. False before the opening began.
  bool Forked() const noexcept {
    return alive_ != nullptr && alive_->word.load(std::memory_order_relaxed) == 0;
  }

 private:
  friend class Section;

  struct SpaceRecord {
    SpaceSpec spec;
    BlockKey identity;
    KeySpace key;
    uint32_t root = 0;
    std::vector<RootKey> dead_roots;
  };
  struct RegionRecord {
    std::span<std::byte> memory;
    bool removed = false;
    uint64_t users = 0;  // operations
  };
  struct LayoutRecord {
    std::vector<Stripe> stripes;
    int64_t slots = 0;  // that fit
  };
  // A group of a tier on its way out.
  struct Reclaim {
    bool active = false;
    bool expired = false;  // its end is past: nobody asked for room
    GroupId group = 0;
    std::vector<LiveCopy> copies;
    size_t next = 0;  // of copies, not looked at yet
    struct Kept {
      EntryId id = kNoEntry;
      int to = -1;
    };
    std::deque<Kept> keep;  // to be written elsewhere first
    uint64_t rewritten_bytes = 0;
    uint64_t rewrite_bytes_max = 0;
    uint32_t moves = 0;  // running
  };
  struct PacedTier {  // what the store's own moves do to one device
    uint32_t moves = 0;
    uint64_t bytes = 0;
    Instant latest{};  // began
  };

  // ---- shared
  Status CheckAlive() const;  // closed, or a forked child
  HoldMillis HoldNow() noexcept;
  void Log(LogLevel level, const std::string& line) const;
  void Flush(Outbox& outbox);
  void Submit(Transfer* transfer);
  bool EpochCurrent(const Blocks& blocks) const HF_REQUIRES(mutex_);
  uint16_t FoldRequest(uint64_t request) HF_REQUIRES(mutex_);
  uint8_t ClassFor(Hold hold, Status& status) const HF_REQUIRES(mutex_);

  // ---- operations (operations.cc)
  Status CheckMemory(const Memory& memory, Operation& op) HF_REQUIRES(mutex_);
  Status CheckExtents(const Memory& memory, Operation& op) HF_REQUIRES(mutex_);
  Status Register(const OperationPtr& op) HF_EXCLUDES(mutex_);
  void Final(const OperationPtr& op, size_t i, Item item) HF_REQUIRES(mutex_);
  void CutFrom(const OperationPtr& op, size_t i, Item item) HF_REQUIRES(mutex_);
  void CutDone(const OperationPtr& op) HF_REQUIRES(mutex_);
  void CompleteIfOver(const OperationPtr& op) HF_REQUIRES(mutex_);
  void Complete(const OperationPtr& op) HF_REQUIRES(mutex_);
  void RunBehindFence(const OperationPtr& op) HF_EXCLUDES(mutex_);
  bool RunFenced() HF_EXCLUDES(mutex_);
  bool RunTimers(Instant now) HF_EXCLUDES(mutex_);

  // ---- look (look.cc)
  bool EndLeases(Instant now) HF_EXCLUDES(mutex_);
  void Unpin(PinLease& lease) HF_REQUIRES(mutex_);

  // ---- fetch (fetch.cc, load.cc)
  struct Hit {
    uint32_t block = 0;
    uint32_t payload_bytes = 0;
    FrameRef ref;
  };
  Result<OpId> StartFetch(const OperationPtr& op, const Memory& target);
  void RunFetch(const OperationPtr& op) HF_EXCLUDES(mutex_);
  bool AcceptSome(const OperationPtr& op) HF_REQUIRES(mutex_);
  bool BeginFetch(const OperationPtr& op, std::vector<Hit>& hits) HF_REQUIRES(mutex_);
  bool BeginLoad(const OperationPtr& op, size_t i, EntryId id) HF_REQUIRES(mutex_);
  bool Attach(const OperationPtr& op, size_t i, EntryId id) HF_REQUIRES(mutex_);
  bool DirectTarget(const Operation& op, size_t i, const Entry& e, Load& load) HF_REQUIRES(mutex_);
  void TakeHit(const OperationPtr& op, size_t i, const FrameRef& ref) HF_REQUIRES(mutex_);
  void CopyHits(const OperationPtr& op, const std::vector<Hit>& hits) HF_EXCLUDES(mutex_);
  bool VerifyHit(const Operation& op, const Hit& hit) const;
  void Continue(const OperationPtr& op) HF_REQUIRES(mutex_);
  void StartLoad(std::unique_ptr<Load> load) HF_REQUIRES(mutex_);
  void OnLoad(std::unique_ptr<Load> load) HF_REQUIRES(mutex_);
  bool RetryLoad(std::unique_ptr<Load>& load) HF_REQUIRES(mutex_);
  void LoadFailed(std::unique_ptr<Load> load) HF_REQUIRES(mutex_);
  void LoadDone(std::unique_ptr<Load> load) HF_REQUIRES(mutex_);
  void CopyAttached(const std::shared_ptr<Load>& load, const FrameRef& ref) HF_EXCLUDES(mutex_);
  void FinishLoad(Load& load, const FrameRef& ref) HF_REQUIRES(mutex_);
  void CountHit(int tier, uint64_t bytes) HF_REQUIRES(mutex_);

  // ---- put (put.cc, direct_put.cc)
  struct PutItem {
    uint32_t block = 0;
    EntryId id = kNoEntry;
    uint32_t generation = 0;
    FrameAt frame = kNoFrame;
    uint64_t payload_bytes = 0;
    Item item = Item::kPending;
  };
  enum class Begun : uint8_t { kYes, kNow, kWait };  // kNow: final already
  void RunPut(const OperationPtr& op) HF_EXCLUDES(mutex_);
  bool BeginPuts(const OperationPtr& op, std::vector<PutItem>& items) HF_REQUIRES(mutex_);
  Begun BeginPut(const OperationPtr& op, size_t i, std::vector<PutItem>& items) HF_REQUIRES(mutex_);
  Item PutPresent(const OperationPtr& op, size_t i, EntryId id) HF_REQUIRES(mutex_);
  EntryId AddEntry(const Operation& op, size_t i, uint64_t payload_bytes) HF_REQUIRES(mutex_);
  Item HoldAtPut(const Operation& op, size_t i, EntryId id) HF_REQUIRES(mutex_);
  static FrameIdentity IdentityOf(const Operation& op, size_t i);
  static void FillFrame(const Operation& op, size_t i, uint64_t payload_bytes, FrameFixed& fixed,
                        std::byte* payload);
  void Publish(const OperationPtr& op, const PutItem& item) HF_REQUIRES(mutex_);
  void Published(EntryId id, bool kept) HF_REQUIRES(mutex_);
  bool TouchSome(const OperationPtr& op, size_t touches) HF_REQUIRES(mutex_);
  void TouchPut(const OperationPtr& op) HF_REQUIRES(mutex_);
  void ParkPut(const OperationPtr& op) HF_REQUIRES(mutex_);
  bool RetryPuts(Instant now) HF_EXCLUDES(mutex_);
  Begun BeginDirectPut(const OperationPtr& op, size_t i, uint64_t payload_bytes)
      HF_REQUIRES(mutex_);
  void WriteDirectPut(DirectPut* put);
  void OnDirectPut(std::unique_ptr<DirectPut> put) HF_REQUIRES(mutex_);

  // ---- room and moves (room.cc, move.cc, reclaim.cc)
  // A ddr frame, evicting what may go; kNoFrame: not now.
  FrameAt MakeDdrFrame(uint64_t frame_bytes) HF_REQUIRES(mutex_);
  bool MakeRoom(int tier, uint64_t frame_bytes) HF_REQUIRES(mutex_);
  void TakePage(uint64_t frame_bytes) HF_REQUIRES(mutex_);
  void MoveSoon(EntryId id) HF_REQUIRES(mutex_);  // somebody waits for its room
  bool MakeIndexRoom() HF_REQUIRES(mutex_);
  std::optional<Place> AllocateIn(int tier, const Shape& shape) HF_REQUIRES(mutex_);
  bool MayMove(int tier, uint64_t bytes) HF_REQUIRES(mutex_);
  bool RoomIsComing(int tier, const Entry& e, bool rewrite) HF_REQUIRES(mutex_);
  bool StartMove(EntryId id, int from, int to, Move::Reason reason, bool reclaim)
      HF_REQUIRES(mutex_);
  bool StartMoves() HF_EXCLUDES(mutex_);
  bool StartQueued(std::deque<EntryId>& queue, Move::Reason reason) HF_REQUIRES(mutex_);
  void OnMove(std::unique_ptr<Move> move) HF_REQUIRES(mutex_);
  void MoveRead(std::unique_ptr<Move> move) HF_REQUIRES(mutex_);
  void EndMove(Move& move) HF_REQUIRES(mutex_);
  void SubmitMove(std::unique_ptr<Move> move, bool write) HF_REQUIRES(mutex_);
  void FillPlacement(EntryId id, FrameHeader& header) HF_REQUIRES(mutex_);
  bool RunReclaims(HoldMillis now) HF_EXCLUDES(mutex_);
  bool BeginReclaim(int tier, HoldMillis now) HF_REQUIRES(mutex_);
  bool SortCopies(int tier, HoldMillis now) HF_REQUIRES(mutex_);
  int KeepIn(int tier, EntryId id, const Reclaim& r, HoldMillis now) HF_REQUIRES(mutex_);
  bool MoveKept(int tier, HoldMillis now) HF_REQUIRES(mutex_);

  // ---- driver (driver.cc)
  void DriverMain() HF_EXCLUDES(mutex_);
  Instant NextWake() HF_EXCLUDES(mutex_);
  bool PollTiers() HF_EXCLUDES(mutex_);
  bool RunExpiry(HoldMillis now) HF_EXCLUDES(mutex_);
  bool SweepDeadRoots() HF_EXCLUDES(mutex_);
  bool SyncMeta(HoldMillis now) HF_EXCLUDES(mutex_);
  bool MetaDone() HF_EXCLUDES(mutex_);
  bool StepTiers(Instant now, HoldMillis hold_now) HF_EXCLUDES(mutex_);
  void RunInline() HF_EXCLUDES(mutex_);  // without a driver thread: until nothing is left to do
  void Idle(Instant until) HF_EXCLUDES(mutex_);
  Status WaitFor(const std::function<bool()>& over, Instant until, std::string_view what)
      HF_EXCLUDES(mutex_);
  void SubmitMeta(MetaBatch batch, const OperationPtr& op) HF_EXCLUDES(mutex_);
  Result<OperationPtr> StartMeta(const Blocks& blocks, CompletionQueue* queue, uint64_t tag)
      HF_EXCLUDES(mutex_);
  OpId FinishMeta(MetaBatch batch, const OperationPtr& op) HF_EXCLUDES(mutex_);

  std::vector<EntryId> DirtyHeld(bool persist) HF_EXCLUDES(mutex_);  // close.cc

  // ---- open (open.cc, recover.cc)
  Status OpenDirectory();
  Status OpenTiers();
  Status Recover();
  std::optional<EntryId> OnRecovered(int tier, const RecoveredCopy& copy) HF_REQUIRES(mutex_);
  Status ApplyRecovered() HF_EXCLUDES(mutex_);
  Status StartThreads();
  Status OpenAll();

  FrameHeader* TakeHeader() HF_REQUIRES(mutex_);
  void GiveHeader(FrameHeader* header) HF_REQUIRES(mutex_);

  StoreOptions options_;
  Environment environment_;
  Clock* run_clock_;
  Clock* hold_clock_;
  StartThread start_thread_;
  std::unique_ptr<Device> own_device_;
  std::unique_ptr<Waiter> waiter_;
  int lock_fd_ = -1;
  std::array<std::byte, 32> secret_{};
  BlockKey store_id_;
  HoldMillis hold_base_ms_ = 0;
  Instant hold_base_{};
  struct AliveWord {
    std::atomic<uint32_t> word;
  };
  AliveWord* alive_ = nullptr;  // a page that a forked child finds wiped

  HostFrames frames_;
  std::array<std::unique_ptr<Tier>, kTiers> tiers_;
  std::unique_ptr<MetaStore> meta_;
  bool persistent_ = false;
  JobQueue jobs_;
  ThreadGroup driver_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> tier_woke_{false};  // it may have prepared room
  std::atomic<uint64_t> next_op_{1};

  Mutex mutex_;
  CondVar changed_;  // an operation completed
  Outbox outbox_ HF_GUARDED_BY(mutex_);
  Ledger ledger_ HF_GUARDED_BY(mutex_);
  std::vector<SpaceRecord> spaces_ HF_GUARDED_BY(mutex_);
  absl::flat_hash_map<BlockKey, SpaceId, BlockKeyHash> space_ids_ HF_GUARDED_BY(mutex_);
  absl::flat_hash_map<BlockKey, SpaceEpoch, BlockKeyHash> stored_epochs_ HF_GUARDED_BY(mutex_);
  std::vector<RegionRecord> regions_ HF_GUARDED_BY(mutex_);
  std::vector<LayoutRecord> layouts_ HF_GUARDED_BY(mutex_);
  absl::flat_hash_map<OpId, OperationPtr> operations_ HF_GUARDED_BY(mutex_);
  std::vector<OperationPtr> fenced_ HF_GUARDED_BY(mutex_);
  std::deque<OperationPtr> parked_ HF_GUARDED_BY(mutex_);    // puts without room
  std::vector<OperationPtr> starved_ HF_GUARDED_BY(mutex_);  // fetches without a frame
  absl::flat_hash_map<EntryId, Load*> loads_ HF_GUARDED_BY(mutex_);
  absl::flat_hash_map<EntryId, std::vector<Load::Attached>> putters_ HF_GUARDED_BY(mutex_);
  uint64_t transfers_ HF_GUARDED_BY(mutex_) = 0;
  std::vector<FrameHeader*> headers_ HF_GUARDED_BY(mutex_);
  std::deque<EntryId> at_put_ HF_GUARDED_BY(mutex_);  // to be written through
  std::deque<EntryId> urgent_ HF_GUARDED_BY(mutex_);  // must move before a put can go on
  std::deque<EntryId> draining_ HF_GUARDED_BY(mutex_);
  std::deque<EntryId> to_hbm_ HF_GUARDED_BY(mutex_);
  std::array<Reclaim, kTiers> reclaims_ HF_GUARDED_BY(mutex_);
  std::array<PacedTier, kTiers> paced_ HF_GUARDED_BY(mutex_);
  uint32_t fetching_ HF_GUARDED_BY(mutex_) = 0;  // loads running
  Instant last_load_ HF_GUARDED_BY(mutex_){};
  std::list<PinLease*> leases_ HF_GUARDED_BY(mutex_);  // by end
  uint32_t views_ HF_GUARDED_BY(mutex_) = 0;
  HeldList held_ HF_GUARDED_BY(mutex_);
  uint64_t next_write_id_ HF_GUARDED_BY(mutex_) = 1;
  uint16_t next_request_ HF_GUARDED_BY(mutex_) = 1;
  EntryId sweep_ HF_GUARDED_BY(mutex_) = kNoEntry;  // next id of the sweep for dead roots
  bool step_wanted_ HF_GUARDED_BY(mutex_) = false;
  bool room_changed_ HF_GUARDED_BY(mutex_) = false;
  HoldMillis hold_persisted_ HF_GUARDED_BY(mutex_) = 0;
  StoreStats counters_ HF_GUARDED_BY(mutex_);  // those that the ledger does not keep
  uint64_t meta_waiting_ HF_GUARDED_BY(mutex_) = 0;
  std::array<uint8_t, kTiers> tier_failing_ HF_GUARDED_BY(mutex_){};
  std::array<uint64_t, kTiers> tier_faults_ HF_GUARDED_BY(mutex_){};
  std::array<Instant, kTiers> tier_failing_until_ HF_GUARDED_BY(mutex_){};
  uint32_t sections_ HF_GUARDED_BY(mutex_) = 0;

  Mutex meta_mutex_;
  std::vector<std::pair<OperationPtr, Status>> meta_done_ HF_GUARDED_BY(meta_mutex_);

  // Recovery only.
  struct RecoveredLink {
    EntryId id = kNoEntry;
    BlockKey parent;
  };
  std::vector<RecoveredLink> recovered_links_;
  struct RecoveredHold {
    EntryId id = kNoEntry;
    uint64_t write_id = 0;
    HoldMillis deadline = kNoDeadline;
    uint64_t ttl_ms = 0;
    bool granted = false;
  };
  std::vector<RecoveredHold> recovered_holds_;
  absl::flat_hash_map<BlockKey, Tombstone, BlockKeyHash> tombstones_;
  absl::flat_hash_map<BlockKey, DeadlineRecord, BlockKeyHash> deadline_records_;
  HoldMillis recover_now_ = 0;
};

// The lock, and behind it the outbox.
class HF_SCOPED_CAPABILITY Section {
 public:
  explicit Section(Core& core) HF_ACQUIRE(core.mutex_);
  ~Section() HF_RELEASE();
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  Core& core_;
  int64_t cpu_started_ns_ = 0;  // of a sampled hold
};

}  // namespace holdfast::internal
