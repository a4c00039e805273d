#include "kvstore/internal/core.h"

#include <cstdlib>
#include <utility>

#include "kvstore/check.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

constexpr uint32_t kSampleEvery = 64;  // locked sections whose CPU time is taken

}  // namespace

Section::Section(Core& core) : core_(core) {
  core_.mutex_.lock();
  if (core_.sections_++ % kSampleEvery == 0) cpu_started_ns_ = ThreadCpuNanos();
}

Section::~Section() {
  Outbox outbox = std::exchange(core_.outbox_, {});
  if (cpu_started_ns_ != 0) {
    core_.counters_.lock_hold.Add(Duration(ThreadCpuNanos() - cpu_started_ns_));
  }
  core_.mutex_.unlock();
  core_.Flush(outbox);
}

void Core::Flush(Outbox& outbox) {
  for (Transfer* t : outbox.submits) Submit(t);
  for (auto& job : outbox.jobs) jobs_.Push(std::move(job));
  for (auto& [queue, completion] : outbox.completions) queue->Push(std::move(completion));
  if (outbox.wake_waiters) changed_.NotifyAll();
  if (outbox.ring || !outbox.submits.empty()) waiter_->Ring();
}

// Copies of a device may run on the thread that submits them, which must not be the driver.
void Core::Submit(Transfer* transfer) {
  Tier* tier = tiers_[transfer->tier].get();
  if (transfer->tier == kHbm) {
    jobs_.Push([tier, transfer] { tier->Submit(&transfer->io); });
  } else {
    tier->Submit(&transfer->io);
  }
}

Status Core::CheckAlive() const {
  if (Forked()) {
    return {StatusCode::kFailedPrecondition, "store: opened before fork(); open it in the child"};
  }
  if (closed_.load(std::memory_order_acquire)) {
    return {StatusCode::kFailedPrecondition, "store: closed"};
  }
  return {};
}

HoldMillis Core::HoldNow() noexcept {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(hold_clock_->Now() - hold_base_);
  return hold_base_ms_ + since.count();
}

void Core::Log(LogLevel level, const std::string& line) const {
  if (environment_.log) environment_.log(level, line);
}

bool Core::EpochCurrent(const Blocks& blocks) const {
  return blocks.space() < spaces_.size() && spaces_[blocks.space()].key.epoch == blocks.epoch();
}

// Requests are told apart by 16 bits, enough not to count one twice; 0 means none yet.
uint16_t Core::FoldRequest(uint64_t request) {
  if (request == 0) {
    if (++next_request_ == 0) ++next_request_;
    return next_request_;
  }
  const uint64_t mixed = request * 0x9e3779b97f4a7c15ull;
  const auto folded = static_cast<uint16_t>(mixed >> 48);
  return folded == 0 ? uint16_t{1} : folded;
}

uint8_t Core::ClassFor(Hold hold, Status& status) const {
  const uint8_t c = ledger_.holds.ClassOf(hold.ttl);
  if (c != Holds::kTooLong && hold.ttl >= Duration::zero()) return c;
  status = Status(StatusCode::kInvalidArgument,
                  "hold.ttl: " + std::to_string(std::chrono::duration<double>(hold.ttl).count()) +
                      " s; it must be 0 to the longest class of this store, " +
                      std::to_string(ledger_.holds.ttl_ms(ledger_.holds.classes()) / 1000) + " s");
  return 0;
}

FrameHeader* Core::TakeHeader() {
  if (headers_.empty()) {
    void* page = std::aligned_alloc(kPageBytes, sizeof(FrameHeader));
    HF_CHECK(page != nullptr);
    return new (page) FrameHeader{};
  }
  FrameHeader* header = headers_.back();
  headers_.pop_back();
  return header;
}

void Core::GiveHeader(FrameHeader* header) {
  if (header != nullptr) headers_.push_back(header);
}

}  // namespace holdfast::internal
