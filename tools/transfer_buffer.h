// TransferBuffer: a window of payloads in the caller's memory, known to the store as slots 0, 1,
// ...
//
// Threading: thread-confined. Memory: the payloads; given back to the system only when the store no
// longer touches them. The store outlives the buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvstore/memory.h"
#include "kvstore/store.h"

namespace holdfast::tools {

class TransferBuffer {
 public:
  static constexpr size_t kSlotsMax = 32;
  static constexpr uint64_t kBytesMax = 64ull << 20;  // but for a single slot that is longer

  static Result<std::unique_ptr<TransferBuffer>> Create(Store& store, uint64_t payload_bytes);
  TransferBuffer(const TransferBuffer&) = delete;
  TransferBuffer& operator=(const TransferBuffer&) = delete;
  ~TransferBuffer();

  size_t slots() const noexcept { return slots_.size(); }
  std::span<std::byte> payload(size_t slot) const noexcept {
    return memory_.subspan(slot * stride_, payload_bytes_);
  }
  // The first `count` slots.
  Memory memory(size_t count) const noexcept {
    return {
        .kind = Memory::Kind::kSlots, .layout = layout_, .slots = std::span(slots_).first(count)};
  }

 private:
  TransferBuffer(Store& store, uint64_t payload_bytes);

  Store& store_;
  const uint64_t payload_bytes_;
  const uint64_t stride_;
  std::vector<int64_t> slots_;
  std::span<std::byte> memory_;
  RegionId region_ = 0;
  LayoutId layout_ = 0;
};

}  // namespace holdfast::tools
