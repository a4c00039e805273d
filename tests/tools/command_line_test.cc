#include <csignal>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tools/run_command.h"

namespace holdfast::testing {
namespace {

constexpr char kRow[] =
    R"({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]})"
    "\n";

class CommandLineTest : public ::testing::Test {
 protected:
  CommandResult Run(const std::vector<std::string>& arguments) {
    return RunCommand(directory_, arguments);
  }
  // One line on stderr, nothing on stdout, exit code 2.
  void ExpectUsageError(const std::vector<std::string>& arguments, const std::string& text) {
    const CommandResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.rfind("holdfast: ", 0), 0u) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }

  CommandDirectory directory_;
};

TEST_F(CommandLineTest, VersionIsOneLine) {
  const CommandResult result = Run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.rfind("holdfast ", 0), 0u) << result.out;
}

TEST_F(CommandLineTest, HelpShowsOptionsExamplesAndExitCodes) {
  const CommandResult result = Run({"replay", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* word :
       {"--tail",        "--hbm",     "--ddr",      "--flash",    "--disk",   "--dir",
        "--payload",     "--hold",    "--policy",   "--requests", "--clock",  "--speed",
        "--concurrency", "--bytes",   "--seed",     "--json",     "--output", "--write-budget",
        "--io-engine",   "Examples:", "Exit codes:"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
}

TEST_F(CommandLineTest, WithoutACommandHelpGoesToStderr) {
  const CommandResult result = Run({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("replay"), std::string::npos);
}

TEST_F(CommandLineTest, AMisspelledWordIsAnsweredWithTheNearest) {
  ExpectUsageError({"repaly", "x"}, "unknown command 'repaly'; did you mean 'replay'?");
  ExpectUsageError({"replay", "t", "--hodl", "5m"},
                   "unknown option '--hodl'; did you mean '--hold'?");
  ExpectUsageError({"zzzzzzzzz"}, "unknown command 'zzzzzzzzz' (commands: replay, bench)");
  ExpectUsageError({"bench", "tiers", "--rouds", "5"},
                   "did you mean '--rounds'? (see holdfast bench tiers --help)");
}

TEST_F(CommandLineTest, WrongValuesNameOptionAndValue) {
  directory_.Write("t", kRow);
  const std::vector<std::vector<std::string>> cases = {
      {"--ddr", "2G"},         {"--flash", "-1"},      {"--payload", "0x10"},
      {"--hold", "soon"},      {"--hold", "31d"},      {"--tail", "maybe"},
      {"--clock", "wall"},     {"--speed", "fast"},    {"--concurrency", "0"},
      {"--requests", "0"},     {"--bytes", "some"},    {"--seed", "x"},
      {"--write-budget", "5"}, {"--policy", "random"}, {"--io-engine", "aio"},
      {"--placement", "no"},   {"--block-tokens", "0"}};
  for (const auto& option : cases) {
    ExpectUsageError({"replay", "t", option[0], option[1]},
                     option[0] + ": '" + option[1] + "' is not ");
  }
}

TEST_F(CommandLineTest, AnEmptyValueIsNoValue) {
  directory_.Write("t", kRow);
  const std::regex with_value("(--[a-z-]+) TEXT");
  for (const auto& [command, count] :
       {std::pair<std::vector<std::string>, int>{{"replay", "t"}, 20}, {{"bench", "tiers"}, 10}}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const std::string help = Run(arguments).out;
    int seen = 0;
    for (std::sregex_iterator it(help.begin(), help.end(), with_value);
         it != std::sregex_iterator(); ++it, ++seen) {
      const std::string name = (*it)[1];
      arguments = command;
      arguments.insert(arguments.end(), {name, ""});
      ExpectUsageError(arguments, name + ": the value is empty (see holdfast " + command[0]);
      arguments = command;
      arguments.push_back(name + "=");
      ExpectUsageError(arguments, name);
    }
    EXPECT_GE(seen, count);
  }
  ExpectUsageError({"replay", ""}, "TRACE: the value is empty");
}

TEST_F(CommandLineTest, AnOptionGivenTwiceIsNamed) {
  ExpectUsageError({"replay", "t", "--ddr", "1GiB", "--ddr", "2GiB"},
                   "--ddr: given twice; expected once (see holdfast replay --help)");
}

TEST_F(CommandLineTest, StandardOutputThatTakesNothingIsAnError) {
  const std::string replay = "replay synthetic:agent --requests 3 --bytes none --flash 0";
  for (const std::string& arguments :
       {std::string("--help"), std::string("--version"), replay, replay + " --json"}) {
    const CommandResult full = RunShell(directory_, "\"$HOLDFAST\" " + arguments + " >/dev/full");
    EXPECT_EQ(full.exit_code, 3) << arguments;
    EXPECT_EQ(full.err, "holdfast: standard output: No space left on device\n") << arguments;
    const CommandResult closed = RunShell(directory_, "\"$HOLDFAST\" " + arguments + " >&-");
    EXPECT_EQ(closed.exit_code, 3) << arguments;
    EXPECT_EQ(closed.err, "holdfast: standard output: Bad file descriptor\n") << arguments;
  }
}

TEST_F(CommandLineTest, ASignalEndsABenchmarkWithWhatThereIsAndLeavesNothingBehind) {
  const pid_t pid = StartCommand(directory_, {"bench", "tiers", "--tiers", "ddr,index", "--seconds",
                                              "0.01", "--size", "32MiB", "--rounds", "1000"});
  WaitForEntry(directory_, "holdfast-data");
  ASSERT_EQ(::kill(pid, SIGTERM), 0);
  const CommandResult result = WaitForCommand(directory_, pid);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_NE(result.out.find("interrupted: later rows are missing"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("holdfast-data")));
}

TEST_F(CommandLineTest, MissingArgumentsAreNamed) {
  ExpectUsageError({"replay"}, "TRACE");
  ExpectUsageError({"replay", "t", "--ddr"}, "--ddr");
  ExpectUsageError({"replay", "absent.jsonl"}, "absent.jsonl");
}

TEST_F(CommandLineTest, AWrongRowNamesFileLineAndWhatIsRight) {
  directory_.Write("t", std::string(kRow) + R"({"timestamp": 0, "input_length": 5})" + "\n");
  ExpectUsageError({"replay", "t"}, "t:2: ");
  directory_.Write("t", std::string(kRow) +
                            R"({"timestamp": 0, "input_length": 2048, "output_length": 1, )"
                            R"("hash_ids": [1]})");
  ExpectUsageError({"replay", "t"}, "expected 4");
}

TEST_F(CommandLineTest, ATimeThatNoClockCountsToIsRefused) {
  const auto row = [](const std::string& time) {
    return R"({"timestamp": )" + time +
           R"(, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]})" + "\n";
  };
  directory_.Write("t", row("0") + row("9223379236855") + row("9223386436855"));
  ExpectUsageError(
      {"replay", "t", "--hold", "1h", "--flash", "0", "--ddr", "8MiB", "--payload", "4KiB"},
      "t:2: \"timestamp\" is 9223379236855");
}

TEST_F(CommandLineTest, UnlimitedWithBytesIsRefused) {
  directory_.Write("t", kRow);
  ExpectUsageError({"replay", "t", "--ddr", "unlimited"}, "needs --bytes none");
}

}  // namespace
}  // namespace holdfast::testing
