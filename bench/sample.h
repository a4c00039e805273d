// Sample: what one side of a comparison did in one round, and what several rounds say together.
//
//   Comparison c = *Compare(rounds, [&] { return OurRead(); }, [&] { return PlainRead(); });
//   c.ratio.median;  // of ours over theirs, by bytes a second
//
// Both sides alternate in one run, and take turns in going first: this kind of machine is noisy.
//
// Threading: thread-confined. GB are 10^9 bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/status.h"

namespace holdfast::bench {

struct Sample {
  uint64_t bytes = 0;
  Duration took{};
  double cpu_seconds = 0;           // of the whole process
  std::vector<Duration> latencies;  // one an operation
};

// Time and processor time from its construction to Stop.
class Meter {
 public:
  Meter();
  void Stop(Sample& sample) const;
  Duration elapsed() const;

 private:
  Instant started_;
  double cpu_started_;
};

struct Spread {
  double least = 0, median = 0, most = 0;
};
Spread SpreadOf(std::vector<double> values);

// The q-th of the durations; zero of none.
Duration Quantile(std::vector<Duration>& durations, double q);

struct Side {
  Spread gigabytes_per_second;
  Duration p50{}, p99{};
  double cpu_seconds_per_gigabyte = 0;
};

struct Comparison {
  Side store;
  Side limit;
  Spread ratio;  // of bytes a second, one for each round
};

using MeasureSide = std::function<Result<Sample>()>;
Result<Comparison> Compare(uint32_t rounds, const MeasureSide& store, const MeasureSide& limit);

}  // namespace holdfast::bench
