#include "trace/json_cursor.h"

#include <charconv>
#include <limits>

namespace holdfast::internal {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

char JsonCursor::Peek() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n')) {
    ++at_;
  }
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::Consume(char c) {
  if (Peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

bool JsonCursor::ReadString(std::string_view* raw) {
  if (Peek() != '"') return false;
  for (size_t at = at_ + 1; at < text_.size(); ++at) {
    const char c = text_[at];
    if (c == '"') {
      *raw = text_.substr(at_ + 1, at - at_ - 1);
      at_ = at + 1;
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) return false;
    if (c != '\\') continue;
    if (++at == text_.size()) return false;
    if (text_[at] == 'u') {
      for (int i = 0; i < 4; ++i) {
        if (++at == text_.size() || !IsHex(text_[at])) return false;
      }
    } else if (std::string_view("\"\\/bfnrt").find(text_[at]) == std::string_view::npos) {
      return false;
    }
  }
  return false;
}

bool JsonCursor::ReadInteger(uint64_t* value) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  Peek();
  size_t at = at_;
  uint64_t result = 0;
  while (at < text_.size() && IsDigit(text_[at])) {
    const uint64_t digit = static_cast<uint64_t>(text_[at] - '0');
    if (result > (kMax - digit) / 10) return false;
    result = result * 10 + digit;
    ++at;
  }
  if (at == at_ || (text_[at_] == '0' && at - at_ > 1)) return false;
  if (at < text_.size() && (text_[at] == '.' || text_[at] == 'e' || text_[at] == 'E')) return false;
  at_ = at;
  *value = result;
  return true;
}

bool JsonCursor::Skip(int depth) {
  std::string_view ignored;
  const char next = Peek();
  if (next == '"') return ReadString(&ignored);
  if (next == '{' || next == '[') {
    if (depth == kDepthMax) return false;
    ++at_;
    return SkipMembers(next == '{' ? '}' : ']', depth + 1);
  }
  if (next == 't') return SkipWord("true");
  if (next == 'f') return SkipWord("false");
  if (next == 'n') return SkipWord("null");
  return SkipNumber();
}

bool JsonCursor::SkipMembers(char close, int depth) {
  if (Consume(close)) return true;
  do {
    std::string_view key;
    if (close == '}' && !(ReadString(&key) && Consume(':'))) return false;
    if (!Skip(depth)) return false;
  } while (Consume(','));
  return Consume(close);
}

bool JsonCursor::SkipWord(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) return false;
  at_ += word.size();
  return true;
}

bool JsonCursor::SkipDigits() {
  const size_t begin = at_;
  while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
  return at_ > begin;
}

bool JsonCursor::SkipNumber() {
  const auto next_is = [this](char c) { return at_ < text_.size() && text_[at_] == c; };
  if (next_is('-')) ++at_;
  if (next_is('0')) {
    ++at_;
  } else if (!SkipDigits()) {
    return false;
  }
  if (next_is('.')) {
    ++at_;
    if (!SkipDigits()) return false;
  }
  if (next_is('e') || next_is('E')) {
    ++at_;
    if (next_is('+') || next_is('-')) ++at_;
    if (!SkipDigits()) return false;
  }
  return true;
}

std::string UnescapeAscii(std::string_view raw) {
  constexpr std::string_view kLetters = "bfnrt";
  constexpr std::string_view kMeanings = "\b\f\n\r\t";
  std::string text;
  for (size_t at = 0; at < raw.size(); ++at) {
    if (raw[at] != '\\') {
      text += raw[at];
      continue;
    }
    const char escaped = raw[++at];
    if (escaped == 'u') {
      unsigned code = 0;
      const std::string_view digits = raw.substr(at + 1, 4);
      std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (code < 0x80) {
        text += static_cast<char>(code);
      } else {
        text.append("\\u").append(digits);
      }
      at += digits.size();
    } else {
      const size_t letter = kLetters.find(escaped);
      text += letter == std::string_view::npos ? escaped : kMeanings[letter];
    }
  }
  return text;
}

}  // namespace holdfast::internal
