// Distributions of the generators, in integers only: the same seed gives the same trace with every
// compiler and library, which the distributions of <random> do not promise.
//
// Threading: Quantiles immutable; Random thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::internal {

// A rank in [0, 1) as 32-bit fraction.
using Rank = uint32_t;

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  Rank NextRank() { return static_cast<Rank>(Next() >> 32); }
  bool Chance(uint32_t permille) { return uint64_t{NextRank()} * 1000 >> 32 < permille; }

 private:
  uint64_t state_;
};

// One known point of a distribution: `permille` of its values are at most `value`.
struct Knot {
  uint32_t permille;
  int64_t value;
};

// A distribution given by knots from 0 to 1000 permille, linear between them.
class Quantiles {
 public:
  template <size_t kCount>
  constexpr explicit Quantiles(const Knot (&knots)[kCount]) : knots_(knots) {  // NOLINT: C array
    static_assert(kCount >= 2);
  }

  int64_t At(Rank rank) const {
    const auto at = static_cast<int64_t>(uint64_t{rank >> 8} * 1000);  // permille << 24
    size_t upper = 1;
    while (upper + 1 < knots_.size() && Position(upper) <= at) ++upper;
    const Knot& low = knots_[upper - 1];
    const int64_t width = Position(upper) - Position(upper - 1);
    return low.value +
           (knots_[upper].value - low.value) * (at - Position(upper - 1)) / (width > 0 ? width : 1);
  }

 private:
  int64_t Position(size_t knot) const { return int64_t{knots_[knot].permille} << 24; }

  std::span<const Knot> knots_;
};

}  // namespace holdfast::internal
