// JsonCursor: reads the JSON text of one trace row in place, without building a document.
//
// Made for rows that are nearly all integers (ten times as fast as a general parser). Grammar as
// RFC 8259, except that it does not look at the encoding of strings and hands them out raw.
//
// Threading: thread-compatible.
// Memory: none; views point into the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::internal {

class JsonCursor {
 public:
  static constexpr int kDepthMax = 64;  // of values that are skipped

  explicit JsonCursor(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  size_t position() const { return at_; }
  std::string_view From(size_t begin) const { return text_.substr(begin, at_ - begin); }

  char Peek();           // next character that is not white space, 0 at the end
  bool Consume(char c);  // takes it if it is `c`
  bool AtEnd() { return Peek() == '\0' && at_ == text_.size(); }

  // Each takes one value of its kind; on false the cursor stays before it.
  bool ReadString(std::string_view* raw);  // between the quotes, escapes as written
  bool ReadInteger(uint64_t* value);       // a plain integer from 0 to 2^63 - 1
  // Any value. On false it is no JSON; the cursor stands where it went wrong.
  bool Skip(int depth = 0);

 private:
  bool SkipNumber();
  bool SkipMembers(char close, int depth);
  bool SkipWord(std::string_view word);
  bool SkipDigits();

  std::string_view text_;
  size_t at_ = 0;
};

// What ReadString handed out, with the escapes of ASCII characters resolved; others stay as they
// are written.
std::string UnescapeAscii(std::string_view raw);

}  // namespace holdfast::internal
