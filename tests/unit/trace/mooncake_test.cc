#include "trace/mooncake.h"

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tests/testing/random_seed.h"
#include "tests/unit/trace/temp_file.h"

namespace holdfast {
namespace {

using testing::Gzipped;
using testing::TempFile;

constexpr std::string_view kForm =
    R"(; expected {"timestamp": ms, "input_length": tokens, "output_length": tokens, )"
    R"("hash_ids": [integers]})";
constexpr std::string_view kGoodRow =
    R"({"timestamp": 5, "input_length": 1030, "output_length": 9, "hash_ids": [7, 8, 9]})";

struct Reading {
  std::vector<Request> requests;
  Status status;
};

Reading Read(std::string_view path, const ReaderOptions& options) {
  Reading reading;
  auto reader = OpenTrace(path, options);
  if (!reader.has_value()) {
    reading.status = std::move(reader).error();
    return reading;
  }
  for (;;) {
    Result<std::optional<Request>> next = (*reader)->Next();
    if (!next.has_value()) {
      reading.status = std::move(next).error();
      return reading;
    }
    if (!*next) return reading;
    reading.requests.push_back(**std::move(next));
  }
}

// The message behind "PATH:" for a file of this content.
std::string ErrorOf(const std::string& content, const ReaderOptions& options = {}) {
  const TempFile file(content);
  const Reading reading = Read(file.path(), options);
  EXPECT_FALSE(reading.status.ok()) << content;
  std::string message(reading.status.message());
  EXPECT_EQ(message.substr(0, file.path().size() + 1), file.path() + ":") << content;
  return message.substr(file.path().size() + 1);
}

std::string Row(std::string_view fields) { return "{" + std::string(fields) + "}"; }

TEST(Mooncake, FieldsOfARowArriveAsWritten) {
  const TempFile file(
      R"( { "hash_ids" : [ 0 , 9223372036854775807 ] , "session_id":"s\u0041", "extra": {"x":[1]},)"
      R"("output_length":0,"input_length":1024, "timestamp":9007199254740993 } )"
      "\r\n");
  const Reading reading = Read(file.path(), {});
  ASSERT_TRUE(reading.status.ok()) << reading.status.ToString();
  ASSERT_EQ(reading.requests.size(), 1u);
  const Request& request = reading.requests[0];
  EXPECT_EQ(request.timestamp_ms, 9007199254740993);  // no double in between
  EXPECT_EQ(request.input_length, 1024u);
  EXPECT_EQ(request.output_length, 0u);
  EXPECT_EQ(request.hash_ids, (std::vector<uint64_t>{0, 9223372036854775807u}));
  EXPECT_EQ(request.session, R"(s\u0041)");
}

TEST(Mooncake, TailIsDroppedOnlyWhereTheLastBlockIsPartialAndPresent) {
  const TempFile file(std::string(kGoodRow) + "\n" +
                      R"({"timestamp":5,"input_length":1030,"output_length":9,"hash_ids":[7,8]})" +
                      "\n" +
                      R"({"timestamp":5,"input_length":1024,"output_length":9,"hash_ids":[7,8]})");
  const auto counts = [&file](Tail tail) {
    std::vector<size_t> result;
    const Reading reading = Read(file.path(), {.tail = tail});
    EXPECT_TRUE(reading.status.ok()) << reading.status.ToString();
    for (const Request& request : reading.requests) {
      EXPECT_GE(request.input_length, 1024u);
      result.push_back(request.hash_ids.size());
    }
    return result;
  };
  EXPECT_EQ(counts(Tail::kDrop), (std::vector<size_t>{2, 2, 2}));
  EXPECT_EQ(counts(Tail::kKeep), (std::vector<size_t>{3, 2, 2}));
}

TEST(Mooncake, RowsOfAnyLengthBlankLinesAndAMissingLastNewlineAreRead) {
  std::string ids = "0";
  for (int i = 1; i < 200'000; ++i) ids += "," + std::to_string(i);
  const TempFile file(
      std::string(kGoodRow) + "\n\n \r\n" +
      Row(R"("timestamp":6,"input_length":102400000,"output_length":1,"hash_ids":[)" + ids + "]") +
      "\n" + Row(R"("timestamp":6,"input_length":0,"output_length":1,"hash_ids":[])"));
  const Reading reading = Read(file.path(), {});
  ASSERT_TRUE(reading.status.ok()) << reading.status.ToString();
  ASSERT_EQ(reading.requests.size(), 3u);
  EXPECT_EQ(reading.requests[1].hash_ids.size(), 200'000u);
  EXPECT_EQ(reading.requests[1].hash_ids.back(), 199'999u);
  EXPECT_TRUE(reading.requests[2].hash_ids.empty());
}

TEST(Mooncake, RequestsMaxEndsTheTraceBeforeALaterError) {
  const TempFile file(std::string(kGoodRow) + "\n" + std::string(kGoodRow) + "\nnonsense\n");
  const Reading reading = Read(file.path(), {.requests_max = 2});
  EXPECT_TRUE(reading.status.ok()) << reading.status.ToString();
  EXPECT_EQ(reading.requests.size(), 2u);
}

TEST(Mooncake, GzipAndStandardInputGiveTheSameRequests) {
  const TempFile file(Gzipped(std::string(kGoodRow) + "\n" + std::string(kGoodRow) + "\n"));
  EXPECT_EQ(Read(file.path(), {}).requests.size(), 2u);

  const int saved = ::dup(STDIN_FILENO);
  const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(::dup2(fd, STDIN_FILENO), 0);
  const Reading reading = Read("-", {});
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  ::close(fd);
  ASSERT_TRUE(reading.status.ok()) << reading.status.ToString();
  ASSERT_EQ(reading.requests.size(), 2u);
  EXPECT_EQ(reading.requests[1].input_length, 1030u);
}

struct Malformed {
  std::string row;
  std::string message;  // before the sentence that says what a row looks like
};

TEST(Mooncake, EveryKindOfMalformedRowIsNamedWithItsLine) {
  const std::string rest = R"("input_length": 1030, "output_length": 9, "hash_ids": [7, 8, 9])";
  const std::string range = "from 0 to 2^63 - 1";
  const std::vector<Malformed> cases = {
      {"nonsense", "not a JSON object, from column 1 on"},
      {"[]", "not a JSON object, from column 1 on"},
      {R"({"timestamp": 5,, )" + rest + "}", "not a JSON object, from column 17 on"},
      {Row(R"("timestamp": 5, )" + rest) + " x", "not a JSON object, from column 83 on"},
      {R"({"timestamp": 5, )" + rest, "not a JSON object, from column 81 on"},
      {"{}", "no \"timestamp\""},
      {Row(rest), "no \"timestamp\""},
      {Row(R"("timestamp": 5, "output_length": 9, "hash_ids": [])"), "no \"input_length\""},
      {Row(R"("timestamp": 5, "input_length": 9, "hash_ids": [])"), "no \"output_length\""},
      {Row(R"("timestamp": 5, "input_length": 9, "output_length": 9)"), "no \"hash_ids\""},
      {Row(R"("timestamp": 5, "timestamp": 5, )" + rest), "\"timestamp\" appears twice"},
      {Row(R"("timestamp": 1.5, )" + rest),
       "\"timestamp\" is 1.5, not an integer of milliseconds " + range},
      {Row(R"("timestamp": -1, )" + rest),
       "\"timestamp\" is -1, not an integer of milliseconds " + range},
      {Row(R"("timestamp": "5", )" + rest),
       "\"timestamp\" is \"5\", not an integer of milliseconds " + range},
      {Row(R"("timestamp": 9223372036854775808, )" + rest),
       "\"timestamp\" is 9223372036854775808, not an integer of milliseconds " + range},
      {Row(R"("timestamp": 5, "input_length": null, "output_length": 9, "hash_ids": [])"),
       "\"input_length\" is null, not an integer of tokens " + range},
      {Row(R"("timestamp": 5, "input_length": 1, "output_length": true, "hash_ids": [])"),
       "\"output_length\" is true, not an integer of tokens " + range},
      {Row(R"("timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": {"a": 1})"),
       "\"hash_ids\" is {\"a\": 1}, not an array of integers"},
      {Row(R"("timestamp": 5, "input_length": 1030, "output_length": 1, "hash_ids": [7, -8, 9])"),
       "hash_ids[1] is -8, not an integer " + range},
      {Row(R"("timestamp": 5, "input_length": 1030, "output_length": 1, "hash_ids": [7, 8, [9]])"),
       "hash_ids[2] is [9], not an integer " + range},
      {Row(R"("session_id": 7, "timestamp": 5, )" + rest), "\"session_id\" is 7, not a string"},
  };
  for (const Malformed& malformed : cases) {
    const std::string content = std::string(kGoodRow) + "\n\n" + malformed.row + "\n";
    EXPECT_EQ(ErrorOf(content), "3: " + malformed.message + std::string(kForm)) << malformed.row;
  }
}

TEST(Mooncake, AnEscapedFieldNameIsTheSameName) {
  const TempFile file(
      R"({"time\u0073tamp": 5, "\u0068ash_ids": [7], "input\u005flength": 512, "a\u00e9\n\"": 1, )"
      R"("output_length": 9})");
  const Reading reading = Read(file.path(), {});
  ASSERT_TRUE(reading.status.ok()) << reading.status.ToString();
  EXPECT_EQ(reading.requests[0].timestamp_ms, 5);
  EXPECT_EQ(reading.requests[0].hash_ids, std::vector<uint64_t>{7});
  EXPECT_EQ(ErrorOf(R"({"timestamp": 5, "time\u0073tamp": 5})"),
            "1: \"timestamp\" appears twice" + std::string(kForm));
}

TEST(Mooncake, AByteOrderMarkIsNamed) {
  EXPECT_EQ(ErrorOf("\xef\xbb\xbf" + std::string(kGoodRow)),
            "1: a UTF-8 byte order mark; expected a file without one" + std::string(kForm));
}

TEST(Mooncake, LongValuesAreShortenedInMessages) {
  const std::string message = ErrorOf(Row(R"("timestamp": ")" + std::string(10'000, 'x') + R"(")"));
  EXPECT_LT(message.size(), 300u);
}

TEST(Mooncake, RowThatGoesBackInTimeIsAnError) {
  const std::string early =
      R"({"timestamp": 4, "input_length": 0, "output_length": 9, "hash_ids": []})";
  EXPECT_EQ(
      ErrorOf(std::string(kGoodRow) + "\n" + early),
      "2: \"timestamp\" is 4, before the row above it; expected rows sorted by time, at least "
      "5");
}

TEST(Mooncake, RowFurtherFromTheFirstThanAClockCountsIsAnError) {
  const auto row = [](const std::string& time) {
    return Row(R"("timestamp": )" + time +
               R"(, "input_length": 0, "output_length": 9, "hash_ids": [])") +
           "\n";
  };
  const std::string at_limit = row("7") + row("9223372036861");
  EXPECT_TRUE(Read(TempFile(at_limit).path(), {}).status.ok());
  EXPECT_TRUE(Read(TempFile(row("9223372036854775807")).path(), {}).status.ok());
  EXPECT_EQ(ErrorOf(at_limit + row("9223372036862")),
            "3: \"timestamp\" is 9223372036862, too far from the first row; expected at most "
            "9223372036854 ms (292 years) after 7");
}

TEST(Mooncake, NumberOfIdsMustFitTheLengthAndTheBlock) {
  EXPECT_EQ(ErrorOf(std::string(kGoodRow), {.block_tokens = 64}),
            "1: 3 hash_ids for an \"input_length\" of 1030; expected 17, or 16 without the partial "
            "block, at 64 tokens a block");
  const std::string whole =
      R"({"timestamp": 4, "input_length": 1024, "output_length": 9, "hash_ids": [1]})";
  EXPECT_EQ(ErrorOf(whole),
            "1: 1 hash_ids for an \"input_length\" of 1024; expected 2 at 512 tokens a block");
}

TEST(Mooncake, FileWithoutARequestIsAnError) {
  for (const char* content : {"", "\n", " \r\n\n"}) {
    EXPECT_EQ(ErrorOf(content), " no request in it" + std::string(kForm) + ", one a line");
  }
}

TEST(Mooncake, MissingFileAndDirectoryKeepTheirErrno) {
  const Reading missing = Read("/nonexistent/trace.jsonl", {});
  EXPECT_EQ(missing.status.code(), StatusCode::kIoError);
  EXPECT_EQ(missing.status.os_errno(), ENOENT);
  const Reading directory = Read("/", {});
  EXPECT_EQ(directory.status.code(), StatusCode::kIoError);
  EXPECT_EQ(directory.status.os_errno(), EISDIR);
}

TEST(Mooncake, CutGzipGivesTheRowsBeforeTheCutAndThenItsLine) {
  std::string rows;
  std::mt19937 random(1);  // numbers that do not compress to nothing
  for (int i = 0; i < 2000; ++i) {
    rows += R"({"timestamp": 5, "input_length": 1024, "output_length": 1, "hash_ids": [)" +
            std::to_string(random()) + "," + std::to_string(random()) + "]}\n";
  }
  const std::string whole = Gzipped(rows);
  for (size_t missing : {size_t{1}, size_t{8}, whole.size() / 2}) {
    const TempFile file(whole.substr(0, whole.size() - missing));
    const Reading reading = Read(file.path(), {});
    EXPECT_EQ(reading.status.code(), StatusCode::kDataLoss);
    EXPECT_GT(reading.requests.size(), 500u);
    EXPECT_EQ(reading.status.message(), file.path() + ":" +
                                            std::to_string(reading.requests.size() + 1) +
                                            ": the gzip stream ends early: the file is cut short");
  }
}

void FlipBit(std::string& content, size_t at) { content[at] = static_cast<char>(content[at] ^ 1); }

// A file of this content is damaged gzip, found at that line.
void ExpectDamage(const std::string& content, const std::string& line) {
  const TempFile file(content);
  const Reading reading = Read(file.path(), {});
  EXPECT_EQ(reading.status.code(), StatusCode::kDataLoss);
  const std::string start = file.path() + ":" + line + ": the gzip stream is damaged: ";
  EXPECT_EQ(reading.status.message().substr(0, start.size()), start);
}

TEST(Mooncake, MembersOfAGzipFileFollowOneAnother) {
  const std::string member = Gzipped(std::string(kGoodRow) + "\n");
  const TempFile file(member + Gzipped("") + member + member);
  const Reading reading = Read(file.path(), {});
  EXPECT_TRUE(reading.status.ok()) << reading.status.ToString();
  EXPECT_EQ(reading.requests.size(), 3u);
}

TEST(Mooncake, DamageOfAnyMemberOfAGzipFileIsDataLoss) {
  const std::string member = Gzipped(std::string(kGoodRow) + "\n");
  std::string checksum = member;
  FlipBit(checksum, member.size() - 6);
  ExpectDamage(checksum, "2");
  for (const size_t at : {0, 1, 2}) {  // what makes it gzip
    std::string header = member + member;
    FlipBit(header, member.size() + at);
    ExpectDamage(header, "2");
  }
  ExpectDamage(member + "garbage", "2");
}

TEST(Mooncake, ARowThatDamagedGzipMadeWrongIsNotBlamedOnItsWriter) {
  std::string rows;
  for (int i = 0; i < 3; ++i) rows += std::string(kGoodRow) + "\n";
  std::string stored = Gzipped(rows, /*level=*/0);  // keeps the bytes as they are
  FlipBit(stored, stored.find("input_length", stored.find('\n')) - 1);  // a quote
  ExpectDamage(stored, "2");
}

TEST(Mooncake, ReadingOnAfterAnErrorIsAnError) {
  const TempFile file("nonsense\n" + std::string(kGoodRow) + "\n");
  auto reader = OpenTrace(file.path(), {});
  ASSERT_TRUE(reader.has_value());
  EXPECT_FALSE((*reader)->Next().has_value());
  EXPECT_FALSE((*reader)->Next().has_value());
}

TEST(OpenTrace, BlockOfNoTokensIsRefused) {
  EXPECT_EQ(OpenTrace("-", {.block_tokens = 0}).error().code(), StatusCode::kInvalidArgument);
}

// What a full parser says of a row: whether it is one that must be accepted.
bool IsGoodRow(const std::string& row) {
  const nlohmann::json json = nlohmann::json::parse(row, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto is_integer = [](const nlohmann::json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
  };
  for (const char* field : {"timestamp", "input_length", "output_length"}) {
    if (!json.contains(field) || !is_integer(json[field])) return false;
  }
  if (json.contains("session_id") && !json["session_id"].is_string()) return false;
  if (!json.contains("hash_ids") || !json["hash_ids"].is_array()) return false;
  for (const nlohmann::json& id : json["hash_ids"]) {
    if (!is_integer(id)) return false;
  }
  const auto length = json["input_length"].get<uint64_t>();
  const uint64_t ids = json["hash_ids"].size();
  return ids == length / 512 || ids == length / 512 + (length % 512 == 0 ? 0 : 1);
}

TEST(Mooncake, MutatedRowsAreAcceptedExactlyWhenAFullParserFindsThemGood) {
  std::mt19937 random(testing::RandomSeed());
  constexpr std::string_view kCharacters = "{}[],:\"0123456789-.e t";
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string row(kGoodRow);
    for (auto edits = 1 + random() % 2; edits > 0; --edits) {
      const size_t at = random() % row.size();
      const char c = kCharacters[random() % kCharacters.size()];
      switch (random() % 3) {
        case 0:
          row[at] = c;
          break;
        case 1:
          row.insert(at, 1, c);
          break;
        default:
          row.erase(at, 1);
          break;
      }
    }
    const TempFile file(row);
    const bool good = Read(file.path(), {}).status.ok();
    accepted += good ? 1 : 0;
    ASSERT_EQ(good, IsGoodRow(row)) << row;
  }
  EXPECT_GT(accepted, 100);
}

TEST(Mooncake, RandomBytesNeverEndTheProcess) {
  std::mt19937 random(testing::RandomSeed());
  for (int round = 0; round < 500; ++round) {
    std::string content = round % 2 == 0 ? std::string(kGoodRow) : Gzipped(kGoodRow);
    for (auto edits = 1 + random() % 8; edits > 0; --edits) {
      content[random() % content.size()] = static_cast<char>(random());
    }
    const TempFile file(content);
    const Reading reading = Read(file.path(), {});
    EXPECT_EQ(reading.status.ok(), reading.requests.size() == 1);
  }
}

}  // namespace
}  // namespace holdfast
