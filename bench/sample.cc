#include "bench/sample.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/resource.h>

namespace holdfast::bench {
namespace {

constexpr double kGiga = 1e9;

double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

double ProcessCpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

double GigabytesPerSecond(const Sample& sample) {
  const double seconds = std::chrono::duration<double>(sample.took).count();
  return seconds > 0 ? static_cast<double>(sample.bytes) / kGiga / seconds : 0;
}

// The rounds of one side.
struct Rounds {
  std::vector<double> rates;
  std::vector<Duration> latencies;
  double cpu_seconds = 0;
  uint64_t bytes = 0;

  void Add(Sample&& sample) {
    rates.push_back(GigabytesPerSecond(sample));
    latencies.insert(latencies.end(), sample.latencies.begin(), sample.latencies.end());
    cpu_seconds += sample.cpu_seconds;
    bytes += sample.bytes;
  }
  Side Sum() {
    return {.gigabytes_per_second = SpreadOf(rates),
            .p50 = Quantile(latencies, 0.5),
            .p99 = Quantile(latencies, 0.99),
            .cpu_seconds_per_gigabyte =
                bytes > 0 ? cpu_seconds / (static_cast<double>(bytes) / kGiga) : 0};
  }
};

}  // namespace

Meter::Meter() : started_(Clock::System().Now()), cpu_started_(ProcessCpuSeconds()) {}

void Meter::Stop(Sample& sample) const {
  sample.took = elapsed();
  sample.cpu_seconds = ProcessCpuSeconds() - cpu_started_;
}

Duration Meter::elapsed() const { return Clock::System().Now() - started_; }

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {values.front(), median, values.back()};
}

Duration Quantile(std::vector<Duration>& durations, double q) {
  if (durations.empty()) return {};
  const auto rank = static_cast<size_t>(q * static_cast<double>(durations.size() - 1) + 0.5);
  const auto at = durations.begin() + static_cast<ptrdiff_t>(rank);
  std::nth_element(durations.begin(), at, durations.end());
  return *at;
}

Result<Comparison> Compare(uint32_t rounds, const MeasureSide& store, const MeasureSide& limit) {
  Rounds ours, theirs;
  std::vector<double> ratios;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const bool first : {true, false}) {
      const bool mine = first == (round % 2 == 0);
      HF_ASSIGN_OR_RETURN(Sample sample, mine ? store() : limit());
      (mine ? ours : theirs).Add(std::move(sample));
    }
    ratios.push_back(theirs.rates.back() > 0 ? ours.rates.back() / theirs.rates.back() : 0);
  }
  return Comparison{.store = ours.Sum(), .limit = theirs.Sum(), .ratio = SpreadOf(ratios)};
}

}  // namespace holdfast::bench
