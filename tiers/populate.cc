#include "tiers/populate.h"

#include <algorithm>
#include <cerrno>

#include <sys/mman.h>

#include "kvstore/types.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // of Linux 5.14; older headers lack it
#endif

namespace holdfast::internal {
namespace {

constexpr size_t kStepBytes = 64u << 20;

// An atomic "or" with zero is a write to the kernel and leaves what others write as it is. They
// write without atomics, which is a race in the language and none in the machine.
__attribute__((no_sanitize("thread"))) void Touch(std::span<std::byte> memory) {
  for (size_t i = 0; i < memory.size(); i += kPageBytes) {
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(&memory[i]), 0, __ATOMIC_RELAXED);
  }
}

// 0, or the errno.
int PopulateByKernel(std::span<std::byte> memory) {
  for (;;) {
    if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0) return 0;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
}

}  // namespace

void Populate(std::span<std::byte> memory, PopulateWith with, PopulateState& state) {
  while (!memory.empty() && !state.stop.load(std::memory_order_relaxed)) {
    const auto step = memory.first(std::min(kStepBytes, memory.size()));
    if (with == PopulateWith::kKernel) {
      const int error = PopulateByKernel(step);
      if (error == EINVAL || error == ENOSYS) {
        with = PopulateWith::kTouch;
        continue;
      }
      if (error != 0) return;  // no memory: touching would get the process killed for it
    } else {
      Touch(step);
    }
    state.populated_bytes.fetch_add(step.size(), std::memory_order_relaxed);
    memory = memory.subspan(step.size());
  }
}

}  // namespace holdfast::internal
