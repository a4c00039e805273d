#include "trace/json_cursor.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/testing/random_seed.h"

namespace holdfast::internal {
namespace {

bool IsJson(std::string_view text) {
  JsonCursor cursor(text);
  return cursor.Skip() && cursor.AtEnd();
}

const std::vector<std::string>& Documents() {
  static const std::vector<std::string> documents = {
      R"({"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]})",
      R"({"a":{"b":[1,-2.5,true,false,null,"x\u00e9\n\\\"/"],"":{}},"c":[[],[[]]]})",
      R"([0,-0,1.25,123456789012345678901234567890,"",{"k":"v"}])",
      " \t\r\n[ 1 , 2 ] \n",
      R"("text")",
  };
  return documents;
}

TEST(JsonCursor, AcceptsWhatIsJson) {
  std::vector<std::string> documents = Documents();
  documents.emplace_back("[10e5,10E-5,1.5e+3,-0.0e0]");
  for (const std::string& document : documents) {
    ASSERT_TRUE(nlohmann::json::accept(document)) << document;
    EXPECT_TRUE(IsJson(document)) << document;
  }
}

TEST(JsonCursor, RefusesWhatIsNot) {
  for (std::string_view text :
       {"",         " ",          "{",     "}",     "[1,]", "[,1]",    "{\"a\"}",
        "{\"a\":}", "{\"a\":1,}", "{a:1}", "01",    "-",    "1.",      ".5",
        "1e",       "+1",         "tru",   "nulll", "\"",   "\"\\x\"", "\"\\u12g4\"",
        "\"\t\"",   "[1 2]",      "1 2",   "'a'",   "NaN",  "\"\\",    "\"\\u12"}) {
    EXPECT_FALSE(nlohmann::json::accept(text)) << text;
    EXPECT_FALSE(IsJson(text)) << text;
  }
}

// Texts one to three random edits away from JSON get the answer a full parser gives. Exponents are
// left out: that parser refuses numbers beyond double, which the grammar does not.
TEST(JsonCursor, AgreesWithAFullParserOnMutatedTexts) {
  std::mt19937 random(holdfast::testing::RandomSeed());
  constexpr std::string_view kCharacters = "{}[],:\"\\0123456789-+.trufalsn u\t";
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = Documents()[random() % Documents().size()];
    for (auto edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      const char c = kCharacters[random() % kCharacters.size()];
      switch (random() % 4) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.resize(at);
          break;
      }
    }
    const bool expected = nlohmann::json::accept(text);
    accepted += expected ? 1 : 0;
    ASSERT_EQ(IsJson(text), expected) << text;
  }
  EXPECT_GT(accepted, 1000);  // or the mutations destroy too much to compare anything
}

TEST(JsonCursor, SkipStopsAtItsDepthLimitInsteadOfTheEndOfTheStack) {
  const std::string allowed(JsonCursor::kDepthMax, '[');
  EXPECT_TRUE(IsJson(allowed + std::string(JsonCursor::kDepthMax, ']')));
  EXPECT_FALSE(IsJson(std::string(1'000'000, '[')));
}

TEST(JsonCursor, IntegersEndAtTheLargestSignedOne) {
  uint64_t value = 1;
  EXPECT_TRUE(JsonCursor("0").ReadInteger(&value));
  EXPECT_EQ(value, 0u);
  EXPECT_TRUE(JsonCursor(" 9223372036854775807").ReadInteger(&value));
  EXPECT_EQ(value, 9223372036854775807u);
  for (std::string_view text : {"9223372036854775808", "18446744073709551616", "-1", "1.0", "1e3",
                                "01", "", "\"1\"", "99999999999999999999999999"}) {
    EXPECT_FALSE(JsonCursor(text).ReadInteger(&value)) << text;
  }
}

}  // namespace
}  // namespace holdfast::internal
