// The host device: memory of this process in the place of an accelerator's.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include <sys/mman.h>
#include <unistd.h>

#include "kvstore/check.h"
#include "kvstore/device.h"
#include "kvstore/mutex.h"

namespace holdfast {
namespace {

class HostDevice final : public Device {
 public:
  HostDevice() = default;
  ~HostDevice() override { HF_CHECK(sizes_.empty()); }
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  DeviceProperties properties() const override {
    const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
    const int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
    return {.name = "host",
            .memory_bytes =
                pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages * page_bytes) : 0};
  }

  Result<std::byte*> Allocate(uint64_t bytes) override {
    if (bytes == 0) {
      return Status(StatusCode::kInvalidArgument, "host device: allocation of 0 bytes");
    }
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      return Status::FromErrno(errno, "host device: mmap of " + std::to_string(bytes) + " bytes");
    }
    // Advice: a device's memory is neither dumped nor forked, and copies like large pages.
    ::madvise(mapped, bytes, MADV_HUGEPAGE);
    ::madvise(mapped, bytes, MADV_DONTDUMP);
    ::madvise(mapped, bytes, MADV_DONTFORK);
    auto* memory = static_cast<std::byte*>(mapped);
    MutexLock lock(mutex_);
    sizes_[memory] = bytes;
    return memory;
  }

  void Free(std::byte* memory) override {
    MutexLock lock(mutex_);
    const auto it = sizes_.find(memory);
    HF_CHECK(it != sizes_.end());
    ::munmap(memory, it->second);
    sizes_.erase(it);
  }

  // Nothing to pin: the copies are the processor's own.
  Status RegisterHost(std::span<std::byte>) override { return {}; }
  void UnregisterHost(std::span<std::byte>) override {}

  Result<DeviceEvent> SubmitCopies(std::span<const DeviceCopy> copies) override {
    for (const DeviceCopy& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
    return next_event_.fetch_add(1, std::memory_order_relaxed);
  }
  int Done(DeviceEvent) override { return 1; }

 private:
  std::atomic<DeviceEvent> next_event_{1};
  Mutex mutex_;
  std::unordered_map<std::byte*, uint64_t> sizes_ HF_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Device> CreateHostDevice() { return std::make_unique<HostDevice>(); }

}  // namespace holdfast
