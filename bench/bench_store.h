// BenchStore: a store with one key space, one window of slots in the caller's memory, and loops
// that put or fetch numbered blocks and time every operation.
//
//   auto store = *BenchStore::Open(options, memory, /*seed=*/1);
//   Blocks blocks = *store->Keys(0, 512);
//   Fill(*store, blocks);
//   Sample sample = *store->Run(blocks, {.in_flight = 8, .time_max = 250ms, .next = order});
//
// Threading: thread-confined. Memory: `memory` outlives it. Errors: kDataLoss: a wrong byte;
// kFailedPrecondition: a block that should have been done was not.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/payload_memory.h"
#include "bench/sample.h"
#include "kvstore/store.h"

namespace holdfast::bench {

// What block i of `blocks` holds.
enum class Content : uint8_t {
  kOwn,      // FillPayload of its key
  kStamped,  // one pattern for all, with i in the first word: put without computing a payload
};

struct Drive {
  bool put = false;
  uint32_t in_flight = 1;
  uint64_t bytes_max = UINT64_MAX;
  Duration time_max = Duration::max();
  std::function<size_t()> next;  // which block comes next
  bool durable = false;          // counts to the end of Drain
};

class BenchStore {
 public:
  static Result<std::unique_ptr<BenchStore>> Open(const StoreOptions& options,
                                                  PayloadMemory& memory, uint64_t seed);
  BenchStore(const BenchStore&) = delete;
  BenchStore& operator=(const BenchStore&) = delete;
  ~BenchStore();

  Store& store() noexcept { return *store_; }
  PayloadMemory& memory() noexcept { return memory_; }
  Result<Blocks> Keys(uint64_t first, size_t count) const;
  Memory slots(size_t first, size_t count) const noexcept;
  FetchOptions fetch_options() const noexcept;

  // Puts all blocks, own content, in batches.
  Status Fill(const Blocks& blocks, Hold hold = {});
  // Every slot gets the pattern of Content::kStamped.
  void FillPattern();
  void Stamp(size_t slot, uint64_t block) noexcept;

  // One operation a block, through a completion queue. `blocks` may be longer than what is run.
  Result<Sample> Run(const Blocks& blocks, const Drive& drive);

  // Fetches all of them into spoiled memory and compares every byte. With `all` each must be here;
  // else at least one. The slots hold other bytes afterwards.
  Status Verify(const Blocks& blocks, Content content, bool all);
  Status Drain();

 private:
  BenchStore(PayloadMemory& memory, uint64_t seed);
  Status Submit(const Blocks& blocks, const Drive& drive, size_t slot);
  Status CheckDone(size_t slot, const Drive& drive) const;
  Status CheckContent(const Blocks& part, size_t first, Content content, size_t slot);

  PayloadMemory& memory_;
  const uint64_t seed_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<CompletionQueue> queue_;
  KeySpace space_;
  RegionId region_ = 0;
  LayoutId layout_ = 0;
  std::vector<int64_t> numbers_;  // of the slots
  std::vector<Item> items_;       // one a slot
  std::vector<Instant> started_;
};

// Options that every measured store shares: no write budget, one payload size.
StoreOptions BenchStoreOptions(std::string directory, uint64_t payload_bytes);

// A fixed random order over [0, count), again and again.
std::function<size_t()> RandomOrder(size_t count, uint64_t seed);
std::function<size_t()> InOrder(size_t first = 0);

// Slots of a window: enough for what is in flight, larger than the processor's caches.
size_t WindowSlots(uint64_t payload_bytes);

}  // namespace holdfast::bench
