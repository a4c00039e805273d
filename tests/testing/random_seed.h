// The seed of a random test: another one in every run, printed first, and given again by
// --gtest_random_seed=N.
#pragma once

#include <cstdint>
#include <cstdio>
#include <random>

#include <gtest/gtest.h>

namespace holdfast::testing {

inline uint32_t RandomSeed() {
  constexpr uint32_t kSeedMax = 99'999;  // of the flag
  const auto given = static_cast<uint32_t>(GTEST_FLAG_GET(random_seed));
  const uint32_t seed = given != 0 ? given : 1 + std::random_device{}() % kSeedMax;
  std::printf("seed %u, replayed by --gtest_random_seed=%u\n", seed, seed);
  std::fflush(stdout);
  return seed;
}

}  // namespace holdfast::testing
