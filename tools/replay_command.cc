#include "tools/replay_command.h"

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "tools/console.h"
#include "tools/files.h"
#include "tools/replay.h"
#include "tools/replay_options.h"
#include "tools/replay_plan.h"
#include "tools/replay_report.h"
#include "tools/units.h"
#include "tools/workload.h"

namespace holdfast::tools {
namespace {

constexpr std::string_view kDescription =
    "Replays a trace of prompts through a store. Each request finds the longest prefix that is\n"
    "there, fetches it, checks every byte of it, and puts the blocks that were missing.";

constexpr std::string_view kFooter = R"(
TRACE is a file of JSON lines in the Mooncake dialect (plain or gzip), '-' for standard input, or a
seeded generator: synthetic:conversation, synthetic:agent.

Sizes: 2MiB, 1.5GiB, 500MB, 10000b (blocks), 0 (off), unlimited (needs --bytes none).
Durations: 250ms, 90s, 5m, 1h, 1d.

Examples:
  holdfast replay conversation_trace.jsonl --hold 1h --ddr 2GiB --flash 8GiB --disk 32GiB
  holdfast replay synthetic:agent --requests 500 --hold mix --ddr 256MiB --flash 1GiB
  holdfast replay trace.jsonl.gz --bytes none --ddr unlimited --flash 0 --hold 300s --json
  zcat trace.gz | holdfast replay - --speed 10 --concurrency 4 --dir /data/holdfast

Exit codes: 0 fine; 1 a wrong byte came back; 2 the command line or the trace is wrong; 3 the system
or the store failed; 129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM: what there was is printed.)";

// What the command line says, as text. Its errors name option, value and what would be right.
struct RawOptions {
  std::string trace;
  std::string tail = "drop", block_tokens = "512", requests;
  std::array<std::string, 4> capacity = {"0", "1GiB", "4GiB", "0"};
  std::string directory, payload = "2MiB", bytes = "real";
  std::string hold = "none", placement = "default", policy = "lru", write_budget = "off";
  std::string io_engine = "auto";
  std::string clock = "trace", speed = "0", concurrency = "1", seed = "1";
  std::string output;
  bool keep = false, buffered = false, drain = false, json = false;
};

void AddOptions(CLI::App& command, RawOptions& raw) {
  const auto add = [&command](const char* name, std::string& value, const char* help) {
    return command.add_option(name, value, help)->capture_default_str();
  };
  command.add_option("TRACE", raw.trace, "what to replay")->required();
  const auto workload = {
      add("--tail", raw.tail, "keep|drop: the partial block at the end of a prompt"),
      add("--block-tokens", raw.block_tokens, "tokens that an id of the trace covers"),
      add("--requests", raw.requests, "the first N requests only"),
      add("--seed", raw.seed, "of generators, of --hold mix and of the store's choices")};
  for (CLI::Option* option : workload) option->group("Workload");
  const auto tiers = {
      add("--hbm", raw.capacity[0], "SIZE of device memory, here over the host device"),
      add("--ddr", raw.capacity[1], "SIZE of host memory"),
      add("--flash", raw.capacity[2], "SIZE of the flash log"),
      add("--disk", raw.capacity[3], "SIZE of the RocksDB tier"),
      add("--payload", raw.payload, "SIZE in bytes of a block"),
      add("--bytes", raw.bytes, "real|none: none is the same store over tiers without bytes"),
      add("--dir", raw.directory,
          "where flash and disk lie; kept, and warm the next time. "
          "Otherwise a fresh one below ./holdfast-data")};
  for (CLI::Option* option : tiers) option->group("Tiers");
  command.add_flag("--keep", raw.keep, "keep the fresh directory")->group("Tiers");
  command.add_flag("--buffered", raw.buffered, "flash through the page cache")->group("Tiers");
  add("--io-engine", raw.io_engine, "auto|uring|pread, of flash")->group("Tiers");
  const auto holds = {
      add("--hold", raw.hold, "none|5m|1h|mix, or a class of exactly this DURATION"),
      add("--placement", raw.placement,
          "default|all: all classes go to flash and disk when they leave the tier above"),
      add("--policy", raw.policy, "which block of ddr and hbm goes next"),
      add("--write-budget", raw.write_budget, "SIZE/day|off: flash and disk writes by choice")};
  for (CLI::Option* option : holds) option->group("Holds");
  const auto running = {
      add("--clock", raw.clock, "trace|real: the clock of holds"),
      add("--speed", raw.speed, "times the speed of the trace; 0: as fast as it goes"),
      add("--concurrency", raw.concurrency, "requests at a time"),
      add("--output", raw.output, "a FILE for the JSON, beside the table")};
  for (CLI::Option* option : running) option->group("Run");
  command.add_flag("--drain", raw.drain, "at the end, write what is held and dirty")->group("Run");
  command.add_flag("--json", raw.json, "JSON on stdout instead of the table")->group("Run");
}

// One of two words.
Result<bool> ParseEither(std::string_view option, const std::string& text, std::string_view yes,
                         std::string_view no) {
  if (text == yes) return true;
  if (text == no) return false;
  return BadValue(option, text, std::string(yes) + " or " + std::string(no));
}

Result<HoldChoice> ParseHold(const std::string& text) {
  HoldChoice hold = {.text = text};
  if (text == "none") return hold;
  if (text == "mix" || text == "5m" || text == "1h") {
    hold.kind = text == "mix"  ? HoldChoice::Kind::kMix
                : text == "5m" ? HoldChoice::Kind::k5m
                               : HoldChoice::Kind::k1h;
    return hold;
  }
  const Result<Duration> ttl = ParseDuration("--hold", text);
  constexpr Duration kTtlMax = std::chrono::hours(24 * 30);
  if (!ttl.has_value() || *ttl > kTtlMax) {
    return BadValue("--hold", text, "none, 5m, 1h, mix or a duration from 1ms to 30d such as 90s");
  }
  hold.kind = HoldChoice::Kind::kTtl;
  hold.ttl = *ttl;
  return hold;
}

Result<uint64_t> ParseWriteBudget(const std::string& text) {
  constexpr std::string_view kPerDay = "/day";
  constexpr std::string_view kForm = "off or a size a day, such as 100GiB/day";
  if (text == "off") return UINT64_MAX;
  if (!text.ends_with(kPerDay)) return BadValue("--write-budget", text, kForm);
  Result<uint64_t> bytes =
      ParseBytes("--write-budget", std::string_view(text).substr(0, text.size() - kPerDay.size()));
  if (!bytes.has_value() || *bytes == 0) return BadValue("--write-budget", text, kForm);
  return bytes;
}

Result<IoEngineKind> ParseIoEngine(const std::string& text) {
  if (text == "auto") return IoEngineKind::kAuto;
  if (text == "uring") return IoEngineKind::kUring;
  if (text == "pread") return IoEngineKind::kPread;
  return BadValue("--io-engine", text, "auto, uring or pread");
}

Result<uint32_t> ParseSmallCount(std::string_view option, std::string_view text, uint32_t most) {
  const Result<uint64_t> count = ParseCount(option, text, 1);
  if (!count.has_value() || *count > most) {
    return BadValue(option, text, "a whole number from 1 to " + std::to_string(most));
  }
  return static_cast<uint32_t>(*count);
}

Status ParseTiers(const RawOptions& raw, ReplayOptions& options) {
  constexpr std::array<std::string_view, 4> kNames = {"--hbm", "--ddr", "--flash", "--disk"};
  for (size_t tier = 0; tier < kNames.size(); ++tier) {
    HF_ASSIGN_OR_RETURN(options.capacity[tier], ParseSize(kNames[tier], raw.capacity[tier]));
  }
  HF_ASSIGN_OR_RETURN(options.payload_bytes, ParseBytes("--payload", raw.payload));
  HF_ASSIGN_OR_RETURN(options.bytes, ParseEither("--bytes", raw.bytes, "real", "none"));
  HF_ASSIGN_OR_RETURN(options.io_engine, ParseIoEngine(raw.io_engine));
  options.directory = raw.directory;
  options.keep_directory = raw.keep;
  options.buffered = raw.buffered;
  return {};
}

Result<ReplayOptions> ParseOptions(const RawOptions& raw) {
  constexpr uint32_t kConcurrencyMax = 256;
  ReplayOptions options;
  options.trace = raw.trace;
  HF_ASSIGN_OR_RETURN(const bool keep_tail, ParseEither("--tail", raw.tail, "keep", "drop"));
  options.tail = keep_tail ? Tail::kKeep : Tail::kDrop;
  HF_ASSIGN_OR_RETURN(options.block_tokens,
                      ParseSmallCount("--block-tokens", raw.block_tokens, 1u << 20));
  if (!raw.requests.empty()) {
    HF_ASSIGN_OR_RETURN(options.requests_max, ParseCount("--requests", raw.requests, 1));
  }
  HF_RETURN_IF_ERROR(ParseTiers(raw, options));
  HF_ASSIGN_OR_RETURN(options.hold, ParseHold(raw.hold));
  HF_ASSIGN_OR_RETURN(options.place_all,
                      ParseEither("--placement", raw.placement, "all", "default"));
  options.policy = raw.policy;
  HF_ASSIGN_OR_RETURN(options.write_bytes_per_day, ParseWriteBudget(raw.write_budget));
  HF_ASSIGN_OR_RETURN(options.hold_clock_of_trace,
                      ParseEither("--clock", raw.clock, "trace", "real"));
  HF_ASSIGN_OR_RETURN(options.speed, ParseFactor("--speed", raw.speed));
  HF_ASSIGN_OR_RETURN(options.concurrency,
                      ParseSmallCount("--concurrency", raw.concurrency, kConcurrencyMax));
  HF_ASSIGN_OR_RETURN(options.seed, ParseCount("--seed", raw.seed));
  options.drain = raw.drain;
  options.json = raw.json;
  options.output = raw.output;
  return options;
}

Result<DataDirectory> OpenDirectory(const ReplayOptions& options, ReplayPlan& plan) {
  if (!plan.needs_directory) return DataDirectory();
  DataDirectory directory;
  if (options.directory.empty()) {
    HF_ASSIGN_OR_RETURN(directory, DataDirectory::Fresh());
    if (options.keep_directory) directory.Keep();
  } else {
    HF_ASSIGN_OR_RETURN(directory, DataDirectory::Named(options.directory));
  }
  plan.store.directory = directory.path();
  if (directory.InMemory()) {
    plan.notes.push_back(
        directory.path() +
        " is on a tmpfs: flash and disk are memory here; choose --dir on a device");
  }
  return directory;
}

Status Print(const ReplayReport& report, std::optional<OutputFile>& output) {
  const bool wants_json = report.options.json || output;
  const std::string json = wants_json ? ReportJson(report) : std::string();
  return WriteResults(report.options.json ? json : ReportText(report), output, json);
}

Result<int> RunReplay(const RawOptions& raw) {
  HF_ASSIGN_OR_RETURN(const ReplayOptions options, ParseOptions(raw));
  std::optional<OutputFile> output;
  if (!options.output.empty()) {
    HF_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(options.output));
    output.emplace(std::move(file));
  }
  const Result<Workload> read = Workload::Read(options.trace, {.block_tokens = options.block_tokens,
                                                               .tail = options.tail,
                                                               .requests_max = options.requests_max,
                                                               .seed = options.seed});
  if (!read.has_value()) return ReportError(read.error(), kExitUsage);
  const Workload& workload = *read;
  HF_ASSIGN_OR_RETURN(ReplayPlan plan, PlanReplay(options, workload));
  Interrupt interrupt;
  HF_ASSIGN_OR_RETURN(DataDirectory directory, OpenDirectory(options, plan));
  if (directory.temporary()) interrupt.SetLeftBehind(directory.path());
  const auto opened = [&] {
    if (!options.directory.empty()) directory.Keep();
  };
  HF_ASSIGN_OR_RETURN(const ReplayResult result,
                      Replay(options, workload, plan, interrupt, opened));
  const Status printed = Print(MakeReport(options, workload, plan, result), output);
  const int exit_code = printed.ok() ? kExitOk : ReportError(printed);
  if (result.counts.wrong) {
    std::fprintf(stderr, "holdfast: %s\n", WrongByteLine(*result.counts.wrong).c_str());
    return static_cast<int>(kExitWrongByte);
  }
  if (exit_code == kExitOk && result.interrupted) return kExitSignal + interrupt.signal();
  return exit_code;
}

}  // namespace

void AddReplayCommand(CLI::App& app, CommandRun* run) {
  CLI::App* const command = app.add_subcommand("replay", std::string(kDescription));
  command->footer(std::string(kFooter));
  const auto raw = std::make_shared<RawOptions>();
  AddOptions(*command, *raw);
  command->callback([raw, run] {
    *run = [raw] {
      const Result<int> exit_code = RunReplay(*raw);
      return exit_code.has_value() ? *exit_code : ReportError(exit_code.error());
    };
  });
}

}  // namespace holdfast::tools
