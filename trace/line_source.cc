#include "trace/line_source.h"

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace holdfast::internal {
namespace {

constexpr size_t kReadBytes = 256 << 10;

}  // namespace

Result<LineSource> LineSource::Open(std::string_view path) {
  const bool standard_input = path == "-";
  std::string name = standard_input ? "standard input" : std::string(path);
  const int fd = standard_input ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, name + ": cannot open the trace");
  Result<ByteSource> bytes = ByteSource::Open(fd);
  if (!bytes.has_value()) return std::move(bytes).error().WithContext(name);
  return LineSource(*std::move(bytes), std::move(name));
}

LineSource::LineSource(ByteSource bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {}

Status LineSource::Error(StatusCode code, std::string_view what) const {
  return {code, name_ + ":" + std::to_string(line_) + ": " + std::string(what)};
}

Status LineSource::Fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(2 * end_ + kReadBytes);
  const Result<size_t> got = bytes_.Read(std::span(buffer_).subspan(end_, kReadBytes));
  if (!got.has_value()) {
    ++line_;  // the row that is not whole
    return Failed(got.error());
  }
  end_ += *got;
  end_of_file_ = *got == 0;
  return {};
}

Status LineSource::Failed(const Status& status) const {
  if (status.code() == StatusCode::kDataLoss) return Error(status.code(), status.message());
  Status failed = status;
  return std::move(failed).WithContext(name_);
}

Status LineSource::CheckRest() {
  while (bytes_.compressed() && !end_of_file_) {
    const Result<size_t> got = bytes_.Read(buffer_);
    if (!got.has_value()) return Failed(got.error());
    end_of_file_ = *got == 0;
  }
  return {};
}

Result<std::optional<std::string_view>> LineSource::Next() {
  size_t looked_at = 0;
  for (;;) {
    const char* start = buffer_.data() + begin_;
    const size_t there = end_ - begin_;
    const void* newline =
        there > looked_at ? std::memchr(start + looked_at, '\n', there - looked_at) : nullptr;
    if (newline == nullptr && !end_of_file_) {
      looked_at = there;
      if (there > kLineBytesMax) {
        ++line_;
        return Error(StatusCode::kInvalidArgument,
                     "a line of more than 64 MiB; expected one JSON object a line");
      }
      HF_RETURN_IF_ERROR(Fill());
      continue;
    }
    if (newline == nullptr && there == 0) return std::optional<std::string_view>();
    const size_t length =
        newline == nullptr ? there : static_cast<size_t>(static_cast<const char*>(newline) - start);
    begin_ += length + (newline == nullptr ? 0 : 1);
    ++line_;
    return std::optional(std::string_view(start, length));
  }
}

}  // namespace holdfast::internal
