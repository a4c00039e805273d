#include "trace/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <unistd.h>

namespace holdfast::internal {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
constexpr char kGzipMagic[] = {'\x1f', '\x8b'};
constexpr int kGzipOnly = MAX_WBITS + 16;

Status NoMemory() { return {StatusCode::kResourceExhausted, "no memory for a decompressor"}; }

}  // namespace

Result<ByteSource> ByteSource::Open(int fd) {
  ByteSource source(fd);
  while (source.end_ < sizeof(kGzipMagic) && !source.end_of_file_) {
    HF_RETURN_IF_ERROR(source.Fill());
  }
  if (source.end_ < sizeof(kGzipMagic) ||
      std::memcmp(source.buffer_.data(), kGzipMagic, sizeof(kGzipMagic)) != 0) {
    return source;
  }
  source.inflate_.reset(new z_stream{});
  if (::inflateInit2(source.inflate_.get(), kGzipOnly) != Z_OK) return NoMemory();
  return source;
}

ByteSource::ByteSource(int fd) : fd_(fd), buffer_(kBufferBytes) {}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      end_(other.end_),
      end_of_file_(other.end_of_file_),
      in_member_(other.in_member_),
      inflate_(std::move(other.inflate_)) {}

ByteSource::~ByteSource() {
  if (fd_ >= 0) ::close(fd_);
}

Result<size_t> ByteSource::Read(std::span<char> target) {
  if (inflate_) return Inflate(target);
  if (begin_ == end_ && !end_of_file_) HF_RETURN_IF_ERROR(Fill());
  const size_t count = std::min(end_ - begin_, target.size());
  std::memcpy(target.data(), buffer_.data() + begin_, count);
  begin_ += count;
  return count;
}

Status ByteSource::Fill() {
  if (begin_ == end_) begin_ = end_ = 0;
  for (;;) {
    const ssize_t got = ::read(fd_, buffer_.data() + end_, buffer_.size() - end_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "cannot read the trace");
    end_ += static_cast<size_t>(got);
    end_of_file_ = got == 0;
    return {};
  }
}

Result<size_t> ByteSource::Inflate(std::span<char> target) {
  z_stream& stream = *inflate_;
  stream.next_out = reinterpret_cast<Bytef*>(target.data());
  stream.avail_out = static_cast<uInt>(std::min<size_t>(target.size(), kBufferBytes));
  const uInt room = stream.avail_out;
  while (stream.avail_out == room) {
    if (stream.msg != nullptr) {  // of the call that gave the bytes ahead of the damage, too
      return Status(StatusCode::kDataLoss,
                    std::string("the gzip stream is damaged: ") + stream.msg);
    }
    if (begin_ == end_ && !end_of_file_) HF_RETURN_IF_ERROR(Fill());
    if (begin_ == end_) {
      if (!in_member_) return size_t{0};
      return Status(StatusCode::kDataLoss, "the gzip stream ends early: the file is cut short");
    }
    if (!std::exchange(in_member_, true)) ::inflateReset(&stream);
    stream.next_in = reinterpret_cast<Bytef*>(buffer_.data() + begin_);
    stream.avail_in = static_cast<uInt>(end_ - begin_);
    const int answer = ::inflate(&stream, Z_NO_FLUSH);
    begin_ = end_ - stream.avail_in;
    if (answer == Z_STREAM_END) {
      in_member_ = false;
    } else if (answer != Z_OK && stream.msg == nullptr) {
      return NoMemory();
    }
  }
  return size_t{room - stream.avail_out};
}

}  // namespace holdfast::internal
