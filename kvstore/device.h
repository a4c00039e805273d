// Device: memory of an accelerator, and asynchronous copies to and from it. The host device stands
// in where there is none; CUDA fits behind the same interface.
//
// Threading: thread-safe. Memory: what a copy names belongs to the device until its event is done.
// Errors: a Status with the driver's own name of the error; after a sticky one every call fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast {

struct DeviceCopy {  // one contiguous piece; the device tells host from device memory by address
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};
using DeviceEvent = uint64_t;  // of one submitted batch

struct DeviceProperties {
  std::string_view name;  // "host", or the card
  uint64_t memory_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;  // requires that nothing is in flight
  virtual DeviceProperties properties() const = 0;
  virtual Result<std::byte*> Allocate(uint64_t bytes) = 0;  // 4,096-aligned
  virtual void Free(std::byte* memory) = 0;
  virtual Status RegisterHost(std::span<std::byte> memory) = 0;  // pinned for fast copies
  virtual void UnregisterHost(std::span<std::byte> memory) = 0;
  // Starts the copies of a batch, in any order among themselves. `copies` is read before the
  // return.
  virtual Result<DeviceEvent> SubmitCopies(std::span<const DeviceCopy> copies) = 0;
  // 1 done, 0 not yet, <0 failed (then the event is over). Never waits.
  virtual int Done(DeviceEvent event) = 0;
};

// Copies with memcpy on the thread that submits; Done is at once 1.
std::unique_ptr<Device> CreateHostDevice();

}  // namespace holdfast
