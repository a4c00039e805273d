// PlainIo: the limit that flash is measured against. One thread, one ring, O_DIRECT, payloads at
// frame-aligned offsets; nothing is checked, indexed or shared.
//
//   auto file = *PlainIo::Open(path, bytes, /*create=*/true);
//   Sample reads = *file->Read({.memory = memory, .in_flight = 8, .time_max = 250ms});
//
// Threading: thread-confined. Memory: `memory` outlives each call; nothing is in flight after it.
// Errors: kIoError with errno.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/payload_memory.h"
#include "bench/sample.h"

namespace holdfast::bench {

struct PlainRun {
  const PayloadMemory& memory;
  uint32_t in_flight = 1;
  uint64_t bytes_max = UINT64_MAX;
  Duration time_max = Duration::max();
  uint64_t seed = 1;
  bool header = false;  // vectored: a page of its own ahead of the payload, as a frame has
};

class PlainIo {
 public:
  // Reads and writes stay in the first `bytes` of the file. With `create` it is made and
  // preallocated.
  static Result<std::unique_ptr<PlainIo>> Open(const std::string& path, uint64_t bytes,
                                               bool create);
  PlainIo(const PlainIo&) = delete;
  PlainIo& operator=(const PlainIo&) = delete;
  ~PlainIo();

  // At random places.
  Result<Sample> Read(const PlainRun& run);
  // One after the other, on from where the last call ended, round and round; an fdatasync after
  // each 256 MiB and at the end.
  Result<Sample> Write(const PlainRun& run);

 private:
  PlainIo(int fd, uint64_t bytes) noexcept : fd_(fd), bytes_(bytes) {}
  Result<Sample> Run(const PlainRun& run, bool write);

  const int fd_;
  const uint64_t bytes_;
  uint64_t next_write_ = 0;
};

}  // namespace holdfast::bench
