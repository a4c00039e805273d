#include "tests/testing/sim_io_engine.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace holdfast::testing {

SimIoEngine::~SimIoEngine() { CompleteUntil(Instant::max()); }

void SimIoEngine::Submit(IoRequest* request) {
  ++in_flight_;
  auto operation = std::make_unique<Operation>();
  operation->transfer.Start(request, limits_);
  waiting_.push_back(std::move(operation));
  BeginWaiting(clock_.Now());
}

size_t SimIoEngine::Poll() { return CompleteUntil(clock_.Now()); }

// Like a device, it takes the next operation when the last one ends, however rarely it is polled.
size_t SimIoEngine::CompleteUntil(Instant until) {
  size_t done = 0;
  while (!begun_.empty() && *next_due() <= until) {
    std::unique_ptr<Operation> operation = TakeEarliest();
    const Instant at = operation->due;
    internal::IoTransfer& transfer = operation->transfer;
    if (!transfer.finished()) transfer.Complete(Perform(*operation));
    if (!transfer.finished()) {
      Begin(std::move(operation), at);
      continue;
    }
    BeginWaiting(at);
    IoRequest* request = transfer.request();
    request->error = transfer.error();
    --in_flight_;
    ++done;
    request->done(request);
  }
  return done;
}

void SimIoEngine::BeginWaiting(Instant at) {
  while (!waiting_.empty() && begun_.size() < options_.depth) {
    auto operation = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(std::move(operation), at);
  }
}

void SimIoEngine::Begin(std::unique_ptr<Operation> operation, Instant at) {
  const bool on_device = !operation->transfer.finished() && !crashed_;
  operation->number = ++numbers_;
  operation->due = at;
  operation->fault = {};
  if (on_device) {
    const IoKind kind = operation->transfer.request()->kind;
    operation->fault = FaultOf(kind, ++operations_[Index(kind)]);
    std::uniform_int_distribution<int64_t> latency(
        std::max<int64_t>(1, options_.latency_min.count()),
        std::max<int64_t>(1, options_.latency_max.count()));
    operation->due += Duration(latency(random_)) + operation->fault.stall;
    operation->writes_at_sync = image_.writes();
    if (!options_.reorder) operation->due = std::max(operation->due, last_due_);
    last_due_ = operation->due;
  }
  begun_.push_back(std::move(operation));
}

void SimIoEngine::Plan(const SimFault& fault) {
  planned_.push_back({fault, operations_[Index(fault.kind)] + fault.nth});
}

SimFault SimIoEngine::FaultOf(IoKind kind, uint64_t number) const {
  for (const PlannedFault& planned : planned_) {
    if (planned.fault.kind != kind || number < planned.first) continue;
    if (number - planned.first < planned.fault.times) return planned.fault;
  }
  return {};
}

int64_t SimIoEngine::Perform(Operation& operation) {
  if (crashed_) return -ENODEV;
  const SimFault& fault = operation.fault;
  const IoKind kind = operation.transfer.request()->kind;
  if (kind != IoKind::kSync) return Move(operation);
  if (fault.error != 0) {
    image_.FailSync(operation.writes_at_sync);
    return -fault.error;
  }
  image_.Sync(operation.writes_at_sync);
  return 0;
}

int64_t SimIoEngine::Move(Operation& operation) {
  const SimFault& fault = operation.fault;
  const bool read = operation.transfer.request()->kind == IoKind::kRead;
  const auto pieces = operation.transfer.NextPieces();
  if (read && fault.error != 0) return -fault.error;
  uint64_t at = operation.transfer.offset_bytes() + static_cast<uint64_t>(fault.misdirect_bytes);
  uint64_t left = fault.short_bytes.value_or(UINT64_MAX);
  int64_t moved = 0;
  for (const iovec& piece : pieces) {
    const uint64_t bytes = std::min<uint64_t>(piece.iov_len, left);
    // A place that is not on the disk is another place of it.
    const uint64_t place = at % (image_.capacity_bytes() - bytes + 1);
    const std::span<std::byte> memory(static_cast<std::byte*>(piece.iov_base), bytes);
    if (read) {
      image_.Read(place, memory);
    } else if (fault.error != 0) {
      image_.WriteTorn(place, memory, random_);
    } else {
      image_.Write(place, memory);
    }
    at += bytes;
    left -= bytes;
    moved += static_cast<int64_t>(bytes);
  }
  return fault.error != 0 ? -fault.error : moved;
}

std::optional<Instant> SimIoEngine::next_due() const {
  std::optional<Instant> earliest;
  for (const auto& operation : begun_) {
    if (!earliest || operation->due < *earliest) earliest = operation->due;
  }
  return earliest;
}

std::unique_ptr<SimIoEngine::Operation> SimIoEngine::TakeEarliest() {
  const auto earliest =
      std::min_element(begun_.begin(), begun_.end(), [](const auto& a, const auto& b) {
        return a->due != b->due ? a->due < b->due : a->number < b->number;
      });
  auto operation = std::move(*earliest);
  begun_.erase(earliest);
  return operation;
}

void SimIoEngine::Crash() {
  for (auto& operation : begun_) {
    internal::IoTransfer& transfer = operation->transfer;
    const bool write = !transfer.finished() && transfer.request()->kind == IoKind::kWrite;
    if (write) {
      operation->fault.error = ENODEV;  // leaves a torn write behind
      Move(*operation);
    }
    operation->due = clock_.Now();
  }
  image_.Crash(random_);
  crashed_ = true;
}

}  // namespace holdfast::testing
