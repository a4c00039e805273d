#include "trace/line_source.h"

#include <cerrno>
#include <cstring>
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
  File file(::gzdopen(fd, "rb"));  // also reads what is not compressed
  if (!file) {
    ::close(fd);
    return Status(StatusCode::kResourceExhausted, name + ": no memory for a decompressor");
  }
  ::gzbuffer(file.get(), kReadBytes);
  return LineSource(std::move(file), std::move(name));
}

LineSource::LineSource(File file, std::string name)
    : file_(std::move(file)), name_(std::move(name)) {}

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
  const int got = ::gzread(file_.get(), buffer_.data() + end_, kReadBytes);
  const int read_errno = errno;
  if (got > 0) {  // an error behind these bytes is still there at the next call
    end_ += static_cast<size_t>(got);
    return {};
  }
  int error = Z_OK;
  const char* reason = ::gzerror(file_.get(), &error);
  if (error == Z_ERRNO) return Status::FromErrno(read_errno, name_ + ": cannot read the trace");
  if (error == Z_BUF_ERROR) {
    ++line_;  // the row that is not whole
    return Error(StatusCode::kDataLoss, "the gzip stream ends early: the file is cut short");
  }
  if (error != Z_OK) {
    ++line_;
    return Error(StatusCode::kDataLoss, std::string("the gzip stream is damaged: ") + reason);
  }
  end_of_file_ = true;
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
