#include "kvstore/internal/admission.h"

#include <algorithm>

namespace holdfast::internal {
namespace {

constexpr uint64_t kDayNanos = 86400ull * 1000 * 1000 * 1000;
constexpr double kBurstDays = 1.0 / 24;  // an hour's worth may be written at once

uint64_t Print(const BlockKey& key) { return key.lo >> 24; }  // 40 bits; the set comes from key.hi

}  // namespace

Status Admission::Init(uint64_t bytes_per_day, uint64_t flash_frames, Instant now) {
  bytes_per_day_ = bytes_per_day;
  refilled_ = now;
  if (!limited()) return {};
  credit_max_ = static_cast<double>(bytes_per_day) * kBurstDays;
  credit_ = credit_max_;
  sets_ = static_cast<size_t>(std::max<uint64_t>(flash_frames / kWays, 1));
  if (!table_.Allocate(sets_ * kWays)) {
    return {StatusCode::kResourceExhausted, "no address space for remembered keys"};
  }
  return {};
}

void Admission::Remember(const BlockKey& key, uint16_t request) noexcept {
  if (!limited()) return;
  uint64_t* set = &table_[(key.hi % sets_) * kWays];
  const uint64_t print = Print(key);
  for (size_t w = 0; w < kWays; ++w) {
    if (set[w] >> 24 != print) continue;
    uint64_t count = (set[w] >> 16) & 0xff;
    if (static_cast<uint16_t>(set[w]) != request) count = std::min<uint64_t>(count + 1, 255);
    std::rotate(set, set + w, set + w + 1);  // newest first
    set[0] = print << 24 | count << 16 | request;
    return;
  }
  std::rotate(set, set + kWays - 1, set + kWays);
  set[0] = print << 24 | 1ull << 16 | request;
}

bool Admission::Remembered(const BlockKey& key) const noexcept {
  if (!limited()) return false;
  const uint64_t* set = &table_[(key.hi % sets_) * kWays];
  for (size_t w = 0; w < kWays; ++w) {
    if (set[w] >> 24 == Print(key)) return ((set[w] >> 16) & 0xff) >= 2;
  }
  return false;
}

void Admission::Refill(Instant now) noexcept {
  if (now <= refilled_) return;
  credit_ = std::min(credit_max_, credit_ + static_cast<double>(bytes_per_day_) *
                                                static_cast<double>((now - refilled_).count()) /
                                                static_cast<double>(kDayNanos));
  refilled_ = now;
}

bool Admission::HasCredit(uint64_t bytes, Instant now) noexcept {
  if (!limited()) return true;
  Refill(now);
  return credit_ >= static_cast<double>(bytes);
}

void Admission::Spend(uint64_t bytes, Instant now) noexcept {
  if (!limited()) return;
  Refill(now);
  credit_ = std::max(credit_ - static_cast<double>(bytes), -credit_max_);
}

}  // namespace holdfast::internal
