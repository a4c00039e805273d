#include <string>
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
  ExpectUsageError({"zzzzzzzzz"}, "Commands: ");
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

TEST_F(CommandLineTest, UnlimitedWithBytesIsRefused) {
  directory_.Write("t", kRow);
  ExpectUsageError({"replay", "t", "--ddr", "unlimited"}, "needs --bytes none");
}

}  // namespace
}  // namespace holdfast::testing
