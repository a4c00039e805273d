// PayloadMemory: slots of one payload each, in memory of the kind that a caller would have: huge
// pages, or a file in /dev/shm that another process could map.
//
// Threading: thread-compatible. Memory: a mapping of its own, populated at creation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast::bench {

class PayloadMemory {
 public:
  enum class Kind : uint8_t { kHugePages, kShared };
  static Result<std::unique_ptr<PayloadMemory>> Create(Kind kind, uint64_t payload_bytes,
                                                       size_t slots);
  PayloadMemory(const PayloadMemory&) = delete;
  PayloadMemory& operator=(const PayloadMemory&) = delete;
  ~PayloadMemory();

  std::span<std::byte> bytes() const noexcept { return memory_; }
  uint64_t payload_bytes() const noexcept { return payload_bytes_; }
  uint64_t stride() const noexcept { return RoundUp(payload_bytes_, kPageBytes); }
  size_t slots() const noexcept { return memory_.size() / stride(); }
  std::span<std::byte> slot(size_t i) const noexcept {
    return memory_.subspan(i * stride(), payload_bytes_);
  }

 private:
  PayloadMemory(std::span<std::byte> memory, uint64_t payload_bytes) noexcept
      : memory_(memory), payload_bytes_(payload_bytes) {}

  std::span<std::byte> memory_;
  uint64_t payload_bytes_;
};

}  // namespace holdfast::bench
