// TestStore: a whole store in a world that a test controls. Simulated: virtual clocks, flash over a
// simulated disk, disk in memory, no thread; it moves inside its verbs and in Pass. Real: threads,
// io_uring, RocksDB, files in a directory of their own; only the hold clock is virtual.
//
//   TestStore t(SmallStore());
//   ASSERT_TRUE(t.Open().ok());
//   const Blocks chain = t.Prompt(1, 8);
//   EXPECT_EQ(t.Put(chain, kPayload), All(Item::kDone, 8));
//   EXPECT_EQ(t.Fetch(chain, kPayload), All(Item::kDone, 8));  // compares every byte
//
// Its destructor checks that the store is quiet and empties it: what cannot be given back is a
// leak.
#pragma once

#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvstore/store.h"
#include "tests/testing/sim_disk_image.h"
#include "tests/testing/sim_io_engine.h"
#include "tests/testing/virtual_clock.h"
#include "tiers/sim_disk.h"

namespace holdfast {

inline void PrintTo(Item item, std::ostream* out) { *out << ToString(item); }
inline void PrintTo(Where where, std::ostream* out) { *out << ToString(where); }

namespace testing {

using namespace std::chrono_literals;

inline constexpr uint64_t kPayload = 16 << 10;
inline constexpr uint64_t kFrame = kPayload + 4096;
inline constexpr Duration k5m = 5min;
inline constexpr Duration k1h = 1h;

inline std::vector<Item> All(Item item, size_t n) { return std::vector<Item>(n, item); }
// `n` of one item and then the rest of another.
std::vector<Item> First(size_t n, Item item, size_t size, Item rest);

// The bytes that belong to a key: a function of key and offset.
void FillPayload(const BlockKey& key, uint64_t offset, std::span<std::byte> out);
bool PayloadIs(const BlockKey& key, uint64_t offset, std::span<const std::byte> bytes);

// The caller's memory: one piece per block, aligned unless asked otherwise.
class Pages {
 public:
  Pages(size_t blocks, uint64_t bytes, uint64_t misalign = 0);
  Memory memory() const;
  std::span<std::byte> of(size_t i) { return {base_ + i * stride_, bytes_}; }
  void Fill(const Blocks& blocks);
  bool Holds(const Blocks& blocks, size_t i, uint64_t offset = 0) {
    return PayloadIs(blocks.key(i), offset, of(i));
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  uint64_t bytes_;
  uint64_t stride_;
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* base_;
  std::vector<Extent> extents_;
  std::vector<uint32_t> begin_;
};

// A fetch under way: its memory and what it was told.
struct Fetching {
  Fetching(Blocks b, uint64_t bytes) : blocks(std::move(b)), pages(blocks.size(), bytes) {
    items.assign(blocks.size(), Item::kPending);
  }
  // Done and right; a wrong byte of a block that is done fails the test.
  size_t Done();

  Blocks blocks;
  Pages pages;
  std::vector<Item> items;
  OpId op = 0;
};

// ddr of 1 MiB (51 frames), flash of 8 MiB (16 segments), disk of 16 MiB, no write budget.
StoreOptions SmallStore();
StoreOptions DdrOnly(uint64_t ddr_bytes = 1 << 20);

enum class World { kSimulated, kReal };

class TestStore {
 public:
  explicit TestStore(StoreOptions options, World world = World::kSimulated);
  ~TestStore();
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;

  Status Open();
  void Close();      // in good order, without Drain
  void PowerLoss();  // what was not flushed is lost or torn
  Status Reopen() {
    Close();
    return Open();
  }
  void AbandonChecks() { checks_ = false; }  // for a store that a test takes apart

  Store& operator*() { return *store_; }
  Store* operator->() { return store_.get(); }
  bool open() const { return store_ != nullptr; }
  StoreOptions& options() { return options_; }
  SpaceId space() const { return space_; }
  VirtualClock& hold() { return hold_; }
  VirtualClock& run() { return run_; }
  Instant Now() { return RunClock().Now(); }
  SimIoEngine& io() { return *engine_; }
  SimDiskImage& image() { return image_; }
  SimDiskMedium& medium() { return *medium_; }
  CompletionQueue& queue() { return *queue_; }
  const std::string& directory() const { return options_.directory; }
  SpaceSpec spec() const;

  // A chain of its own, the same for the same number.
  Blocks Prompt(uint32_t number, size_t blocks);
  // A chain that shares its first `shared` blocks with that of `number`.
  Blocks Branch(uint32_t number, size_t shared, uint32_t branch, size_t blocks);

  std::vector<Item> Put(const Blocks& blocks, uint64_t bytes, const PutOptions& options = {});
  std::vector<Item> Put(const Blocks& blocks, uint64_t bytes, Duration hold,
                        Duration wait_max = 2s) {
    return Put(blocks, bytes, PutOptions{.hold = {hold}, .wait_max = wait_max});
  }
  std::vector<Item> Fetch(const Blocks& blocks, uint64_t bytes, const FetchOptions& options = {});
  std::unique_ptr<Fetching> StartFetch(const Blocks& blocks, uint64_t bytes,
                                       const FetchOptions& options = {}, uint64_t tag = 0);
  std::vector<Item> Prefetch(const Blocks& blocks, Where to, const FetchOptions& options = {});
  std::vector<Where> Find(const Blocks& blocks);
  size_t Resident(const Blocks& blocks);  // by Find, in any tier
  bool SetHold(const Blocks& blocks, Duration ttl);
  TierStats Tier(Where where) { return store_->Stats().tiers[static_cast<size_t>(where) - 2]; }
  uint64_t DiskTierBytes() const { return disk_ == nullptr ? 0 : disk_->usage().used_bytes; }

  // Lets run time pass, and the store work in it.
  void Pass(Duration time);
  // Until no operation and no move is under way and nothing more starts.
  void Settle();
  // Completions that are there now.
  std::vector<Completion> Completions();
  // Gauges of a store on which nothing runs; then everything is erased and must be given back.
  void CheckQuiet();

 private:
  Clock& RunClock() { return world_ == World::kReal ? Clock::System() : run_; }
  Environment MakeEnvironment();
  void Idle(Instant until);
  void Remember(const Blocks& blocks) { known_.push_back(blocks); }

  const World world_;
  StoreOptions options_;
  VirtualClock hold_;
  VirtualClock run_;
  SimDiskImage image_;
  std::shared_ptr<SimDiskMedium> medium_ = std::make_shared<SimDiskMedium>();
  std::unique_ptr<CompletionQueue> queue_;
  SimIoEngine* engine_ = nullptr;
  class Tier* disk_ = nullptr;
  std::unique_ptr<Store> store_;
  SpaceId space_ = 0;
  uint64_t seed_ = 1;
  std::vector<Blocks> known_;
  bool checks_ = true;
};

}  // namespace testing
}  // namespace holdfast
