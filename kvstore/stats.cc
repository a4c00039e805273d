#include "kvstore/stats.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace holdfast {
namespace {

constexpr int kStepsLog2 = 2;  // four steps of a power of two

size_t BucketOf(uint64_t ns) noexcept {
  ns = std::max<uint64_t>(ns, 1);
  const auto power = static_cast<int>(std::bit_width(ns)) - 1;
  // The two bits below the highest one.
  const uint64_t step =
      (power >= kStepsLog2 ? ns >> (power - kStepsLog2) : ns << (kStepsLog2 - power)) & 3;
  return (static_cast<size_t>(power) << kStepsLog2) + step;
}

// The shortest duration counted in the bucket.
uint64_t LowerBoundNs(size_t bucket) noexcept {
  const int power = static_cast<int>(bucket >> kStepsLog2);
  const uint64_t step = 4 + (bucket & 3);
  if (power >= kStepsLog2) return step << (power - kStepsLog2);
  return ((step - 1) >> (kStepsLog2 - power)) + 1;  // rounded up; some of these are always empty
}

uint64_t UpperBoundNs(size_t bucket) noexcept {
  if (bucket + 1 >= 256) return UINT64_MAX;
  return LowerBoundNs(bucket + 1) - 1;
}

Duration ToDuration(uint64_t ns) noexcept {
  return Duration(static_cast<int64_t>(std::min<uint64_t>(ns, INT64_MAX)));
}

}  // namespace

void LatencyHistogram::Add(Duration took) noexcept {
  const int64_t ns = std::max<int64_t>(took.count(), 0);
  ++buckets_[BucketOf(static_cast<uint64_t>(ns))];
  max_ns_ = std::max(max_ns_, ns);
  sum_ns_ = ns > INT64_MAX - sum_ns_ ? INT64_MAX : sum_ns_ + ns;
}

uint64_t LatencyHistogram::count() const noexcept {
  uint64_t sum = 0;
  for (const uint64_t n : buckets_) sum += n;
  return sum;
}

Duration LatencyHistogram::Quantile(double q) const noexcept {
  const uint64_t total = count();
  if (total == 0) return {};
  const double clamped = q >= 0 ? std::min(q, 1.0) : 0.0;  // NaN: 0
  const auto wanted = static_cast<uint64_t>(std::ceil(clamped * static_cast<double>(total)));
  const uint64_t rank = std::clamp<uint64_t>(wanted, 1, total);
  if (rank == total) return max();
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen < rank) continue;
    const uint64_t low = LowerBoundNs(i);
    return std::min(ToDuration(low + (UpperBoundNs(i) - low) / 2), max());
  }
  return max();
}

Duration LatencyHistogram::UpperBound(size_t bucket) noexcept {
  return ToDuration(UpperBoundNs(bucket));
}

}  // namespace holdfast
