// IoEngine: byte I/O on one file or block device. uring, pread (threads), or simulated.
//
// Usage:
//   request.kind = IoKind::kRead;  request.offset_bytes = 0;  request.pieces = pieces;
//   request.done = [](IoRequest* r) { ... };  engine.Submit(&request);
//
// Threading: thread-safe. `done` runs on a thread of the engine (ring thread), or inside Poll() for
// an engine without threads; it may verify what was read and may Submit(), and must not wait.
// Memory: the request, its pieces and the bytes belong to the engine until `done`, which comes
// exactly once for each Submit, cancelled or failed or not.
// Errors: request.error holds an errno, 0 for success. A short transfer is continued inside; one
// that cannot be continued ends as EIO. Never a partial success. Refused before the device sees
// it: EINVAL misaligned, too many pieces, or a write past capacity_bytes(); ENODATA a read past it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast {

enum class IoKind : uint8_t { kRead, kWrite, kSync };  // kSync: data reaches the medium (fdatasync)

struct IoRequest {
  IoKind kind = IoKind::kRead;
  uint64_t offset_bytes = 0;
  std::span<const Extent> pieces;  // at most pieces_max(); aligned for direct I/O
  void (*done)(IoRequest*) = nullptr;
  void* context = nullptr;  // the client's
  int error = 0;
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;  // waits for what is in flight

  virtual std::string_view name() const noexcept = 0;  // "uring", "pread", "sim"
  virtual void Submit(IoRequest* request) = 0;  // queues beyond the device depth; never blocks
  // Runs completions of an engine without threads; others return 0. Never waits.
  virtual size_t Poll() = 0;
  virtual size_t in_flight() const noexcept = 0;
  virtual uint64_t capacity_bytes() const noexcept = 0;  // of the file, preallocated
  virtual size_t pieces_max() const noexcept = 0;        // of one request; 1,000
  virtual bool direct() const noexcept = 0;              // O_DIRECT is on
};

enum class IoEngineKind : uint8_t { kAuto, kUring, kPread };

struct IoEngineOptions {
  std::string path;  // a file is created and preallocated; a block device is taken as it is
  uint64_t capacity_bytes = 0;  // multiple of 4096; an existing longer file keeps its length
  IoEngineKind kind = IoEngineKind::kAuto;  // auto: uring, and pread when probing says no
  uint32_t threads = 2;                     // 1 to 64 rings, or pread threads per 8 of depth
  uint32_t depth = 64;                      // in flight on the device in all; threads to 4096
  bool buffered = false;  // named mode without O_DIRECT; otherwise a refusal is an error
  std::function<std::function<void()>(std::string name, std::function<void()> body)> start_thread;
  // environment.h: starts `body`, returns its join
};

// Opens the file (O_DIRECT, O_CLOEXEC), preallocates, probes, starts the threads. `note` receives
// one sentence when auto fell back to pread (why).
//   kInvalidArgument  an option          kIoError  open, preallocation or probe failed; errno kept
//   kUnimplemented    the engine asked for by name is not to be had (io_uring denied, no O_DIRECT)
//   kResourceExhausted  the system refused a thread, by name
Result<std::unique_ptr<IoEngine>> OpenIoEngine(const IoEngineOptions& options, std::string* note);

}  // namespace holdfast
