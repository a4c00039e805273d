#include "tools/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

namespace holdfast::tools {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kByteUnits = {Unit{"", 1},
                                   Unit{"B", 1},
                                   Unit{"KiB", 1ull << 10},
                                   Unit{"MiB", 1ull << 20},
                                   Unit{"GiB", 1ull << 30},
                                   Unit{"TiB", 1ull << 40},
                                   Unit{"PiB", 1ull << 50},
                                   Unit{"EiB", 0x1p60},
                                   Unit{"kB", 1e3},
                                   Unit{"KB", 1e3},
                                   Unit{"MB", 1e6},
                                   Unit{"GB", 1e9},
                                   Unit{"TB", 1e12},
                                   Unit{"PB", 1e15},
                                   Unit{"EB", 1e18}};
constexpr std::array kTimeUnits = {Unit{"ms", 1e6}, Unit{"s", 1e9}, Unit{"m", 60e9},
                                   Unit{"h", 3600e9}, Unit{"d", 86400e9}};
constexpr double kBytesMax = 0x1p60;
constexpr double kBlocksMax = 1ull << 31;
constexpr double kNanosMax = 9e18;

constexpr std::string_view kSizeForm =
    "a size: 2MiB, 1.5GiB, 500MB, 10000b (blocks), 0 (off) or unlimited";
constexpr std::string_view kBytesForm = "bytes: 256KiB, 2MiB, 1.5GiB, 500MB or 4096";
constexpr std::string_view kDurationForm = "a duration: 250ms, 90s, 5m, 1h or 1d";

struct Quantity {
  double number = 0;
  std::string_view unit;  // what follows the number, without blanks before it
};

// Digits, at most one point, then a unit. No sign, no exponent.
std::optional<Quantity> Split(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  Quantity quantity;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + digits, quantity.number, std::chars_format::fixed);
  if (digits == 0 || error != std::errc() || end != text.data() + digits) return std::nullopt;
  text.remove_prefix(digits);
  while (text.starts_with(' ')) text.remove_prefix(1);
  quantity.unit = text;
  return quantity;
}

template <size_t kCount>
std::optional<double> Scale(const Quantity& quantity, const std::array<Unit, kCount>& units) {
  for (const Unit& unit : units) {
    if (unit.name == quantity.unit) return quantity.number * unit.factor;
  }
  return std::nullopt;
}

bool IsWhole(double value) { return value == std::floor(value); }

Result<uint64_t> ToBytes(std::string_view option, std::string_view text,
                         const std::optional<Quantity>& quantity, std::string_view form) {
  const std::optional<double> bytes = quantity ? Scale(*quantity, kByteUnits) : std::nullopt;
  if (!bytes) return BadValue(option, text, form);
  if (*bytes > kBytesMax) return BadValue(option, text, "at most 1EiB");
  const bool plain = quantity->unit.empty() || quantity->unit == "B";
  if (plain && !IsWhole(*bytes)) return BadValue(option, text, "a whole number of bytes");
  return static_cast<uint64_t>(*bytes);
}

}  // namespace

Status BadValue(std::string_view option, std::string_view text, std::string_view what_is_right) {
  return {StatusCode::kInvalidArgument, std::string(option) + ": '" + std::string(text) +
                                            "' is not " + std::string(what_is_right)};
}

Result<Size> ParseSize(std::string_view option, std::string_view text) {
  if (text == "unlimited") return Size{.kind = Size::Kind::kUnlimited};
  const std::optional<Quantity> quantity = Split(text);
  if (!quantity) return BadValue(option, text, kSizeForm);
  if (quantity->unit == "b" || quantity->unit == "blocks") {
    if (!IsWhole(quantity->number) || quantity->number > kBlocksMax) {
      return BadValue(option, text, "a whole number of blocks, such as 10000b, at most 2^31");
    }
    return Size{.kind = Size::Kind::kBlocks, .value = static_cast<uint64_t>(quantity->number)};
  }
  HF_ASSIGN_OR_RETURN(const uint64_t bytes, ToBytes(option, text, quantity, kSizeForm));
  return Size{.kind = Size::Kind::kBytes, .value = bytes};
}

Result<uint64_t> ParseBytes(std::string_view option, std::string_view text) {
  return ToBytes(option, text, Split(text), kBytesForm);
}

Result<Duration> ParseDuration(std::string_view option, std::string_view text) {
  const std::optional<Quantity> quantity = Split(text);
  const std::optional<double> nanos = quantity ? Scale(*quantity, kTimeUnits) : std::nullopt;
  if (!nanos || *nanos > kNanosMax) return BadValue(option, text, kDurationForm);
  const auto millis = static_cast<int64_t>(std::llround(*nanos / 1e6));
  if (millis < 1) return BadValue(option, text, "a duration of at least 1ms");
  return Duration(std::chrono::milliseconds(millis));
}

Result<uint64_t> ParseCount(std::string_view option, std::string_view text, uint64_t least) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool digits_only = end == text.data() + text.size();
  if (error == std::errc() && digits_only && count >= least) return count;
  if (error == std::errc::result_out_of_range && digits_only) {
    return BadValue(option, text, "at most 2^64 - 1");
  }
  return BadValue(
      option, text,
      "a whole number" + (least > 0 ? ", at least " + std::to_string(least) : std::string()));
}

Result<double> ParseFactor(std::string_view option, std::string_view text) {
  const std::optional<Quantity> quantity = Split(text);
  if (quantity && quantity->unit.empty()) return quantity->number;
  return BadValue(option, text, "a number such as 0, 0.5 or 10");
}

std::string FormatDecimal(double value, int digits) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return std::string(text.data(), std::clamp<size_t>(length, 0, text.size() - 1));
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kNames = {"B",   "KiB", "MiB", "GiB",
                                                      "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  int digits = 0;
  if (unit > 0) digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return FormatDecimal(value, digits) + ' ' + std::string(kNames[unit]);
}

std::string FormatCount(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string FormatShare(double share) { return FormatDecimal(share * 100, 1) + " %"; }

std::string FormatDuration(Duration duration) {
  const auto nanos = static_cast<double>(duration.count());
  if (nanos < 1e6) return FormatDecimal(nanos / 1e3, nanos < 1e4 ? 1 : 0) + " us";
  if (nanos < 1e9) return FormatDecimal(nanos / 1e6, nanos < 1e8 ? 1 : 0) + " ms";
  if (nanos < 60e9) return FormatDecimal(nanos / 1e9, 1) + " s";
  const auto minutes = static_cast<uint64_t>(nanos / 60e9);
  const auto seconds = static_cast<uint64_t>(nanos / 1e9) % 60;
  if (minutes < 60) {
    return std::to_string(minutes) + 'm' + (seconds > 0 ? ' ' + std::to_string(seconds) + 's' : "");
  }
  return std::to_string(minutes / 60) + 'h' +
         (minutes % 60 > 0 ? ' ' + std::to_string(minutes % 60) + 'm' : "");
}

}  // namespace holdfast::tools
