// `holdfast bench tiers`: options, the run, the report, the exit code.
#pragma once

#include "tools/command_line.h"

namespace holdfast::tools {

void AddBenchCommand(CLI::App& app, CommandRun* run);

}  // namespace holdfast::tools
