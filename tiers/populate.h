// Populate: gives memory its pages ahead of use, while others may already use it.
//
// Threading: thread-safe. Memory: contents stay as they are. Errors: none; a page that cannot be
// had now comes, or fails, at its first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::internal {

enum class PopulateWith : uint8_t {
  kKernel,  // MADV_POPULATE_WRITE (Linux 5.14); touches where the kernel lacks it
  kTouch,   // one atomic write of nothing a page
};

struct PopulateState {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> populated_bytes{0};  // so far, of all calls
};

// Goes through `memory` in steps of 64 MiB until told to stop, or until the kernel has none left.
void Populate(std::span<std::byte> memory, PopulateWith with, PopulateState& state);

}  // namespace holdfast::internal
