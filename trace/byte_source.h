// ByteSource: the bytes of a file or of standard input, unpacked where they are gzip.
//
// A gzip stream is one member or several, as of files put one behind the other. Every member is
// checked to its end; bytes behind one that are no member are damage, not the end of the file.
//
// Threading: thread-compatible.
// Memory: 256 KiB, and a window of 32 KiB.
// Errors: kIoError carries the errno; kDataLoss: a gzip stream that is cut short or damaged. They
//   lack the name of the file, which the caller knows.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <zlib.h>

#include "kvstore/status.h"

namespace holdfast::internal {

class ByteSource {
 public:
  // Owns the descriptor.
  static Result<ByteSource> Open(int fd);
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&&) = delete;
  ~ByteSource();

  // Fills the front of `target`, which is not empty, and answers how much; 0 at the end. The bytes
  // ahead of damage come before the error.
  Result<size_t> Read(std::span<char> target);

  bool compressed() const { return inflate_ != nullptr; }

 private:
  struct End {
    void operator()(z_stream* stream) const {
      ::inflateEnd(stream);
      delete stream;
    }
  };

  explicit ByteSource(int fd);
  Status Fill();  // more of the file behind what is there; sets end_of_file_
  Result<size_t> Inflate(std::span<char> target);

  int fd_;
  std::vector<char> buffer_;  // of the file, as it is
  size_t begin_ = 0;          // of what is not used yet
  size_t end_ = 0;
  bool end_of_file_ = false;
  bool in_member_ = true;
  std::unique_ptr<z_stream, End> inflate_;  // null: not gzip
};

}  // namespace holdfast::internal
