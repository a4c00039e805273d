// TiersBench: each tier of a store beside the machine's own limit, alternating in one run.
//
// Not responsible for printing: `holdfast bench tiers` turns the rows into a table and JSON.
//
//   TiersBenchOptions options = {.directory = "/data/bench", .payload_bytes = {2 << 20}};
//   Result<TiersBenchReport> report = RunTiersBench(options, [](std::string_view line) {...});
//
// Every cell reads its whole working set back once, outside the measured time, and compares every
// byte. Threading: thread-confined. Errors: kDataLoss: a wrong byte came back; kCancelled: `stop`
// said so; others from the store and the system.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sample.h"
#include "kvstore/status.h"

namespace holdfast::bench {

struct TiersBenchOptions {
  std::string directory;  // exists; what is made there is removed
  std::vector<uint64_t> payload_bytes = {256 << 10, 1 << 20, 2 << 20, 4 << 20};
  std::vector<uint32_t> in_flight = {1, 8};
  bool ddr = true, flash = true, disk = true, index = true;
  bool large = false;  // look-ups among 10,000,000 blocks too
  uint32_t rounds = 5;
  Duration cell = std::chrono::milliseconds(250);  // one side of one round
  uint64_t size_bytes = 1ull << 30;                // working set that is read
  uint64_t write_bytes = 512ull << 20;             // one side of one round of writes
  uint64_t reopen_bytes = 4ull << 30;
  uint64_t lookup_blocks = 1'000'000;
  uint64_t seed = 1;
  std::function<bool()> stop;  // asked between cells; may be empty
};

// A figure without another side. Its name ends with the unit.
struct Figure {
  std::string name;
  double value = 0;
};

// What the figure should be, beside what it is.
struct Want {
  std::string what;
  bool at_least = true;  // else: at most
  double wanted = 0;
  double seen = 0;
  bool met() const noexcept { return at_least ? seen >= wanted : seen <= wanted; }
};

struct Row {
  std::string tier;     // "ddr", "flash", "disk", "index"
  std::string op;       // "read", "write", "view", ...
  std::string against;  // the other side; empty: none
  uint32_t in_flight = 1;
  uint64_t payload_bytes = 0;  // 0: no payload moves
  std::optional<Comparison> compared;
  std::vector<Figure> figures;
  std::vector<Want> wants;
};

struct TiersBenchReport {
  std::vector<Row> rows;
  std::string flash_engine, disk_engine, ddr_engine;  // those that ran
  std::vector<std::string> notes;
};

using ShowProgress = std::function<void(std::string_view line)>;
Result<TiersBenchReport> RunTiersBench(const TiersBenchOptions& options,
                                       const ShowProgress& progress);

}  // namespace holdfast::bench
