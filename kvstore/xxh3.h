// XXH3-64 from its header, compiled twice; frame.cc chooses once. Internal to kvstore.
//
// The two translation units that implement it include nothing else: an inline function that they
// emitted with AVX2 could otherwise be picked by the linker for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::internal {

// Room for an XXH3_state_t.
struct alignas(64) Xxh3State {
  unsigned char bytes[576];
};

struct Xxh3 {
  uint64_t (*hash)(const void* data, size_t bytes, uint64_t seed);
  void (*reset)(Xxh3State* state);
  void (*update)(Xxh3State* state, const void* data, size_t bytes);
  uint64_t (*digest)(const Xxh3State* state);
  // Hashes a piece that fits the first cache level and copies it from there. Other threads may read
  // the target after end_copies.
  void (*copy_and_update)(Xxh3State* state, void* target, const void* source, size_t bytes);
  void (*end_copies)();
};

extern const Xxh3 kXxh3Baseline;
extern const Xxh3 kXxh3Avx2;  // only where the CPU has it
// The one in use.
const Xxh3& ChosenXxh3() noexcept;

}  // namespace holdfast::internal
