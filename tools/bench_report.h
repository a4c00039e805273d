// What `holdfast bench` prints: a table for people, and JSON with the machine in its header.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "bench/tiers_bench.h"

namespace holdfast::tools {

// What the figures hold for.
struct BenchMachine {
  std::string commit;  // empty: not built from a repository
  std::string cpu;
  unsigned cpus = 0;
  std::string kernel;
  std::string file_system;
  std::string huge_pages;
};
BenchMachine DescribeMachine(const std::string& directory);

std::string BenchText(const bench::TiersBenchReport& report, const BenchMachine& machine);
std::string BenchJson(const bench::TiersBenchReport& report, const BenchMachine& machine,
                      const bench::TiersBenchOptions& options);

}  // namespace holdfast::tools
