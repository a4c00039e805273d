// IoFile: the file or block device below an I/O engine. Opening it checks everything that can be
// wrong before the first request: kind, size, space, O_DIRECT.
//
// Not responsible for who owns the directory (its lock) nor for what the bytes mean.
//
// Threading: immutable after Open. Memory: owns the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kvstore/io_engine.h"
#include "kvstore/status.h"

namespace holdfast::internal {

class IoFile {
 public:
  // Opens options.path for reading and writing; creates and preallocates a regular file.
  //   kInvalidArgument  capacity; neither a file nor a block device; a device that is too small
  //   kUnimplemented    O_DIRECT is refused and options.buffered is off
  //   kIoError          any other refusal of the system; errno kept
  // A file that this call created is gone after a failure.
  static Result<std::unique_ptr<IoFile>> Open(const IoEngineOptions& options);
  ~IoFile();
  IoFile(const IoFile&) = delete;
  IoFile& operator=(const IoFile&) = delete;

  int fd() const noexcept { return fd_; }
  uint64_t capacity_bytes() const noexcept { return capacity_bytes_; }
  bool direct() const noexcept { return direct_; }
  const std::string& path() const noexcept { return path_; }

  // Fills `page`, one aligned page, with the first of the file.
  Status ReadFirstPage(std::byte* page) const;
  // For the opener that fails after all: removes the file if Open created it.
  void RemoveIfCreated();

 private:
  IoFile(std::string path, uint64_t capacity_bytes, bool direct)
      : path_(std::move(path)), capacity_bytes_(capacity_bytes), direct_(direct) {}
  Status OpenDescriptor();
  Status Reserve();
  Status ReserveFile(uint64_t file_bytes, uint64_t allocated_bytes);
  Status CheckDevice() const;
  Status NoDirect() const;
  Status NoSpace(uint64_t missing_bytes, uint64_t free_bytes) const;

  std::string path_;
  uint64_t capacity_bytes_;
  bool direct_;
  bool created_ = false;
  int fd_ = -1;
};

}  // namespace holdfast::internal
