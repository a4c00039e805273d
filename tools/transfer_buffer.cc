#include "tools/transfer_buffer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <numeric>

#include <sys/mman.h>

namespace holdfast::tools {

TransferBuffer::TransferBuffer(Store& store, uint64_t payload_bytes)
    : store_(store),
      payload_bytes_(payload_bytes),
      stride_(RoundUp(payload_bytes, kPageBytes)),
      slots_(std::clamp<uint64_t>(kBytesMax / stride_, 1, kSlotsMax)) {
  std::iota(slots_.begin(), slots_.end(), 0);
}

Result<std::unique_ptr<TransferBuffer>> TransferBuffer::Create(Store& store,
                                                               uint64_t payload_bytes) {
  std::unique_ptr<TransferBuffer> buffer(new TransferBuffer(store, payload_bytes));
  const size_t bytes = buffer->slots_.size() * buffer->stride_;
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status::FromErrno(errno, "no memory for a window of " + std::to_string(bytes) +
                                        " bytes; choose a smaller --payload or --concurrency");
  }
  ::madvise(data, bytes, MADV_HUGEPAGE);  // a hint
  buffer->memory_ = {static_cast<std::byte*>(data), bytes};
  HF_ASSIGN_OR_RETURN(buffer->region_, store.AddRegion(buffer->memory_));
  const std::array stripes = {Stripe{
      .region = buffer->region_, .offset = 0, .stride = buffer->stride_, .bytes = payload_bytes}};
  HF_ASSIGN_OR_RETURN(buffer->layout_, store.AddLayout(stripes));
  return buffer;
}

TransferBuffer::~TransferBuffer() {
  if (memory_.empty()) return;
  constexpr Duration kWaitMax = std::chrono::seconds(10);
  if (region_ != 0 && !store_.RemoveRegion(region_, Clock::System().Now() + kWaitMax).ok()) {
    return;  // a device may still write there: the process keeps the memory
  }
  ::munmap(memory_.data(), memory_.size());
}

}  // namespace holdfast::tools
