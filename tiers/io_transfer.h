// IoTransfer: one request on its way through an engine, as a run of device operations. It checks
// the request, cuts it, and goes on after what devices do: short transfers, EAGAIN, EINTR. Every
// engine uses it, so every engine fails the same way.
//
//   transfer.Start(request, limits);
//   while (!transfer.finished()) transfer.Complete(<preadv of transfer.NextPieces()>);
//   request->error = transfer.error();
//
// Threading: thread-confined. Memory: borrows the request; keeps one array of iovecs, reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "kvstore/io_engine.h"

namespace holdfast::internal {

inline constexpr size_t kIoPiecesMax = 1000;  // the kernel's limit is 1,024
// Of one device operation: 4 MiB of payload with its header stay together.
inline constexpr uint64_t kIoOperationBytesMax = FrameBytes(4u << 20);
inline constexpr int kIoIdleTriesMax = 16;  // without a byte moved; then the request fails

struct IoLimits {
  uint64_t capacity_bytes = 0;
  bool direct = true;  // offset, addresses and lengths must be multiples of kPageBytes
};

class IoTransfer {
 public:
  // Finished at once when the request is empty or refused: EINVAL misaligned, too many pieces or a
  // write past capacity_bytes; ENODATA a read past it.
  void Start(IoRequest* request, const IoLimits& limits);

  bool finished() const noexcept { return finished_; }
  int error() const noexcept { return error_; }
  IoRequest* request() const noexcept { return request_; }
  uint64_t bytes() const noexcept { return bytes_; }

  // The next device operation of a request that is not finished. Valid until Complete().
  std::span<const iovec> NextPieces();
  uint64_t offset_bytes() const noexcept { return request_->offset_bytes + moved_; }
  // The last try ended in EAGAIN: the next one had better be allowed to block.
  bool asked_to_wait() const noexcept { return asked_to_wait_; }

  // What the operation returned: bytes moved, or -errno.
  void Complete(int64_t result);

 private:
  int CheckRequest(const IoLimits& limits);
  void Advance(uint64_t bytes);
  void TryAgain(int error);
  void Finish(int error);

  IoRequest* request_ = nullptr;
  uint64_t bytes_ = 0;  // of the whole request
  uint64_t moved_ = 0;
  uint64_t operation_bytes_ = 0;
  size_t piece_ = 0;           // the next byte is here ...
  uint64_t piece_offset_ = 0;  // ... this far in
  int idle_tries_ = 0;
  int error_ = 0;
  bool direct_ = true;
  bool finished_ = false;
  bool asked_to_wait_ = false;
  std::vector<iovec> pieces_;
};

}  // namespace holdfast::internal
