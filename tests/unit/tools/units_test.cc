#include "tools/units.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::tools {
namespace {

using std::chrono::milliseconds;

uint64_t Bytes(std::string_view text) {
  const Result<uint64_t> bytes = ParseBytes("--size", text);
  EXPECT_TRUE(bytes.has_value()) << text;
  return bytes.has_value() ? *bytes : 0;
}

Duration Time(std::string_view text) {
  const Result<Duration> duration = ParseDuration("--time", text);
  EXPECT_TRUE(duration.has_value()) << text;
  return duration.has_value() ? *duration : Duration();
}

TEST(Units, BinaryAndDecimalSizesAreBytes) {
  EXPECT_EQ(Bytes("0"), 0u);
  EXPECT_EQ(Bytes("4096"), 4096u);
  EXPECT_EQ(Bytes("4096B"), 4096u);
  EXPECT_EQ(Bytes("256KiB"), 256u << 10);
  EXPECT_EQ(Bytes("2MiB"), 2u << 20);
  EXPECT_EQ(Bytes("1.5GiB"), 3ull << 29);
  EXPECT_EQ(Bytes("2 TiB"), 2ull << 40);
  EXPECT_EQ(Bytes("500MB"), 500'000'000u);
  EXPECT_EQ(Bytes("1kB"), 1000u);
}

TEST(Units, SizesMayBeBlocksOrUnlimited) {
  for (const std::string_view text : {"10000b", "10000 blocks"}) {
    const Result<Size> size = ParseSize("--ddr", text);
    ASSERT_TRUE(size.has_value());
    EXPECT_EQ(size->kind, Size::Kind::kBlocks);
    EXPECT_EQ(size->value, 10'000u);
    EXPECT_TRUE(size->on());
  }
  const Result<Size> unlimited = ParseSize("--ddr", "unlimited");
  ASSERT_TRUE(unlimited.has_value());
  EXPECT_EQ(unlimited->kind, Size::Kind::kUnlimited);
  EXPECT_TRUE(unlimited->on());
  EXPECT_FALSE(ParseSize("--ddr", "0")->on());
  EXPECT_FALSE(ParseBytes("--payload", "3b").has_value());
}

TEST(Units, WrongSizesNameOptionValueAndWhatIsRight) {
  for (const std::string_view text :
       {"", "x", "2G", "2 Mib", "-1", "+1", "1e6", "1.2.3GiB", ".", "1.5b"}) {
    const Result<Size> size = ParseSize("--flash", text);
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_EQ(size.error().code(), StatusCode::kInvalidArgument);
    const std::string message(size.error().message());
    EXPECT_NE(message.find("--flash: '" + std::string(text) + "' is not "), std::string::npos)
        << message;
    EXPECT_TRUE(message.find("1.5GiB") != std::string::npos || text == "1.5b") << message;
  }
}

TEST(Units, ABytesNumberIsWholeAndWithinWhatAStoreMayHave) {
  EXPECT_EQ(Bytes("1EiB"), 1ull << 60);
  EXPECT_EQ(Bytes("1PiB"), 1ull << 50);
  EXPECT_EQ(Bytes("0.5EB"), 500'000'000'000'000'000u);
  EXPECT_EQ(Bytes("1.5KiB"), 1536u);
  const auto error = [](std::string_view text) {
    const Result<uint64_t> bytes = ParseBytes("--payload", text);
    EXPECT_FALSE(bytes.has_value()) << text;
    return bytes.has_value() ? "" : std::string(bytes.error().message());
  };
  EXPECT_EQ(error("1.5"), "--payload: '1.5' is not a whole number of bytes");
  EXPECT_EQ(error("0.5B"), "--payload: '0.5B' is not a whole number of bytes");
  EXPECT_EQ(error("1.1EiB"), "--payload: '1.1EiB' is not at most 1EiB");
  EXPECT_EQ(error("99999999999TiB"), "--payload: '99999999999TiB' is not at most 1EiB");
  const Result<Size> blocks = ParseSize("--ddr", "2147483649b");
  ASSERT_FALSE(blocks.has_value());
  EXPECT_EQ(blocks.error().message(),
            "--ddr: '2147483649b' is not a whole number of blocks, such as 10000b, at most 2^31");
}

TEST(Units, DurationsAreWholeMilliseconds) {
  EXPECT_EQ(Time("250ms"), milliseconds(250));
  EXPECT_EQ(Time("90s"), milliseconds(90'000));
  EXPECT_EQ(Time("5m"), milliseconds(300'000));
  EXPECT_EQ(Time("1.5h"), milliseconds(5'400'000));
  EXPECT_EQ(Time("1d"), milliseconds(86'400'000));
  EXPECT_EQ(Time("0.3s"), milliseconds(300));
  for (const std::string_view text :
       {"", "5", "5 minutes", "m", "0s", "0.1ms", "-5m", "999999999d"}) {
    EXPECT_FALSE(ParseDuration("--hold", text).has_value()) << text;
  }
}

TEST(Units, CountsAreDigitsFromALeastValueOn) {
  EXPECT_EQ(*ParseCount("--requests", "12031", 1), 12'031u);
  for (const std::string_view text : {"", "0", "-1", "1.0", "1k", "99999999999999999999"}) {
    EXPECT_FALSE(ParseCount("--requests", text, 1).has_value()) << text;
  }
  const Result<uint64_t> count = ParseCount("--seed", "99999999999999999999");
  ASSERT_FALSE(count.has_value());
  EXPECT_EQ(count.error().message(), "--seed: '99999999999999999999' is not at most 2^64 - 1");
  EXPECT_EQ(*ParseFactor("--speed", "0.5"), 0.5);
  EXPECT_FALSE(ParseFactor("--speed", "2x").has_value());
  EXPECT_FALSE(ParseFactor("--speed", "-2").has_value());
}

TEST(Units, PeopleReadThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(3ull << 29), "1.50 GiB");
  EXPECT_EQ(FormatBytes(100ull << 20), "100 MiB");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(54'098'411), "54,098,411");
  EXPECT_EQ(FormatShare(0.3664), "36.6 %");
  EXPECT_EQ(FormatDuration(std::chrono::microseconds(112)), "112 us");
  EXPECT_EQ(FormatDuration(std::chrono::microseconds(3200)), "3.2 ms");
  EXPECT_EQ(FormatDuration(std::chrono::seconds(90)), "1m 30s");
  EXPECT_EQ(FormatDuration(std::chrono::hours(1)), "1h");
  EXPECT_EQ(Ratio(1, 0), 0);
}

}  // namespace
}  // namespace holdfast::tools
