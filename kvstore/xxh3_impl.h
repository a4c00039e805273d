// Included by xxh3_avx2.cc and xxh3_baseline.cc, which name the table HF_XXH3_TABLE.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kvstore/xxh3.h"

namespace holdfast::internal {
namespace {

static_assert(sizeof(Xxh3State) >= sizeof(XXH3_state_t));
static_assert(alignof(Xxh3State) >= alignof(XXH3_state_t));

uint64_t Hash(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}
void Reset(Xxh3State* state) { XXH3_64bits_reset(reinterpret_cast<XXH3_state_t*>(state)); }
void Update(Xxh3State* state, const void* data, size_t bytes) {
  XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state), data, bytes);
}
uint64_t Digest(const Xxh3State* state) {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state));
}

}  // namespace

const Xxh3 HF_XXH3_TABLE = {Hash, Reset, Update, Digest};

}  // namespace holdfast::internal
