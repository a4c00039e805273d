#include "tiers/io_transfer.h"

#include <algorithm>
#include <cerrno>

#include "kvstore/check.h"
#include "kvstore/types.h"

namespace holdfast::internal {
namespace {

bool Aligned(uint64_t value) { return value % kPageBytes == 0; }

bool Aligned(const Extent& piece) {
  return Aligned(reinterpret_cast<uintptr_t>(piece.data)) && Aligned(piece.bytes);
}

}  // namespace

void IoTransfer::Start(IoRequest* request, const IoLimits& limits) {
  HF_CHECK(request != nullptr && request->done != nullptr);
  request_ = request;
  bytes_ = moved_ = operation_bytes_ = piece_offset_ = 0;
  piece_ = 0;
  idle_tries_ = error_ = 0;
  direct_ = limits.direct;
  finished_ = asked_to_wait_ = false;
  if (request->kind == IoKind::kSync) return;
  const int error = CheckRequest(limits);
  if (error != 0 || bytes_ == 0) Finish(error);
}

int IoTransfer::CheckRequest(const IoLimits& limits) {
  if (request_->pieces.size() > kIoPiecesMax) return EINVAL;
  if (limits.direct && !Aligned(request_->offset_bytes)) return EINVAL;
  const int past_end = request_->kind == IoKind::kRead ? ENODATA : EINVAL;
  if (request_->offset_bytes > limits.capacity_bytes) return past_end;
  uint64_t room = limits.capacity_bytes - request_->offset_bytes;
  for (const Extent& piece : request_->pieces) {
    if (limits.direct && !Aligned(piece)) return EINVAL;
    if (piece.bytes > room) return past_end;
    room -= piece.bytes;
    bytes_ += piece.bytes;
  }
  return 0;
}

std::span<const iovec> IoTransfer::NextPieces() {
  HF_CHECK(!finished_);
  pieces_.clear();
  operation_bytes_ = 0;
  uint64_t skip = piece_offset_;
  for (size_t i = piece_; i < request_->pieces.size() && pieces_.size() < kIoPiecesMax; ++i) {
    const Extent& piece = request_->pieces[i];
    const uint64_t bytes = std::min(piece.bytes - skip, kIoOperationBytesMax - operation_bytes_);
    if (bytes > 0) pieces_.push_back({piece.data + skip, bytes});
    operation_bytes_ += bytes;
    skip = 0;
    if (operation_bytes_ == kIoOperationBytesMax) break;
  }
  return pieces_;
}

void IoTransfer::Complete(int64_t result) {
  HF_CHECK(!finished_);
  if (result < 0) {
    const auto error = static_cast<int>(-result);
    if (error != EAGAIN && error != EINTR) return Finish(error);
    return TryAgain(error);
  }
  if (request_->kind == IoKind::kSync) return Finish(0);
  if (result == 0 && request_->kind == IoKind::kRead) return Finish(ENODATA);
  auto bytes = static_cast<uint64_t>(result);
  if (bytes > operation_bytes_) return Finish(EIO);  // no device we know; trust none of it
  // What is left must be aligned too: a page that came in part is moved again.
  if (direct_) bytes -= bytes % kPageBytes;
  if (bytes == 0) return TryAgain(EIO);
  Advance(bytes);
  if (moved_ == bytes_) Finish(0);
}

void IoTransfer::Advance(uint64_t bytes) {
  idle_tries_ = 0;
  asked_to_wait_ = false;
  moved_ += bytes;
  piece_offset_ += bytes;
  while (piece_ < request_->pieces.size() && piece_offset_ >= request_->pieces[piece_].bytes) {
    piece_offset_ -= request_->pieces[piece_].bytes;
    ++piece_;
  }
}

void IoTransfer::TryAgain(int error) {
  asked_to_wait_ = error == EAGAIN;
  if (++idle_tries_ >= kIoIdleTriesMax) Finish(error);
}

void IoTransfer::Finish(int error) {
  finished_ = true;
  error_ = error;
}

}  // namespace holdfast::internal
