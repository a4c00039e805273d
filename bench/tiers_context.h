// What the files that measure one tier share. RunTiersBench calls them in order.
//
// Threading: thread-confined.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "bench/tiers_bench.h"

namespace holdfast::bench {

struct TiersContext {
  const TiersBenchOptions& options;
  const ShowProgress& progress;
  TiersBenchReport& report;

  // Ahead of each cell: shows it. kCancelled when the run is to stop.
  Status Begin(const Row& row) const;
  void Add(Row row) const { report.rows.push_back(std::move(row)); }
  std::string Path(std::string_view name) const {
    return options.directory + "/" + std::string(name);
  }
};

Status BenchDdr(const TiersContext& context);
Status BenchFlashReads(const TiersContext& context);
Status BenchFlashWrites(const TiersContext& context);
Status BenchBesideSpill(const TiersContext& context);
Status BenchDisk(const TiersContext& context);
Status BenchLookups(const TiersContext& context);
Status BenchLocks(const TiersContext& context);
Status BenchReopen(const TiersContext& context);

// The payload whose figures the wanted values are stated for.
inline constexpr uint64_t kWantedPayloadBytes = 2u << 20;

}  // namespace holdfast::bench
