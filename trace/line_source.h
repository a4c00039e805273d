// LineSource: the lines of a file, plain or gzip, or of standard input.
//
// Threading: thread-compatible.
// Memory: the longest line so far and 256 KiB; a line above kLineBytesMax is an error.
// Errors: as TraceReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/status.h"
#include "trace/byte_source.h"

namespace holdfast::internal {

class LineSource {
 public:
  static constexpr size_t kLineBytesMax = 64 << 20;

  static Result<LineSource> Open(std::string_view path);  // "-": standard input

  // The next line without its end, valid until the next call.
  Result<std::optional<std::string_view>> Next();

  // For a line that is wrong: kDataLoss where the damage of a gzip stream explains it. Reads to the
  // end; there is no next line afterwards.
  Status CheckRest();

  const std::string& name() const { return name_; }
  uint64_t line() const { return line_; }                      // of the line returned last, from 1
  Status Error(StatusCode code, std::string_view what) const;  // prefixed with name:line

 private:
  LineSource(ByteSource bytes, std::string name);
  Status Fill();  // reads more behind what is there; sets end_of_file_
  Status Failed(const Status& status) const;

  ByteSource bytes_;
  std::string name_;
  uint64_t line_ = 0;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is not returned yet
  size_t end_ = 0;
  bool end_of_file_ = false;
};

}  // namespace holdfast::internal
