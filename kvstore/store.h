// Store: a tiered KV-cache store that lives inside an inference server.
//
// It keeps KV blocks under prefix hashes in hbm, ddr, flash and disk, holds them for as long as was
// asked, and gives them back with every byte verified. It does not compute KV and knows no model.
//
//   auto store = *Store::Open({.directory = "/var/lib/holdfast", .ddr_bytes = 8ull << 30});
//   SpaceId space = *store->OpenSpace({.model = "llama-3.1-8b", .block_tokens = 64});
//   Blocks blocks = *Blocks::FromTokens(*store, space, prompt);
//   Match match = store->FindPrefix(blocks, 0, 30s);
//   store->Fetch(blocks.Slice(0, match.count), pages, {}, results);
//   store->Put(blocks.Slice(match.count, blocks.size()), rest, {.hold = {5min}}, results);
//
// Threading: thread-safe. Only Open, NewEpoch, RemoveRegion, Wait, Fetch, Put, Drain and Close wait
// for a device. No verb works in a child after fork(): each fails with kFailedPrecondition, or
// answers nothing found. Memory: `results` (one Item per block) and what a Memory names belong to
// the operation from its submit to its completion. Blocks and options are copied. Errors: a Status
// is for the caller's mistakes and for a closed store. What happens to a block is an Item. A fetch
// that fails is a miss: recompute.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kvstore/blocks.h"
#include "kvstore/completion_queue.h"
#include "kvstore/environment.h"
#include "kvstore/lease.h"
#include "kvstore/memory.h"
#include "kvstore/options.h"
#include "kvstore/stats.h"

namespace holdfast {

enum class Item : uint8_t {  // one per block of a batch, never one for the batch
  kPending,
  kDone,        // fetch: payload verified in the target; put: kept under the hold asked for
  kPresent,     // put: was here already, under the hold asked for
  kDowngraded,  // put: kept or here, but its hold has no budget
  kSkipped,     // slot -1: not asked for; does not end a prefix
  kDeclined,    // put: admission, busy longer than wait_max, or an earlier block was. Not an error
  kMiss,        // fetch: target undefined; recompute
  kLate,        // fetch: deadline
  kCancelled,
  kCorrupt,  // as kMiss, counted by tier; the key is absent from now on
  kFailed,   // as kMiss, counted by tier and errno
};
std::string_view ToString(Item item) noexcept;

struct Hold {
  Duration
      ttl{};  // zero: none. Rounded up to a class of the store; longer than all: invalid argument
};

struct FetchOptions {
  Instant deadline =
      Instant::max();          // ends waiting: kLate. What a device has begun ends with the device
  uint64_t request = 0;        // touches of one request count once; 0: each call is a request
  bool prefix = true;          // the first block that fails makes all later ones kMiss
  bool keep = false;           // leave a copy in ddr; off when the target is the caller's own cache
  bool each = false;           // one completion per block instead of one per batch
  uint64_t payload_bytes = 0;  // expected length of each payload; required for arena targets
  uint64_t offset = 0, bytes = 0;  // a part of each payload, in whole granules; 0 bytes: all
  Fence fence;                     // before the target is written
};

struct PutOptions {
  Hold hold;
  std::span<const Hold> holds;  // instead: one per block
  uint64_t payload_bytes = 0;   // of each block; 0: what its memory gives
  uint64_t request = 0;
  Duration wait_max = std::chrono::seconds(2);
  Fence fence;  // before the source is read; it stays unchanged until completion
};

struct Match {  // blocks [first, first + count)
  size_t first = 0;
  size_t count = 0;
  Lease lease;
};

namespace internal {
class Core;
}

class Store {
 public:
  // Owns the directory. Warm: what was durable is there.
  //   kInvalidArgument     an option, named
  //   kFailedPrecondition  the directory is in use, or of a newer format
  //   kDataLoss            a superblock that cannot be read
  //   kResourceExhausted   memory, threads or open files that the system refuses
  //   kIoError             the system; its errno is kept
  static Result<std::unique_ptr<Store>> Open(StoreOptions options, Environment environment = {});
  ~Store();  // Close, with its bound
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Writes what is dirty under granted holds, longest deadline first, then flushes.
  // kDeadlineExceeded and, without room for them below, kResourceExhausted say how many were left.
  Status Drain(Instant until);
  // Returns when nothing queued or running touches the memory of this region.
  Status Drain(RegionId region, Instant until);
  // Stops admitting, cancels queues, waits at most 2 s plus what is on devices; writes no payload.
  Status Close(Instant until);

  Result<SpaceId> OpenSpace(
      const SpaceSpec& spec);  // the same spec gives the same id; thousands are fine
  Result<KeySpace> Space(SpaceId space) const;
  Status NewEpoch(SpaceId space);  // all its blocks are absent at once; durable on return
  Result<RegionId> AddRegion(std::span<std::byte> memory);
  Status RemoveRegion(RegionId region, Instant until);  // drains first; layouts over it end
  Result<LayoutId> AddLayout(std::span<const Stripe> stripes);

  // Look: no I/O, no touch. Find allocates nothing and pins nothing.
  void Find(const Blocks& blocks, std::span<Where> out) const;
  Match FindPrefix(const Blocks& blocks, size_t first, Duration lease);
  // Would a put be kept? One offer with its put: together they count once in admission's memory.
  void Want(const Blocks& blocks, Hold hold, uint64_t request, std::span<bool> out);

  // Move. A submit is taken whole or not at all.
  Result<OpId> SubmitFetch(const Blocks& blocks, const Memory& target, const FetchOptions& options,
                           CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  Result<OpId> SubmitPut(const Blocks& blocks, const Memory& source, const PutOptions& options,
                         CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  // Brings copies up to `to` (kDdr or kHbm) without a target.
  Result<OpId> SubmitPrefetch(const Blocks& blocks, Where to, const FetchOptions& options,
                              CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  Result<Lease> Reserve(uint64_t payload_bytes);  // a writable frame; SubmitCommit copies nothing
  Result<OpId> SubmitCommit(Lease frame, const Blocks& one, const PutOptions& options,
                            CompletionQueue* queue, uint64_t tag, std::span<Item> results);
  void Cancel(OpId op);                 // it still completes, exactly once
  Status Wait(OpId op, Instant until);  // kDeadlineExceeded: it goes on

  // Blocking: submit, wait. The number of leading blocks that are done (fetch) or kept (put).
  Result<size_t> Fetch(const Blocks& blocks, const Memory& target, const FetchOptions& options,
                       std::span<Item> results);
  Result<size_t> Put(const Blocks& blocks, const Memory& source, const PutOptions& options,
                     std::span<Item> results);

  // Keep. Keys that are not here are no error.
  void Touch(const Blocks& blocks, uint64_t request);
  Status SetHold(const Blocks& blocks, Hold hold, std::span<bool> granted);  // never shortens
  // At once in memory; complete when synced.
  Result<OpId> SubmitRelease(const Blocks& blocks, CompletionQueue* queue, uint64_t tag);
  Result<OpId> SubmitErase(const Blocks& blocks, CompletionQueue* queue, uint64_t tag);
  Status Release(const Blocks& blocks);
  Status Erase(const Blocks& blocks);

  StoreStats Stats() const;
  std::string OpenMetrics() const;

  // One turn of the driver, for an Environment without a driver thread. True when it did something.
  bool Step();

 private:
  explicit Store(std::shared_ptr<internal::Core> core);
  std::shared_ptr<internal::Core> core_;
};

}  // namespace holdfast
