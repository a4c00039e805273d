// Sizes, durations and counts as people write them, and back.
//
//   HF_ASSIGN_OR_RETURN(Size ddr, ParseSize("--ddr", "1.5GiB"));
//   FormatBytes(ddr.value);  // "1.50 GiB"
//
// Threading: immutable values and pure functions. Errors: kInvalidArgument names the option, what
// was given and what would be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvstore/clock.h"
#include "kvstore/status.h"

namespace holdfast::tools {

// Of a tier: bytes, blocks, or as much as a trace needs.
struct Size {
  enum class Kind : uint8_t { kBytes, kBlocks, kUnlimited };
  Kind kind = Kind::kBytes;
  uint64_t value = 0;  // bytes or blocks

  bool on() const noexcept { return kind == Kind::kUnlimited || value > 0; }
};

// "2MiB", "1.5GiB", "1.6TB", "4096", "10000b" or "10000 blocks", "unlimited", "0".
Result<Size> ParseSize(std::string_view option, std::string_view text);
// A Size that must be bytes.
Result<uint64_t> ParseBytes(std::string_view option, std::string_view text);
// "250ms", "90s", "5m", "1.5h", "1d"; whole milliseconds, at least one.
Result<Duration> ParseDuration(std::string_view option, std::string_view text);
// Digits only, from `least` on.
Result<uint64_t> ParseCount(std::string_view option, std::string_view text, uint64_t least = 0);
// A decimal number, zero or more.
Result<double> ParseFactor(std::string_view option, std::string_view text);

// "--ddr: 'x' is not a size; write ..."
Status BadValue(std::string_view option, std::string_view text, std::string_view what_is_right);

std::string FormatBytes(uint64_t bytes);        // "1.50 GiB"
std::string FormatCount(uint64_t count);        // "288,500"
std::string FormatShare(double share);          // "36.6 %"
std::string FormatDuration(Duration duration);  // "112 us", "3.2 ms", "5m", "1h 30m"
std::string FormatDecimal(double value, int digits);

// part / whole; 0 of nothing.
double Ratio(uint64_t part, uint64_t whole);

}  // namespace holdfast::tools
