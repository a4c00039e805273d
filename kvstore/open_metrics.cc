#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "kvstore/stats.h"

namespace holdfast {
namespace {

enum class Kind : uint8_t { kCounter, kGauge };

template <typename Owner>
struct Metric {
  Kind kind = Kind::kCounter;
  std::string_view name;  // after "holdfast_"; a counter without its "_total"
  std::string_view help;
  uint64_t Owner::*value = nullptr;
};

constexpr Metric<HoldStats> kHoldMetrics[] = {
    {Kind::kCounter, "hold_broken", "Blocks under a granted hold lost before their deadline.",
     &HoldStats::broken},
    {Kind::kCounter, "hold_granted", "Blocks granted a hold.", &HoldStats::granted},
    {Kind::kCounter, "hold_downgraded", "Blocks kept without a grant for lack of budget.",
     &HoldStats::downgraded},
    {Kind::kCounter, "hold_expired", "Held blocks that reached their deadline.",
     &HoldStats::expired},
    {Kind::kGauge, "hold_budget_bytes", "Bytes that may be granted.", &HoldStats::budget_bytes},
    {Kind::kGauge, "hold_granted_bytes", "Bytes granted now.", &HoldStats::granted_bytes},
};

constexpr Metric<TierStats> kTierMetrics[] = {
    {Kind::kGauge, "tier_capacity_bytes", "Bytes the tier may hold.", &TierStats::capacity_bytes},
    {Kind::kGauge, "tier_used_bytes", "Bytes of live copies.", &TierStats::used_bytes},
    {Kind::kGauge, "tier_copies", "Live copies.", &TierStats::copies},
    {Kind::kGauge, "tier_leased_bytes", "Bytes that leases keep.", &TierStats::leased_bytes},
    {Kind::kGauge, "tier_undurable_bytes", "Bytes written and not yet flushed.",
     &TierStats::undurable_bytes},
    {Kind::kCounter, "tier_hits", "Blocks served from here.", &TierStats::hits},
    {Kind::kCounter, "tier_hit_bytes", "Bytes served from here.", &TierStats::hit_bytes},
    {Kind::kCounter, "tier_promoted", "Copies that came up into the tier.", &TierStats::promoted},
    {Kind::kCounter, "tier_spilled_in", "Copies that came down into the tier.",
     &TierStats::spilled_in},
    {Kind::kCounter, "tier_put_in", "Copies written at put.", &TierStats::put_in},
    {Kind::kCounter, "tier_rewritten", "Copies carried over to a newer segment or bucket.",
     &TierStats::rewritten},
    {Kind::kCounter, "tier_dropped", "Copies that went to make room.", &TierStats::dropped},
    {Kind::kCounter, "tier_expired", "Copies that went past their deadline.", &TierStats::expired},
    {Kind::kCounter, "tier_orphaned", "Blocks left without an ancestor by a drop.",
     &TierStats::orphaned},
    {Kind::kCounter, "tier_read_bytes", "Bytes read from the medium.", &TierStats::read_bytes},
    {Kind::kCounter, "tier_written_bytes", "Bytes written to the medium.",
     &TierStats::written_bytes},
    {Kind::kCounter, "tier_payload_written_bytes", "Bytes that were asked to be written.",
     &TierStats::payload_written_bytes},
    {Kind::kCounter, "tier_corrupt", "Reads that were not what was asked for.",
     &TierStats::corrupt},
    {Kind::kCounter, "tier_failed", "Operations that the medium failed.", &TierStats::failed},
};

constexpr Metric<StoreStats> kStoreMetrics[] = {
    {Kind::kGauge, "index_entries", "Blocks known.", &StoreStats::entries},
    {Kind::kGauge, "index_entries_max", "Blocks that the index can hold.",
     &StoreStats::entries_max},
    {Kind::kGauge, "memory_bytes", "Bookkeeping outside the arena.", &StoreStats::memory_bytes},
    {Kind::kCounter, "lookup_blocks", "Blocks looked for.", &StoreStats::lookups},
    {Kind::kCounter, "matched_blocks", "Blocks found in front.", &StoreStats::matched},
    {Kind::kCounter, "matches_cut", "Matches shortened because leases hold too much.",
     &StoreStats::matches_cut},
    {Kind::kCounter, "fetch_done", "Blocks fetched.", &StoreStats::fetched},
    {Kind::kCounter, "fetch_missed", "Blocks of fetches that were not here.", &StoreStats::missed},
    {Kind::kCounter, "fetch_late", "Blocks of fetches past their deadline.", &StoreStats::late},
    {Kind::kCounter, "fetch_cancelled", "Blocks of fetches cancelled.", &StoreStats::cancelled},
    {Kind::kCounter, "put_kept", "Blocks put.", &StoreStats::put},
    {Kind::kCounter, "put_present", "Blocks of puts that were here already.", &StoreStats::present},
    {Kind::kCounter, "put_skipped", "Blocks of puts without a payload.", &StoreStats::skipped},
    {Kind::kCounter, "put_declined_admission", "Puts that no tier would take.",
     &StoreStats::declined_admission},
    {Kind::kCounter, "put_declined_busy", "Puts that could not start in time.",
     &StoreStats::declined_busy},
    {Kind::kCounter, "put_declined_orphan", "Puts after a declined block of their batch.",
     &StoreStats::declined_orphan},
    {Kind::kCounter, "put_declined_index", "Puts that found the index full.",
     &StoreStats::declined_index},
    {Kind::kCounter, "spills_refused", "Copies that left ddr without going down.",
     &StoreStats::spills_refused},
    {Kind::kCounter, "shared_reads", "Fetches that attached to a read under way.",
     &StoreStats::shared_reads},
    {Kind::kCounter, "bounced", "Reads and writes that could not go direct.", &StoreStats::bounced},
    {Kind::kCounter, "evictions_refused", "Victims passed over.", &StoreStats::evictions_refused},
    {Kind::kCounter, "erased", "Blocks erased.", &StoreStats::erased},
    {Kind::kCounter, "released", "Blocks released.", &StoreStats::released},
    {Kind::kGauge, "leases", "Leases that live.", &StoreStats::leases},
    {Kind::kCounter, "leases_expired", "Leases that ran out.", &StoreStats::leases_expired},
    {Kind::kGauge, "views", "Views and reserved frames.", &StoreStats::views},
    {Kind::kGauge, "views_old", "Views and reserved frames held for more than 30 s.",
     &StoreStats::views_old},
    {Kind::kGauge, "staging_bytes", "Frames outside ddr that operations and views hold.",
     &StoreStats::staging_bytes},
    {Kind::kGauge, "operations_in_flight", "Operations not yet complete.",
     &StoreStats::operations_in_flight},
    {Kind::kGauge, "meta_undurable", "Records queued for the meta store.",
     &StoreStats::meta_undurable},
    {Kind::kCounter, "meta_failed", "Records that the meta store failed.",
     &StoreStats::meta_failed},
};

// One label or none.
struct Label {
  std::string_view name;
  std::string_view value;
};

class Writer {
 public:
  void Family(std::string_view name, std::string_view help, std::string_view type) {
    family_ = name;
    for (const auto& [what, text] : {std::pair{"# HELP ", help}, {"# TYPE ", type}}) {
      out_.append(what).append("holdfast_").append(name).append(" ").append(text).append("\n");
    }
  }
  void Sample(Label label, uint64_t value) { Sample("", label, {}, Number(value)); }
  void Sample(Label label, double value) { Sample("", label, {}, Number(value)); }
  void Histogram(Label label, const LatencyHistogram& histogram);

  std::string Take() && { return std::move(out_); }

 private:
  template <typename T>
  static std::string Number(T value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value);
    return std::string(text, end.ptr);
  }
  static double Seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
  }
  void Sample(std::string_view suffix, Label label, std::string_view le, std::string_view value);
  void Value(std::string_view text);

  std::string out_;
  std::string_view family_;
};

void Writer::Sample(std::string_view suffix, Label label, std::string_view le,
                    std::string_view value) {
  out_.append("holdfast_").append(family_).append(suffix);
  if (!label.name.empty() || !le.empty()) {
    out_ += '{';
    if (!label.name.empty()) {
      out_.append(label.name).append("=\"");
      Value(label.value);
      out_.append(le.empty() ? "\"" : "\",");
    }
    if (!le.empty()) out_.append("le=\"").append(le).append("\"");
    out_ += '}';
  }
  out_.append(" ").append(value).append("\n");
}

// A label's value: any bytes, these three escaped.
void Writer::Value(std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '\\':
        out_ += "\\\\";
        break;
      case '"':
        out_ += "\\\"";
        break;
      case '\n':
        out_ += "\\n";
        break;
      default:
        out_ += c;
    }
  }
}

// Every second power of two from 256 ns to 275 s: bounds of our own buckets, so that the counts
// are exact.
void Writer::Histogram(Label label, const LatencyHistogram& histogram) {
  constexpr size_t kFirstPower = 8;
  constexpr size_t kLastPower = 38;
  const auto& buckets = histogram.buckets();
  uint64_t below = 0;
  size_t next = 0;
  for (size_t power = kFirstPower; power <= kLastPower; power += 2) {
    for (; next < 4 * power; ++next) below += buckets[next];
    const Duration bound = LatencyHistogram::UpperBound(next - 1);
    Sample("_bucket", label, Number(Seconds(bound)), Number(below));
  }
  const std::string count = Number(histogram.count());
  Sample("_bucket", label, "+Inf", count);
  Sample("_sum", label, {}, Number(Seconds(histogram.sum())));
  Sample("_count", label, {}, count);
}

template <typename Owner>
std::string NameOf(const Metric<Owner>& metric) {
  return std::string(metric.name) + (metric.kind == Kind::kCounter ? "_total" : "");
}

std::string_view TypeOf(Kind kind) { return kind == Kind::kCounter ? "counter" : "gauge"; }

void WriteHolds(const StoreStats& stats, Writer& out) {
  for (const auto& metric : kHoldMetrics) {
    const std::string name = NameOf(metric);
    out.Family(name, metric.help, TypeOf(metric.kind));
    for (const HoldStats& hold : stats.holds) {
      out.Sample(Label{"class", hold.name}, hold.*metric.value);
    }
  }
  out.Family("hold_ttl_seconds", "Time to live of the class.", "gauge");
  for (const HoldStats& hold : stats.holds) {
    out.Sample(Label{"class", hold.name}, std::chrono::duration<double>(hold.ttl).count());
  }
}

void WriteTiers(const StoreStats& stats, Writer& out) {
  // hbm, ddr, flash, disk: the order of Where.
  const auto each_tier = [&](auto write) {
    for (size_t i = 0; i < stats.tiers.size(); ++i) {
      const auto where = static_cast<Where>(static_cast<size_t>(Where::kHbm) + i);
      if (stats.tiers[i].on) write(Label{"tier", ToString(where)}, stats.tiers[i]);
    }
  };
  out.Family("tier_available", "0 while the medium fails and is being retried.", "gauge");
  each_tier([&](Label tier, const TierStats& t) { out.Sample(tier, uint64_t{t.available}); });
  for (const auto& metric : kTierMetrics) {
    const std::string name = NameOf(metric);
    out.Family(name, metric.help, TypeOf(metric.kind));
    each_tier([&](Label tier, const TierStats& t) { out.Sample(tier, t.*metric.value); });
  }
  out.Family("tier_last_errno", "Of the last operation that the medium failed; 0: none.", "gauge");
  each_tier([&](Label tier, const TierStats& t) {
    out.Sample(tier, static_cast<uint64_t>(std::max(t.last_errno, 0)));
  });
  out.Family("tier_read_seconds", "Reads, from submit to verified.", "histogram");
  each_tier([&](Label tier, const TierStats& t) { out.Histogram(tier, t.read_latency); });
  out.Family("tier_write_seconds", "Writes, from submit to complete.", "histogram");
  each_tier([&](Label tier, const TierStats& t) { out.Histogram(tier, t.write_latency); });
}

}  // namespace

std::string OpenMetricsText(const StoreStats& stats) {
  Writer out;
  WriteHolds(stats, out);
  WriteTiers(stats, out);
  for (const auto& metric : kStoreMetrics) {
    const std::string name = NameOf(metric);
    out.Family(name, metric.help, TypeOf(metric.kind));
    out.Sample(Label{}, stats.*metric.value);
  }
  out.Family("lock_hold_seconds", "CPU time of holders of the store's lock, sampled.", "histogram");
  out.Histogram(Label{}, stats.lock_hold);
  return std::move(out).Take();
}

}  // namespace holdfast
