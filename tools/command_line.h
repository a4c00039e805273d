// The command line of `holdfast`: subcommands, exit codes, and errors that say what would be right.
//
// A subcommand is one file with one function that adds it to the app and, when the command line
// names it, sets what is to run:
//
//   void AddReplayCommand(CLI::App& app, CommandRun* run);
//
// Threading: thread-confined.
#pragma once

#include <functional>
#include <string_view>

#include "kvstore/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): not ours
class App;
}

namespace holdfast::tools {

enum ExitCode : int {
  kExitOk = 0,
  kExitWrongByte = 1,
  kExitUsage = 2,     // the command line, or what a file holds
  kExitFailed = 3,    // the system, or the store
  kExitSignal = 128,  // and the number of the signal, as a shell counts
};

using CommandRun = std::function<int()>;

// Parses, answers --help and --version, and runs what a subcommand has put into `run`.
int RunCommandLine(CLI::App& app, int argc, const char* const* argv, const CommandRun& run);

// Prints "holdfast: <message>" to stderr and answers the exit code; without one given, that of
// usage for an invalid argument, of a failure otherwise. A pipe whose reader went is answered as
// the shell would see SIGPIPE, without a word.
int ReportError(const Status& status);
int ReportError(const Status& status, ExitCode exit_code);

}  // namespace holdfast::tools
