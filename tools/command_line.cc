#include "tools/command_line.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/files.h"

namespace holdfast::tools {
namespace {

// Insertions, deletions and replacements between two words.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// "; did you mean 'replay'?", or nothing when no name is near.
std::string Suggestion(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kDistanceMax = 3;
  size_t best = kDistanceMax + 1;
  const std::string* nearest = nullptr;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(word, name);
    if (distance >= best || distance * 2 > name.size()) continue;
    best = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : "; did you mean '" + *nearest + "'?";
}

std::vector<std::string> SubcommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The innermost subcommand that the command line names.
const CLI::App& Innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : Innermost(*parsed.front());
}

std::string UnknownCommand(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = SubcommandNames(app);
  std::string known;
  for (const std::string& name : names) (known += known.empty() ? "" : ", ") += name;
  return "unknown command '" + word + "'" + Suggestion(word, names) + " (commands: " + known + ")";
}

// "holdfast bench tiers": as far as the command line names it.
std::string CommandPath(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return app.get_name() + (parsed.empty() ? "" : ' ' + CommandPath(*parsed.front()));
}

// " (see holdfast replay --help)"
std::string SeeHelp(const CLI::App& app) { return " (see " + CommandPath(app) + " --help)"; }

std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& inner = Innermost(app);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  std::string text = error.what();
  for (const CLI::Option* option : inner.get_options()) {
    if (option->count() > 1) text = option->get_name() + ": given twice; expected once";
  }
  if (!rest.empty()) {
    const std::string name = rest.front().substr(0, rest.front().find('='));
    text = "unknown " + std::string(name.starts_with('-') ? "option" : "argument") + " '" + name +
           "'" + Suggestion(name, OptionNames(inner));
  }
  return text + SeeHelp(app);
}

// An option with a value that has nothing in it; null when there is none.
const CLI::Option* EmptyOption(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) return option;
    }
  }
  return nullptr;
}

void PrintError(std::string_view text) {
  std::fprintf(stderr, "holdfast: %.*s\n", static_cast<int>(text.size()), text.data());
}

// Or the version: what the command line asked for instead of a run.
int PrintHelp(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream text;
  app.exit(error, text, text);
  const Status status = WriteStandardOutput(text.str());
  return status.ok() ? kExitOk : ReportError(status);
}

}  // namespace

int RunCommandLine(CLI::App& app, int argc, const char* const* argv, const CommandRun& run) {
  if (argc > 1 && argv[1][0] != '-') {
    const std::vector<std::string> names = SubcommandNames(app);
    if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      PrintError(UnknownCommand(app, argv[1]));
      return kExitUsage;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return PrintHelp(app, error);
    PrintError(Explain(app, error));
    return kExitUsage;
  }
  if (const CLI::Option* const option = EmptyOption(Innermost(app))) {
    PrintError(option->get_name() + ": the value is empty" + SeeHelp(app));
    return kExitUsage;
  }
  if (!run) {
    std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
  }
  return run();
}

int ReportError(const Status& status) {
  return ReportError(status,
                     status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitFailed);
}

int ReportError(const Status& status, ExitCode exit_code) {
  if (status.os_errno() == EPIPE) return kExitSignal + SIGPIPE;
  PrintError(status.message());
  return exit_code;
}

}  // namespace holdfast::tools
