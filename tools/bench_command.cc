#include "tools/bench_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/tiers_bench.h"
#include "kvstore/types.h"
#include "tools/bench_report.h"
#include "tools/console.h"
#include "tools/files.h"
#include "tools/units.h"

namespace holdfast::tools {
namespace {

using bench::TiersBenchOptions;

constexpr const char* kTiersDescription =
    "Measures each tier beside the machine's own limit, both sides alternating in one run: memcpy\n"
    "for ddr, a plain io_uring loop for flash, RocksDB alone for disk; and look-ups.";

constexpr const char* kTiersFooter = R"(
Every cell compares every byte of its working set, outside the measured time. Figures of one run
vary with what else the machine does: look at the ratios and their spread.

Needs about 12 GiB at --dir for the time of the run, and 3 GiB of memory (--large: 5).

Exit codes: 0 measured, whatever was seen; 1 a wrong byte came back; 2 the command line is wrong;
3 the system or the store failed; 129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM: what there was is
printed.)";

// What the command line says, as text.
struct RawOptions {
  std::string directory, payload = "256KiB,1MiB,2MiB,4MiB", in_flight = "1,8";
  std::string tiers = "ddr,flash,disk,index";
  std::string rounds = "5", seconds = "0.25", size = "1GiB", write_size = "512MiB";
  std::string reopen = "4GiB", seed = "1", output;
  bool large = false, quick = false, json = false;
};

void AddOptions(CLI::App& command, RawOptions& raw) {
  const auto add = [&command](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->capture_default_str();
  };
  add("--dir", raw.directory,
      "where flash and disk lie; by default a fresh directory here, removed afterwards");
  add("--payload", raw.payload, "SIZEs of a block, with commas");
  add("--in-flight", raw.in_flight, "how many blocks at once, with commas");
  add("--tiers", raw.tiers, "which of ddr, flash, disk, index, with commas");
  add("--rounds", raw.rounds, "how often each side of a cell runs");
  add("--seconds", raw.seconds, "that one side of one round takes, where time decides");
  add("--size", raw.size, "SIZE of the working set that is read");
  add("--write-size", raw.write_size, "SIZE that one side of one round writes");
  add("--reopen", raw.reopen, "SIZE of a tier that is reopened");
  add("--seed", raw.seed, "of keys and of the order of reads");
  add("--output", raw.output, "FILE that gets the JSON, whole or not at all");
  command.add_flag("--large", raw.large, "look-ups among 10,000,000 blocks too");
  command.add_flag("--quick", raw.quick, "an instant of each cell: shows that it works");
  command.add_flag("--json", raw.json, "JSON instead of tables");
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

Result<uint64_t> ParseBytesIn(std::string_view option, const std::string& text, uint64_t least,
                              uint64_t most) {
  HF_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(option, text));
  if (bytes >= least && bytes <= most) return bytes;
  return BadValue(option, text, FormatBytes(least) + " to " + FormatBytes(most));
}

Result<uint32_t> ParseSmall(std::string_view option, const std::string& text, uint32_t most) {
  const Result<uint64_t> count = ParseCount(option, text, 1);
  if (count.has_value() && *count <= most) return static_cast<uint32_t>(*count);
  return BadValue(option, text, "a whole number from 1 to " + std::to_string(most));
}

Status ParseTiers(const std::string& text, TiersBenchOptions& options) {
  options.ddr = options.flash = options.disk = options.index = false;
  for (const std::string& tier : Split(text)) {
    bool* const on = tier == "ddr"     ? &options.ddr
                     : tier == "flash" ? &options.flash
                     : tier == "disk"  ? &options.disk
                     : tier == "index" ? &options.index
                                       : nullptr;
    if (on == nullptr) return BadValue("--tiers", tier, "of ddr, flash, disk, index, with commas");
    *on = true;
  }
  return {};
}

void MakeQuick(TiersBenchOptions& options) {
  options.rounds = 1;
  options.cell = std::chrono::milliseconds(10);
  options.size_bytes = 32ull << 20;
  options.write_bytes = 32ull << 20;
  options.reopen_bytes = 64ull << 20;
  options.lookup_blocks = 50'000;
}

Result<TiersBenchOptions> ParseOptions(const RawOptions& raw) {
  constexpr uint64_t kMiB = 1ull << 20;
  constexpr uint64_t kBytesMax = 1ull << 40;
  constexpr double kSecondsMax = 60;
  constexpr uint32_t kInFlightMax = 16, kRoundsMax = 1000;
  TiersBenchOptions options;
  options.payload_bytes.clear();
  for (const std::string& text : Split(raw.payload)) {
    HF_ASSIGN_OR_RETURN(const uint64_t bytes,
                        ParseBytesIn("--payload", text, kPageBytes, 16 * kMiB));
    if (bytes % kPageBytes != 0) return BadValue("--payload", text, "a multiple of 4096");
    options.payload_bytes.push_back(bytes);
  }
  options.in_flight.clear();
  for (const std::string& text : Split(raw.in_flight)) {
    HF_ASSIGN_OR_RETURN(const uint32_t depth, ParseSmall("--in-flight", text, kInFlightMax));
    options.in_flight.push_back(depth);
  }
  HF_RETURN_IF_ERROR(ParseTiers(raw.tiers, options));
  HF_ASSIGN_OR_RETURN(options.rounds, ParseSmall("--rounds", raw.rounds, kRoundsMax));
  HF_ASSIGN_OR_RETURN(const double seconds, ParseFactor("--seconds", raw.seconds));
  if (seconds <= 0 || seconds > kSecondsMax) {
    return BadValue("--seconds", raw.seconds, "above 0, at most 60");
  }
  options.cell = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  HF_ASSIGN_OR_RETURN(options.size_bytes, ParseBytesIn("--size", raw.size, 32 * kMiB, kBytesMax));
  HF_ASSIGN_OR_RETURN(options.write_bytes,
                      ParseBytesIn("--write-size", raw.write_size, 32 * kMiB, kBytesMax));
  HF_ASSIGN_OR_RETURN(options.reopen_bytes,
                      ParseBytesIn("--reopen", raw.reopen, 64 * kMiB, kBytesMax));
  HF_ASSIGN_OR_RETURN(options.seed, ParseCount("--seed", raw.seed));
  options.large = raw.large;
  if (raw.quick) MakeQuick(options);
  return options;
}

Status Print(const RawOptions& raw, std::optional<OutputFile>& output,
             const TiersBenchOptions& options, const bench::TiersBenchReport& report) {
  const BenchMachine machine = DescribeMachine(options.directory);
  const std::string json = BenchJson(report, machine, options);
  return WriteResults(raw.json ? json : BenchText(report, machine), output, json);
}

Result<int> RunTiers(const RawOptions& raw) {
  HF_ASSIGN_OR_RETURN(TiersBenchOptions options, ParseOptions(raw));
  std::optional<OutputFile> output;
  if (!raw.output.empty()) {
    HF_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(raw.output));
    output.emplace(std::move(file));
  }
  Interrupt interrupt;
  DataDirectory directory;
  if (raw.directory.empty()) {
    HF_ASSIGN_OR_RETURN(directory, DataDirectory::Fresh());
  } else {
    HF_ASSIGN_OR_RETURN(directory, DataDirectory::Named(raw.directory));
  }
  options.directory = directory.path();
  if (directory.temporary()) interrupt.SetLeftBehind(directory.path());
  options.stop = [&interrupt] { return interrupt.requested(); };
  Progress progress;
  Result<bench::TiersBenchReport> report =
      RunTiersBench(options, [&progress](std::string_view line) { progress.Show(line); });
  progress.Clear();
  if (!report.has_value()) {
    return ReportError(report.error(), report.error().code() == StatusCode::kDataLoss
                                           ? kExitWrongByte
                                           : kExitFailed);
  }
  if (!raw.directory.empty()) directory.Keep();
  if (directory.InMemory()) {
    report->notes.push_back(directory.path() +
                            " is on a tmpfs: flash and disk are memory here; choose --dir on a "
                            "device");
  }
  HF_RETURN_IF_ERROR(Print(raw, output, options, *report));
  return interrupt.requested() ? kExitSignal + interrupt.signal() : int{kExitOk};
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandRun* run) {
  CLI::App* const command = app.add_subcommand("bench", "Measures this store on this machine.");
  command->require_subcommand(1);
  CLI::App* const tiers = command->add_subcommand("tiers", kTiersDescription);
  tiers->footer(kTiersFooter);
  const auto raw = std::make_shared<RawOptions>();
  AddOptions(*tiers, *raw);
  tiers->callback([raw, run] {
    *run = [raw] {
      const Result<int> exit_code = RunTiers(*raw);
      return exit_code.has_value() ? *exit_code : ReportError(exit_code.error());
    };
  });
}

}  // namespace holdfast::tools
