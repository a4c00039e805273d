#include "tiers/flash_mover.h"

#include <cstddef>
#include <utility>

#include "kvstore/frame.h"

namespace holdfast::internal {

void FlashMover::Submit(FrameOp* op, uint64_t offset_bytes) {
  Flight* flight = NewFlight();
  flight->ended.op = op;
  flight->pieces.push_back({reinterpret_cast<std::byte*>(op->header), kPageBytes});
  flight->pieces.insert(flight->pieces.end(), op->payload.begin(), op->payload.end());
  for (const Extent& piece : flight->pieces) flight->ended.bytes += piece.bytes;
  const std::span<const Extent> pieces = flight->pieces;
  flight->requests[0].offset_bytes = offset_bytes;
  if (op->offset == 0) {
    flight->requests[0].pieces = pieces;
  } else {
    flight->requests[0].pieces = pieces.first(1);
    flight->requests[1].pieces = pieces.subspan(1);
    flight->requests[1].offset_bytes = offset_bytes + kPageBytes + op->offset;
  }
  Start(flight, op->kind == FrameOpKind::kRead ? IoKind::kRead : IoKind::kWrite,
        op->offset == 0 ? 1 : 2);
}

void FlashMover::EndNow(FrameOp* op, uint64_t bytes) {
  op->finished = op->submitted;
  End({.op = op, .bytes = bytes}, nullptr);
}

void FlashMover::WritePages(FlightKind kind, GroupId group, uint64_t offset_bytes, Extent pages,
                            Pages keep) {
  Flight* flight = NewFlight();
  flight->ended.kind = kind;
  flight->ended.group = group;
  flight->ended.bytes = pages.bytes;
  flight->keep = std::move(keep);
  flight->pieces.push_back(pages);
  flight->requests[0].pieces = flight->pieces;
  flight->requests[0].offset_bytes = offset_bytes;
  Start(flight, IoKind::kWrite, 1);
}

void FlashMover::Flush() {
  Flight* flight = NewFlight();
  flight->ended.kind = FlightKind::kFlush;
  Start(flight, IoKind::kSync, 1);
}

void FlashMover::Take(std::vector<FlightEnded>& out) {
  out.clear();
  MutexLock lock(mutex_);
  std::swap(out, ended_);
}

FlashMover::Flight* FlashMover::NewFlight() {
  MutexLock lock(mutex_);
  if (idle_.empty()) {
    flights_.push_back(std::make_unique<Flight>());
    flights_.back()->mover = this;
    return flights_.back().get();
  }
  Flight* flight = idle_.back();
  idle_.pop_back();
  return flight;
}

void FlashMover::Start(Flight* flight, IoKind kind, size_t requests) {
  flight->parts.store(static_cast<int>(requests), std::memory_order_relaxed);
  // The last to end may give the flight to somebody else before the loop is over.
  for (size_t i = 0; i < requests; ++i) {
    IoRequest& request = flight->requests[i];
    request.kind = kind;
    request.done = OnDone;
    request.context = flight;
    request.error = 0;
    engine_->Submit(&request);
  }
}

void FlashMover::OnDone(IoRequest* request) {
  auto* flight = static_cast<Flight*>(request->context);
  int none = 0;
  if (request->error != 0) flight->error.compare_exchange_strong(none, request->error);
  if (flight->parts.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  FlashMover* mover = flight->mover;
  FlightEnded ended = flight->ended;
  ended.error = flight->error.load(std::memory_order_relaxed);
  if (ended.op != nullptr) mover->EndFrame(ended.op, ended.error);
  mover->End(ended, flight);
}

void FlashMover::EndFrame(FrameOp* op, int error) {
  op->os_errno = error;
  if (error != 0) {
    op->outcome = FrameOutcome::kFailed;
  } else if (op->kind == FrameOpKind::kRead) {
    op->fault = CheckHeader(*op->header, op->expect);
    if (op->fault == FrameFault::kNone) {
      op->fault = CheckPayload(op->header->fixed, op->offset, op->payload);
    }
    if (op->fault != FrameFault::kNone) op->outcome = FrameOutcome::kCorrupt;
  }
  op->finished = clock_.Now();
}

void FlashMover::End(const FlightEnded& ended, Flight* flight) {
  if (flight != nullptr) {
    flight->ended = {};
    flight->pieces.clear();
    flight->keep.reset();
    flight->error.store(0, std::memory_order_relaxed);
  }
  bool first = false;
  {
    MutexLock lock(mutex_);
    if (flight != nullptr) idle_.push_back(flight);
    first = ended_.empty();
    ended_.push_back(ended);
  }
  if (first) wake_();  // otherwise it was called, and what it woke has not come yet
}

}  // namespace holdfast::internal
