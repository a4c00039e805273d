#include "bench/tiers_bench.h"

#include "bench/tiers_context.h"

namespace holdfast::bench {

Status TiersContext::Begin(const Row& row) const {
  if (options.stop && options.stop()) return {StatusCode::kCancelled, "interrupted"};
  if (!progress) return {};
  std::string line = row.tier + " " + row.op;
  if (row.payload_bytes > 0) line += ", " + std::to_string(row.payload_bytes >> 10) + " KiB";
  if (row.in_flight > 1) line += ", " + std::to_string(row.in_flight) + " in flight";
  progress(line);
  return {};
}

Result<TiersBenchReport> RunTiersBench(const TiersBenchOptions& options,
                                       const ShowProgress& progress) {
  TiersBenchReport report;
  const TiersContext context{options, progress, report};
  struct Part {
    bool on;
    Status (*run)(const TiersContext&);
  };
  const Part parts[] = {
      {options.ddr, BenchDdr},           {options.flash, BenchFlashReads},
      {options.flash, BenchFlashWrites}, {options.flash, BenchBesideSpill},
      {options.disk, BenchDisk},         {options.index, BenchLookups},
      {options.index, BenchLocks},       {options.disk || options.flash, BenchReopen}};
  for (const Part& part : parts) {
    if (!part.on) continue;
    Status status = part.run(context);
    if (status.code() == StatusCode::kCancelled) {
      report.notes.emplace_back("interrupted: later rows are missing");
      break;
    }
    HF_RETURN_IF_ERROR(std::move(status));
  }
  return report;
}

}  // namespace holdfast::bench
