// holdfast: the command. Each subcommand is a file of its own and registers itself here.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "tools/bench_command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/replay_command.h"

namespace {

int Run(int argc, char** argv) {
  holdfast::tools::PrepareStandardStreams();
  CLI::App app(
      "Holdfast: a tiered KV-cache store. This command replays cache-hit traces through it\nand "
      "measures its tiers.",
      "holdfast");
  app.set_version_flag("--version", "holdfast " HOLDFAST_VERSION);
  app.footer("Help for a command: holdfast replay --help, holdfast bench tiers --help");
  holdfast::tools::CommandRun run;
  holdfast::tools::AddReplayCommand(app, &run);
  holdfast::tools::AddBenchCommand(app, &run);
  return holdfast::tools::RunCommandLine(app, argc, argv, run);
}

}  // namespace

// The libraries of the command line and of JSON throw; what gets here is out of memory or a bug.
int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs("holdfast: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
  } catch (...) {
    std::fputs("holdfast: unknown failure\n", stderr);
  }
  return 3;
}
