// SlowDevice: a device over host memory whose copies happen when the test says so, and fail when
// it says so. Until then the target holds what it held, as with a real device.
//
// Threading: thread-safe.
#pragma once

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "kvstore/check.h"
#include "kvstore/device.h"
#include "kvstore/mutex.h"

namespace holdfast::testing {

class SlowDevice final : public Device {
 public:
  SlowDevice() = default;
  ~SlowDevice() override { HF_CHECK(queue_.empty()); }
  SlowDevice(const SlowDevice&) = delete;
  SlowDevice& operator=(const SlowDevice&) = delete;

  // Ends the oldest batches, at most `n` of them; returns how many.
  size_t Finish(size_t n = SIZE_MAX) {
    MutexLock lock(mutex_);
    size_t ended = 0;
    for (; ended < n && !queue_.empty(); ++ended) {
      const Batch& batch = queue_.front();
      const bool fail = failures_ > 0;
      if (fail) --failures_;
      for (const DeviceCopy& copy : batch.copies) {
        if (!fail) std::memcpy(copy.to, copy.from, copy.bytes);
      }
      results_[batch.event] = fail ? -1 : 1;
      queue_.pop_front();
    }
    return ended;
  }
  // The next `n` batches to end fail, without having copied anything.
  void FailNext(int n) {
    MutexLock lock(mutex_);
    failures_ = n;
  }
  // The next `n` submits are refused.
  void RefuseNext(int n) {
    MutexLock lock(mutex_);
    refusals_ = n;
  }
  size_t queued() const {
    MutexLock lock(mutex_);
    return queue_.size();
  }

  DeviceProperties properties() const override { return {.name = "slow", .memory_bytes = 1 << 30}; }
  Result<std::byte*> Allocate(uint64_t bytes) override { return host_->Allocate(bytes); }
  void Free(std::byte* memory) override { host_->Free(memory); }
  Status RegisterHost(std::span<std::byte> memory) override { return host_->RegisterHost(memory); }
  void UnregisterHost(std::span<std::byte> memory) override { host_->UnregisterHost(memory); }
  Result<DeviceEvent> SubmitCopies(std::span<const DeviceCopy> copies) override {
    MutexLock lock(mutex_);
    if (refusals_ > 0) {
      --refusals_;
      return Status::FromErrno(ENODEV, "slow device: told to refuse");
    }
    queue_.push_back({next_event_, {copies.begin(), copies.end()}});
    return next_event_++;
  }
  int Done(DeviceEvent event) override {
    MutexLock lock(mutex_);
    const auto it = results_.find(event);
    if (it == results_.end()) return 0;
    const int result = it->second;
    results_.erase(it);  // the event is over; a second question would never be answered
    return result;
  }

 private:
  struct Batch {
    DeviceEvent event = 0;
    std::vector<DeviceCopy> copies;
  };
  std::unique_ptr<Device> host_ = CreateHostDevice();
  mutable Mutex mutex_;
  std::deque<Batch> queue_ HF_GUARDED_BY(mutex_);
  std::map<DeviceEvent, int> results_ HF_GUARDED_BY(mutex_);
  DeviceEvent next_event_ HF_GUARDED_BY(mutex_) = 1;
  int failures_ HF_GUARDED_BY(mutex_) = 0;
  int refusals_ HF_GUARDED_BY(mutex_) = 0;
};

}  // namespace holdfast::testing
