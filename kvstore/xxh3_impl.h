// Included by xxh3_avx2.cc and xxh3_baseline.cc, which name the table HF_XXH3_TABLE.
#define XXH_INLINE_ALL
// What is hashed has mostly just come from a device or another core: the default of 384 bytes ahead
// is too near for memory. BM_ChecksumPayload of 2 MiB, alternating: 9.0 and 9.2 GiB/s with
// 384, 12.0 and 10.9 with 4,096; with the copy 6.9 and 7.9.
#define XXH_PREFETCH_DIST 4096
#include <emmintrin.h>
#include <string.h>
#include <xxhash.h>

#include "kvstore/xxh3.h"

// NOLINTBEGIN(misc-definitions-in-headers): one table for each file that includes this
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

// Past the caches: the target is not read before it is overwritten, which memcpy would cost.
void CopyStreaming(void* target, const void* source, size_t bytes) {
  auto* to = static_cast<__m128i*>(target);
  const auto* from = static_cast<const __m128i*>(source);
  for (size_t i = 0; i < bytes / 16; i += 4) {
    const __m128i a = _mm_loadu_si128(from + i);
    const __m128i b = _mm_loadu_si128(from + i + 1);
    const __m128i c = _mm_loadu_si128(from + i + 2);
    const __m128i d = _mm_loadu_si128(from + i + 3);
    _mm_stream_si128(to + i, a);
    _mm_stream_si128(to + i + 1, b);
    _mm_stream_si128(to + i + 2, c);
    _mm_stream_si128(to + i + 3, d);
  }
}
void CopyAndUpdate(Xxh3State* state, void* target, const void* source, size_t bytes) {
  Update(state, source, bytes);
  if (reinterpret_cast<uintptr_t>(target) % 64 == 0 && bytes % 64 == 0) {
    CopyStreaming(target, source, bytes);
  } else {
    memcpy(target, source, bytes);
  }
}
void EndCopies() { _mm_sfence(); }

}  // namespace

const Xxh3 HF_XXH3_TABLE = {Hash, Reset, Update, Digest, CopyAndUpdate, EndCopies};

}  // namespace holdfast::internal
// NOLINTEND(misc-definitions-in-headers)
