// The JSON of a replay. Keys are stable: units last, counts without one.
#include <array>
#include <chrono>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tools/replay_report.h"
#include "tools/units.h"

namespace holdfast::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kTierNames = {"hbm", "ddr", "flash", "disk"};

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double Micros(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

Json TierJson(const ReplayReport& report, size_t i) {
  const TierStats& tier = report.result.stats.tiers[i];
  const ReplayCounts& counts = report.result.counts;
  return {{"name", kTierNames[i]},
          {"on", tier.on},
          {"available", tier.available},
          {"engine", tier.engine},
          {"capacity_bytes", tier.capacity_bytes},
          {"used_bytes", tier.used_bytes},
          {"copies", tier.copies},
          {"hits", tier.hits},
          {"hit_ratio", Ratio(tier.hits, counts.references)},
          {"hit_bytes", tier.hit_bytes},
          {"verified_blocks", VerifiedFrom(report, i)},
          {"promoted", tier.promoted},
          {"spilled_in", tier.spilled_in},
          {"put_in", tier.put_in},
          {"rewritten", tier.rewritten},
          {"dropped", tier.dropped},
          {"expired", tier.expired},
          {"orphaned", tier.orphaned},
          {"read_bytes", tier.read_bytes},
          {"written_bytes", tier.written_bytes},
          {"payload_written_bytes", tier.payload_written_bytes},
          {"write_amplification", Ratio(tier.written_bytes, tier.payload_written_bytes)},
          {"fetch_latency_p50_us", Micros(tier.read_latency.Quantile(0.5))},
          {"fetch_latency_p99_us", Micros(tier.read_latency.Quantile(0.99))},
          {"fetch_latency_max_us", Micros(tier.read_latency.max())},
          {"undurable_bytes", tier.undurable_bytes},
          {"corrupt", tier.corrupt},
          {"failed", tier.failed},
          {"last_errno", tier.last_errno}};
}

Json HoldsJson(const ReplayReport& report) {
  Json holds = Json::array();
  for (size_t i = 0; i < report.plan.holds.size(); ++i) {
    const PlannedHold& planned = report.plan.holds[i];
    const HoldCounts& counts = report.result.counts.holds[i];
    Json hold = {
        {"name", planned.name},        {"ttl_seconds", Seconds(planned.hold.ttl)},
        {"requests", counts.requests}, {"references", counts.references},
        {"hits", counts.hits},         {"hit_ratio", Ratio(counts.hits, counts.references)}};
    for (const HoldStats& stats : report.result.stats.holds) {
      if (stats.name != planned.name) continue;
      hold.update({{"budget_bytes", stats.budget_bytes},
                   {"granted_bytes", stats.granted_bytes},
                   {"granted", stats.granted},
                   {"downgraded", stats.downgraded},
                   {"broken", stats.broken},
                   {"expired", stats.expired}});
    }
    holds.push_back(std::move(hold));
  }
  return holds;
}

Json ItemsJson(const std::array<uint64_t, kItemKinds>& items) {
  Json counts = Json::object();
  for (size_t i = 1; i < kItemKinds; ++i) {  // none is left pending
    counts[std::string(ToString(static_cast<Item>(i)))] = items[i];
  }
  return counts;
}

Json InputJson(const ReplayReport& report) {
  const ReplayOptions& options = report.options;
  return {{"trace", options.trace},
          {"tail", options.tail == Tail::kKeep ? "keep" : "drop"},
          {"block_tokens", options.block_tokens},
          {"payload_bytes", options.payload_bytes},
          {"bytes", options.bytes ? "real" : "none"},
          {"hold", options.hold.text},
          {"placement", options.place_all ? "all" : "default"},
          {"policy", options.policy},
          {"clock", options.hold_clock_of_trace ? "trace" : "real"},
          {"speed", options.speed},
          {"concurrency", options.concurrency},
          {"seed", options.seed},
          {"directory", report.plan.store.directory},
          {"requests", report.result.counts.requests},
          {"references", report.result.counts.references},
          {"distinct_blocks", report.workload.distinct()},
          {"input_tokens", report.input_tokens},
          {"entries_at_open", report.result.entries_at_open}};
}

Json CeilingJson(const ReplayReport& report) {
  Json ceiling = {{"hits", report.ceiling.blocks}, {"hit_tokens", report.ceiling.tokens}};
  if (report.ttl_ceiling) {
    ceiling["ttl_hits"] = report.ttl_ceiling->blocks;
    ceiling["ttl_hit_tokens"] = report.ttl_ceiling->tokens;
  }
  return ceiling;
}

Json HitsJson(const ReplayReport& report) {
  const ReplayCounts& counts = report.result.counts;
  Json json = {{"hits", counts.hits},
               {"hit_ratio", Ratio(counts.hits, counts.references)},
               {"hit_tokens", counts.hit_tokens},
               {"ceiling", CeilingJson(report)},
               {"verified_blocks", counts.verified_blocks},
               {"wrong_bytes", counts.wrong ? counts.wrong->count : 0}};
  if (counts.wrong) {
    json["wrong"] = {{"id", counts.wrong->id},
                     {"key", {counts.wrong->key.hi, counts.wrong->key.lo}},
                     {"tier", ToString(counts.wrong->tier)},
                     {"offset_bytes", counts.wrong->offset}};
  }
  return json;
}

Json StoreJson(const ReplayReport& report) {
  const StoreStats& stats = report.result.stats;
  const ReplayCounts& counts = report.result.counts;
  Json json = {{"fetch_items", ItemsJson(counts.fetch_items)},
               {"put_items", ItemsJson(counts.put_items)},
               {"declined",
                {{"admission", stats.declined_admission},
                 {"busy", stats.declined_busy},
                 {"orphan", stats.declined_orphan},
                 {"index_full", stats.declined_index},
                 {"not_offered", counts.puts_left_out},
                 {"spills_refused", stats.spills_refused}}},
               {"matches_cut", stats.matches_cut},
               {"shared_reads", stats.shared_reads},
               {"bounced", stats.bounced},
               {"entries", stats.entries},
               {"entries_max", stats.entries_max},
               {"memory_bytes", stats.memory_bytes},
               {"meta_undurable", stats.meta_undurable},
               {"lock_hold_p9999_us", Micros(stats.lock_hold.Quantile(0.9999))},
               {"lock_hold_max_us", Micros(stats.lock_hold.max())}};
  if (report.result.drain) {
    json["drain_seconds"] = report.result.drain->seconds;
    json["drain_left"] = report.result.drain->left;
  }
  return json;
}

Json SpeedJson(const ReplayReport& report) {
  const ReplayCounts& counts = report.result.counts;
  const double seconds = report.result.replay_seconds;
  const auto rate = [seconds](uint64_t count) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  };
  return {{"parse_seconds", report.workload.parse_seconds()},
          {"hash_seconds", report.result.hash_seconds},
          {"replay_seconds", seconds},
          {"requests_per_second", rate(counts.requests)},
          {"references_per_second", rate(counts.references)},
          {"fetched_bytes", counts.fetched_bytes},
          {"put_bytes", counts.put_bytes},
          {"bytes_per_second", rate(counts.fetched_bytes + counts.put_bytes)}};
}

}  // namespace

std::string ReportJson(const ReplayReport& report) {
  Json json = {{"version", HOLDFAST_VERSION}};
  json.update(InputJson(report));
  json.update(HitsJson(report));
  Json tiers = Json::array();
  for (size_t i = 0; i < kTierNames.size(); ++i) tiers.push_back(TierJson(report, i));
  json["tiers"] = std::move(tiers);
  json["holds"] = HoldsJson(report);
  json.update(StoreJson(report));
  json.update(SpeedJson(report));
  json["interrupted"] = report.result.interrupted;
  json["notes"] = report.plan.notes;
  json["warnings"] = report.result.warnings;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace holdfast::tools
