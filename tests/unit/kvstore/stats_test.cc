#include "kvstore/stats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(LatencyHistogramTest, EveryDurationIsWithinTheBoundsOfItsBucket) {
  std::vector<int64_t> durations;
  for (int64_t ns = 0; ns < 4096; ++ns) durations.push_back(ns);
  for (int power = 12; power < 63; ++power) {
    for (int64_t step = 4; step < 8; ++step) {
      const int64_t bound = step << (power - 2);
      durations.insert(durations.end(), {bound - 1, bound, bound + 1});
    }
  }
  durations.push_back(INT64_MAX);
  for (const int64_t ns : durations) {
    LatencyHistogram histogram;
    histogram.Add(Duration(ns));
    size_t bucket = 0;
    while (histogram.buckets()[bucket] == 0) ++bucket;
    EXPECT_LE(ns, LatencyHistogram::UpperBound(bucket).count());
    if (bucket > 0) {
      EXPECT_GT(std::max<int64_t>(ns, 1), LatencyHistogram::UpperBound(bucket - 1).count());
    }
    EXPECT_EQ(histogram.count(), 1u);
    EXPECT_EQ(histogram.max().count(), ns);
    EXPECT_EQ(histogram.Quantile(0.5).count(), ns);
  }
}

TEST(LatencyHistogramTest, BoundsNeverFall) {
  for (size_t i = 1; i < 256; ++i) {
    EXPECT_GE(LatencyHistogram::UpperBound(i), LatencyHistogram::UpperBound(i - 1)) << i;
  }
  EXPECT_GT(LatencyHistogram::UpperBound(255), std::chrono::seconds(100));
}

TEST(LatencyHistogramTest, QuantilesAreWithinThirteenPercent) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> latency(11, 2);
  LatencyHistogram histogram;
  std::vector<double> all(9'999);
  double sum = 0;
  for (double& ns : all) {
    ns = std::floor(latency(random)) + 100;
    sum += ns;
    histogram.Add(Duration(static_cast<int64_t>(ns)));
  }
  std::sort(all.begin(), all.end());
  for (const double q : {0.001, 0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = all[static_cast<size_t>(std::ceil(q * 9'999)) - 1];
    EXPECT_NEAR(static_cast<double>(histogram.Quantile(q).count()) / exact, 1, 0.13) << q;
  }
  EXPECT_EQ(static_cast<double>(histogram.Quantile(1).count()), all.back());
  EXPECT_EQ(static_cast<double>(histogram.sum().count()), sum);
}

TEST(LatencyHistogramTest, OddQuantilesAndDurationsAreTaken) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), Duration{});
  histogram.Add(Duration(-5));
  EXPECT_EQ(histogram.sum(), Duration{});
  histogram.Add(Duration::max());
  histogram.Add(Duration::max());
  EXPECT_EQ(histogram.sum(), Duration::max());
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_LE(histogram.Quantile(-1), Duration(1));
  EXPECT_LE(histogram.Quantile(std::nan("")), Duration(1));
  EXPECT_EQ(histogram.Quantile(7), Duration::max());
}

// Reads the text format and checks it on the way.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) Line(line);
    for (const auto& [name, type] : types_) EXPECT_TRUE(helps_.contains(name)) << name;
  }

  double Value(const std::string& series) const {
    const auto it = samples_.find(series);
    EXPECT_TRUE(it != samples_.end()) << series;
    return it == samples_.end() ? 0 : it->second;
  }
  bool Has(const std::string& series) const { return samples_.contains(series); }
  const std::vector<std::string>& order() const { return order_; }
  const std::map<std::string, std::string>& types() const { return types_; }

 private:
  static bool IsName(std::string_view text) {
    if (!text.starts_with("holdfast_")) return false;
    return std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
  }

  void Line(const std::string& line) {
    SCOPED_TRACE(line);
    if (line.starts_with("# ")) {
      std::istringstream words(line.substr(2));
      std::string what, name, rest;
      words >> what >> name;
      std::getline(words >> std::ws, rest);
      EXPECT_TRUE(IsName(name));
      EXPECT_FALSE(rest.empty());
      ASSERT_TRUE(what == "HELP" || what == "TYPE");
      EXPECT_TRUE((what == "HELP" ? helps_ : types_).emplace(name, rest).second) << "twice";
      if (what == "TYPE") {
        EXPECT_TRUE(rest == "counter" || rest == "gauge" || rest == "histogram");
        EXPECT_EQ(rest == "counter", name.ends_with("_total"));
      }
      family_ = name;
      return;
    }
    SampleLine(line);
  }

  void SampleLine(const std::string& line) {
    size_t at = line.find_first_of("{ ");
    ASSERT_NE(at, std::string::npos);
    const std::string name = line.substr(0, at);
    EXPECT_TRUE(IsName(name));
    std::string le;
    if (line[at] == '{') at = Labels(line, at + 1, le);
    ASSERT_EQ(line.at(at), ' ');
    const std::string series = line.substr(0, at);
    size_t used = 0;
    const double value = std::stod(line.substr(at + 1), &used);
    EXPECT_EQ(used, line.size() - at - 1);
    EXPECT_TRUE(samples_.emplace(series, value).second) << "series twice";
    order_.push_back(series);

    ASSERT_TRUE(types_.contains(family_)) << "no TYPE before the sample";
    if (types_[family_] != "histogram") {
      EXPECT_EQ(name, family_);
      EXPECT_TRUE(le.empty());
      return;
    }
    EXPECT_EQ(name == family_ + "_bucket", !le.empty());
    EXPECT_TRUE(!le.empty() || name == family_ + "_sum" || name == family_ + "_count");
    if (!le.empty()) Bucket(le == "+Inf" ? INFINITY : std::stod(le), value);
    if (name == family_ + "_count") {
      EXPECT_EQ(value, bucket_value_);
      EXPECT_EQ(bucket_le_, INFINITY);
      EXPECT_LE(buckets_, 18);
      bucket_le_ = -1;
      bucket_value_ = 0;
      buckets_ = 0;
    }
  }

  void Bucket(double le, double value) {
    EXPECT_GT(le, bucket_le_);
    EXPECT_GE(value, bucket_value_);
    bucket_le_ = le;
    bucket_value_ = value;
    ++buckets_;
  }

  // From behind the brace to behind the closing one.
  static size_t Labels(const std::string& line, size_t at, std::string& le) {
    std::set<std::string> names;
    while (true) {
      const size_t equals = line.find("=\"", at);
      const std::string name = line.substr(at, equals - at);
      EXPECT_TRUE(name == "tier" || name == "class" || name == "le") << name;
      EXPECT_TRUE(names.insert(name).second);
      std::string value;
      for (at = equals + 2; line.at(at) != '"'; ++at) {
        if (line[at] == '\\') {
          ++at;
          EXPECT_NE(std::string_view("\\\"n").find(line.at(at)), std::string_view::npos);
        }
        value += line.at(at);
      }
      if (name == "le") le = value;
      if (line.at(++at) == '}') return at + 1;
      EXPECT_EQ(line[at++], ',');
    }
  }

  std::map<std::string, std::string> types_, helps_;
  std::map<std::string, double> samples_;
  std::vector<std::string> order_;
  std::string family_;
  double bucket_le_ = -1, bucket_value_ = 0;
  int buckets_ = 0;
};

StoreStats Busy() {
  StoreStats stats;
  for (size_t i = 0; i < 4; ++i) {
    TierStats& tier = stats.tiers[i];
    tier.on = true;
    tier.hits = 10 + i;
    tier.written_bytes = (1ull << 63) + i;
    for (int64_t ns = 1; ns < 1'000'000'000'000; ns *= 7) tier.read_latency.Add(Duration(ns));
  }
  stats.holds.resize(2);
  stats.holds[0].name = "5m";
  stats.holds[0].ttl = std::chrono::minutes(5);
  stats.holds[0].broken = 3;
  stats.holds[1].name = "1h";
  stats.holds[1].granted = 4;
  stats.lookups = 1'000'000;
  stats.lock_hold.Add(std::chrono::microseconds(3));
  return stats;
}

TEST(OpenMetricsTest, TextIsInTheFormatAndCarriesTheValues) {
  const Exposition text(OpenMetricsText(Busy()));
  EXPECT_EQ(text.Value("holdfast_hold_broken_total{class=\"5m\"}"), 3);
  EXPECT_EQ(text.Value("holdfast_hold_granted_total{class=\"1h\"}"), 4);
  EXPECT_EQ(text.Value("holdfast_hold_ttl_seconds{class=\"5m\"}"), 300);
  EXPECT_EQ(text.Value("holdfast_tier_hits_total{tier=\"hbm\"}"), 10);
  EXPECT_EQ(text.Value("holdfast_tier_hits_total{tier=\"disk\"}"), 13);
  EXPECT_EQ(text.Value("holdfast_lookup_blocks_total"), 1e6);
  EXPECT_EQ(text.Value("holdfast_lock_hold_seconds_count"), 1);
  EXPECT_DOUBLE_EQ(text.Value("holdfast_lock_hold_seconds_sum"), 3e-6);
  EXPECT_NE(OpenMetricsText(Busy()).find("holdfast_tier_written_bytes_total{tier=\"ddr\"} "
                                         "9223372036854775809\n"),
            std::string::npos)
      << "counters are written in full";
}

TEST(OpenMetricsTest, BrokenHoldsComeFirst) {
  const Exposition text(OpenMetricsText(Busy()));
  ASSERT_GE(text.order().size(), 2u);
  EXPECT_EQ(text.order()[0], "holdfast_hold_broken_total{class=\"5m\"}");
  EXPECT_EQ(text.order()[1], "holdfast_hold_broken_total{class=\"1h\"}");
}

TEST(OpenMetricsTest, BucketsCountExactlyWhatIsAtMostTheirBound) {
  StoreStats stats;
  stats.lock_hold.Add(Duration(255));
  stats.lock_hold.Add(Duration(256));
  stats.lock_hold.Add(std::chrono::hours(1));
  const Exposition text(OpenMetricsText(stats));
  EXPECT_EQ(text.Value("holdfast_lock_hold_seconds_bucket{le=\"2.55e-07\"}"), 1);
  EXPECT_EQ(text.Value("holdfast_lock_hold_seconds_bucket{le=\"1.023e-06\"}"), 2);
  EXPECT_EQ(text.Value("holdfast_lock_hold_seconds_bucket{le=\"274.877906943\"}"), 2);
  EXPECT_EQ(text.Value("holdfast_lock_hold_seconds_bucket{le=\"+Inf\"}"), 3);
}

TEST(OpenMetricsTest, TiersThatAreOffAreLeftOut) {
  StoreStats stats = Busy();
  stats.tiers[2].on = false;
  const Exposition text(OpenMetricsText(stats));
  EXPECT_TRUE(text.Has("holdfast_tier_hits_total{tier=\"ddr\"}"));
  EXPECT_FALSE(text.Has("holdfast_tier_hits_total{tier=\"flash\"}"));
  EXPECT_FALSE(text.Has("holdfast_tier_read_seconds_count{tier=\"flash\"}"));
}

TEST(OpenMetricsTest, AnEmptyStoreHasAllItsMetrics) {
  const Exposition empty(OpenMetricsText(StoreStats{}));
  const Exposition busy(OpenMetricsText(Busy()));
  EXPECT_EQ(empty.types(), busy.types());
}

TEST(OpenMetricsTest, LabelValuesAreEscaped) {
  StoreStats stats = Busy();
  stats.holds[0].name = "a\"b\\c\nd";
  const Exposition text(OpenMetricsText(stats));
  EXPECT_EQ(text.Value("holdfast_hold_broken_total{class=\"a\\\"b\\\\c\\nd\"}"), 3);
}

}  // namespace
}  // namespace holdfast
