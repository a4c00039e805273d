// Prompts: chains of blocks, hashed once, and a store without bytes that holds all of them: what
// look-ups are measured on.
//
// Threading: immutable once made; the store is thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "bench/sample.h"
#include "kvstore/store.h"

namespace holdfast::bench {

struct Prompts {
  static constexpr uint32_t kBlockTokens = 16;
  static constexpr size_t kChainBlocks = 128;

  std::unique_ptr<Store> store;
  KeySpace space;
  std::vector<Blocks> chains;
  Duration hashing{};           // of all of them, one thread
  uint64_t resident_bytes = 0;  // that the process grew by, but for the chains' keys

  size_t blocks() const noexcept { return chains.size() * kChainBlocks; }
};

// Room for `spare` more blocks than are put.
struct PromptsOptions {
  size_t blocks = 1'000'000;
  size_t spare = 0;
  uint64_t seed = 1;
  bool driver_thread = false;
};
Result<std::unique_ptr<Prompts>> MakePrompts(const PromptsOptions& options);

// Chains of other tokens than those of any other seed.
Result<std::vector<Blocks>> HashChains(const KeySpace& space, size_t chains, uint64_t seed,
                                       Duration& took);
// Puts a chain into a store that keeps no bytes.
Status PutWithoutBytes(Store& store, const Blocks& chain);
// FindPrefix of the whole chain under a lease, then its touch. kInternal: not all of it was there.
Status LookUp(Store& store, const Blocks& chain, uint64_t request);

// Visits chains in an order that no cache foresees.
class ChainOrder {
 public:
  ChainOrder(size_t chains, uint64_t seed) : chains_(chains), state_(seed) {}
  size_t Next() noexcept;

 private:
  size_t chains_;
  uint64_t state_;
};

}  // namespace holdfast::bench
