#include "tools/replay_report.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "kvstore/types.h"
#include "tools/table.h"
#include "tools/units.h"

namespace holdfast::tools {
namespace {

std::string Amplification(const TierStats& tier) {
  if (tier.payload_written_bytes == 0) return "-";
  return FormatDecimal(Ratio(tier.written_bytes, tier.payload_written_bytes), 3);
}

std::string Latency(const TierStats& tier, double quantile) {
  return tier.read_latency.count() == 0 ? "-"
                                        : FormatDuration(tier.read_latency.Quantile(quantile));
}

std::vector<std::string> TierRow(const ReplayReport& report, size_t i) {
  constexpr std::array<std::string_view, 4> kNames = {"hbm", "ddr", "flash", "disk"};
  const TierStats& tier = report.result.stats.tiers[i];
  std::vector<std::string> row = {std::string(kNames[i])};
  if (!tier.on) {
    row.insert(row.end(), {"off", "", "", "", "", "", "", "", "", "", "", "", "", "", ""});
    return row;
  }
  row.insert(
      row.end(),
      {tier.engine, FormatBytes(tier.capacity_bytes), FormatBytes(tier.used_bytes),
       FormatCount(tier.hits), FormatShare(Ratio(tier.hits, report.result.counts.references)),
       FormatCount(VerifiedFrom(report, i)), FormatCount(tier.promoted),
       FormatCount(tier.spilled_in), FormatCount(tier.dropped), FormatCount(tier.expired),
       FormatBytes(tier.read_bytes), FormatBytes(tier.written_bytes), Amplification(tier),
       Latency(tier, 0.5), Latency(tier, 0.99)});
  return row;
}

std::string TierTable(const ReplayReport& report) {
  Table table({"tier", "engine", "capacity", "used", "hits", "hit ratio", "verified", "promoted",
               "spilled in", "dropped", "expired", "read", "written", "write ampl", "fetch p50",
               "fetch p99"});
  for (size_t i = 0; i < report.result.stats.tiers.size(); ++i) table.Add(TierRow(report, i));
  const ReplayCounts& counts = report.result.counts;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  for (const TierStats& tier : report.result.stats.tiers) {
    read_bytes += tier.read_bytes;
    written_bytes += tier.written_bytes;
  }
  table.Add({"total", "", "", "", FormatCount(counts.hits),
             FormatShare(Ratio(counts.hits, counts.references)),
             FormatCount(counts.verified_blocks), "", "", "", "", FormatBytes(read_bytes),
             FormatBytes(written_bytes), "", "", ""});
  return table.ToString();
}

std::string HoldTable(const ReplayReport& report) {
  Table table({"hold", "requests", "references", "hits", "hit ratio", "budget", "granted",
               "downgraded", "broken", "expired"});
  for (size_t i = 0; i < report.plan.holds.size(); ++i) {
    const PlannedHold& planned = report.plan.holds[i];
    const HoldCounts& counts = report.result.counts.holds[i];
    HoldStats stats;
    for (const HoldStats& candidate : report.result.stats.holds) {
      if (candidate.name == planned.name) stats = candidate;
    }
    const bool held = planned.hold.ttl > Duration::zero();
    const auto of_class = [held](std::string text) { return held ? std::move(text) : "-"; };
    table.Add({planned.name, FormatCount(counts.requests), FormatCount(counts.references),
               FormatCount(counts.hits), FormatShare(Ratio(counts.hits, counts.references)),
               of_class(FormatBytes(stats.budget_bytes)), of_class(FormatCount(stats.granted)),
               of_class(FormatCount(stats.downgraded)), of_class(FormatCount(stats.broken)),
               of_class(FormatCount(stats.expired))});
  }
  return table.ToString();
}

// "name n, name n" of those above zero, or "none".
std::string CountList(std::initializer_list<std::pair<std::string_view, uint64_t>> counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    if (count == 0) continue;
    if (!text.empty()) text += ", ";
    text.append(name).append(" ").append(FormatCount(count));
  }
  return text.empty() ? "none" : text;
}

uint64_t FetchItems(const ReplayReport& report, Item item) {
  return report.result.counts.fetch_items[static_cast<size_t>(item)];
}

std::string Line(std::string_view name, const std::string& text) {
  constexpr size_t kNameWidth = 13;
  std::string line(name);
  line.resize(kNameWidth, ' ');
  return line + text + '\n';
}

std::string InputLines(const ReplayReport& report) {
  const ReplayOptions& options = report.options;
  const ReplayCounts& counts = report.result.counts;
  std::string run = "payload " + FormatBytes(options.payload_bytes) +
                    (options.bytes ? "" : " (no bytes are kept)") + ", hold " + options.hold.text +
                    ", policy " + options.policy + ", hold clock " +
                    (options.hold_clock_of_trace ? "trace" : "real") + ", speed " +
                    (options.speed > 0 ? FormatDecimal(options.speed, 2) : "unbounded") +
                    ", concurrency " + std::to_string(options.concurrency) + ", seed " +
                    std::to_string(options.seed);
  std::string text =
      Line("trace", options.trace + ": " + FormatCount(counts.requests) + " requests, " +
                        FormatCount(counts.references) + " block references, " +
                        FormatCount(report.workload.distinct()) + " distinct, " +
                        FormatCount(report.input_tokens) + " tokens");
  text += Line("run", run);
  if (!report.plan.store.directory.empty()) text += Line("directory", report.plan.store.directory);
  if (report.result.entries_at_open > 0) {
    text += Line("warm", FormatCount(report.result.entries_at_open) + " blocks were there at open");
  }
  return text;
}

std::string HitLines(const ReplayReport& report) {
  const ReplayCounts& counts = report.result.counts;
  const auto hits_of = [&](const eviction::HitCount& hits) {
    return FormatCount(hits.blocks) + " blocks (" +
           FormatShare(Ratio(hits.blocks, counts.references)) + "), " + FormatCount(hits.tokens) +
           " tokens (" + FormatShare(Ratio(hits.tokens, report.input_tokens)) + ")";
  };
  std::string text = Line("hits", hits_of({counts.hits, counts.hit_tokens}));
  text += Line("ceiling", hits_of(report.ceiling) + " without limits");
  if (report.ttl_ceiling) {
    text += Line("", hits_of(*report.ttl_ceiling) + " without limits but the hold's ttl");
  }
  text += Line("verified", report.options.bytes
                               ? FormatCount(counts.verified_blocks) +
                                     " blocks, every byte; wrong bytes " +
                                     FormatCount(counts.wrong ? counts.wrong->count : 0)
                               : "nothing: no bytes were kept");
  text += Line("lost", CountList({{"missed after a match", FetchItems(report, Item::kMiss)},
                                  {"late", FetchItems(report, Item::kLate)},
                                  {"corrupt", FetchItems(report, Item::kCorrupt)},
                                  {"failed", FetchItems(report, Item::kFailed)},
                                  {"matches cut by leases", report.result.stats.matches_cut}}));
  return text;
}

std::string StoreLines(const ReplayReport& report) {
  const StoreStats& stats = report.result.stats;
  std::string text = Line(
      "declined", CountList({{"admission", stats.declined_admission},
                             {"busy", stats.declined_busy},
                             {"orphan", stats.declined_orphan},
                             {"index full", stats.declined_index},
                             {"not offered after a decline", report.result.counts.puts_left_out},
                             {"spills refused", stats.spills_refused}}));
  std::string undurable;
  for (const TierStats& tier : stats.tiers) {
    if (!tier.on || tier.undurable_bytes == 0) continue;
    undurable += (undurable.empty() ? "" : ", ") + FormatBytes(tier.undurable_bytes) + " in " +
                 std::string(ToString(tier.where));
  }
  text += Line("not durable", (undurable.empty() ? "nothing written" : undurable) + "; " +
                                  FormatCount(stats.meta_undurable) + " records");
  if (report.result.drain) {
    const DrainResult& drain = *report.result.drain;
    text += Line("drain", FormatDecimal(drain.seconds, 2) +
                              " s, left: " + (drain.left.empty() ? "nothing" : drain.left));
  }
  return text;
}

std::string SpeedLine(const ReplayReport& report) {
  const ReplayCounts& counts = report.result.counts;
  const double seconds = std::max(report.result.replay_seconds, 1e-9);
  const auto rate = [seconds](uint64_t count) {
    return FormatCount(static_cast<uint64_t>(static_cast<double>(count) / seconds));
  };
  std::string text =
      rate(counts.requests) + " requests/s, " + rate(counts.references) + " references/s";
  if (report.options.bytes) {
    const auto gigabytes = [seconds](uint64_t bytes) {
      return FormatDecimal(static_cast<double>(bytes) / seconds / 1e9, 2) + " GB/s";
    };
    text += ", fetched and checked " + gigabytes(counts.fetched_bytes) + ", put " +
            gigabytes(counts.put_bytes);
  }
  return Line("speed", text) +
         Line("time", "parse " + FormatDecimal(report.workload.parse_seconds(), 3) + " s, hash " +
                          FormatDecimal(report.result.hash_seconds, 3) + " s, replay " +
                          FormatDecimal(seconds, 3) + " s");
}

std::optional<Duration> OnlyTtl(const ReplayPlan& plan) {
  if (plan.holds.size() != 1 || plan.holds[0].hold.ttl == Duration::zero()) return std::nullopt;
  return plan.holds[0].hold.ttl;
}

}  // namespace

ReplayReport MakeReport(const ReplayOptions& options, const Workload& workload,
                        const ReplayPlan& plan, const ReplayResult& result) {
  ReplayReport report = {.options = options, .workload = workload, .plan = plan, .result = result};
  const size_t requests = result.counts.requests;
  const bool whole = requests == workload.requests();
  const eviction::RequestLog part = whole ? eviction::RequestLog() : workload.Log(requests);
  const eviction::RequestLog& log = whole ? workload.log() : part;
  report.input_tokens = log.input_tokens();
  report.ceiling = eviction::UnlimitedHits(log, workload.block_tokens());
  if (const std::optional<Duration> ttl = OnlyTtl(plan)) {
    report.ttl_ceiling = eviction::UnlimitedHits(
        log, workload.block_tokens(),
        std::chrono::duration_cast<std::chrono::milliseconds>(*ttl).count());
  }
  return report;
}

uint64_t VerifiedFrom(const ReplayReport& report, size_t tier) {
  const ReplayCounts& counts = report.result.counts;
  if (!report.options.bytes) return 0;
  // A run that ended early did not check the last blocks that the store had served.
  if (counts.wrong) return counts.verified[static_cast<size_t>(Where::kHbm) + tier];
  // Otherwise each block that came back was checked, and the store knows where each came from.
  return report.result.stats.tiers[tier].hits;
}

std::string WrongByteLine(const WrongByte& wrong) {
  std::array<char, 33> key{};
  std::snprintf(key.data(), key.size(), "%016llx%016llx",
                static_cast<unsigned long long>(wrong.key.hi),
                static_cast<unsigned long long>(wrong.key.lo));
  return "wrong byte: key " + std::string(key.data()) + " (id " + std::to_string(wrong.id) +
         " of the trace), tier " + std::string(ToString(wrong.tier)) + ", offset " +
         std::to_string(wrong.offset) + "; " + FormatCount(wrong.count) +
         " bytes of this block are wrong";
}

std::string ReportText(const ReplayReport& report) {
  std::string text = InputLines(report) + '\n' + TierTable(report) + '\n';
  text += HoldTable(report) + '\n';
  text += HitLines(report) + StoreLines(report) + SpeedLine(report);
  for (const std::string& note : report.plan.notes) text += Line("note", note);
  for (const std::string& warning : report.result.warnings) text += Line("store", warning);
  if (report.result.interrupted) text += Line("interrupted", "this is what there was until then");
  return text;
}

}  // namespace holdfast::tools
