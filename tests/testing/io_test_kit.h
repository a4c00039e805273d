// What tests of I/O engines share: aligned memory, a directory of their own, a request to wait for.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <stdlib.h>

#include "kvstore/check.h"
#include "kvstore/io_engine.h"
#include "kvstore/mutex.h"
#include "kvstore/types.h"

namespace holdfast::testing {

// Page-aligned bytes; filled with a pattern that differs for each seed and position.
class IoMemory {
 public:
  explicit IoMemory(uint64_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(
            ::operator new (std::max<uint64_t>(bytes, 1), std::align_val_t{kPageBytes}))) {
    Fill(0);
  }
  ~IoMemory() { ::operator delete (data_, std::align_val_t{kPageBytes}); }
  IoMemory(const IoMemory&) = delete;
  IoMemory& operator=(const IoMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  uint64_t size() const noexcept { return bytes_; }
  std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }
  Extent extent() const noexcept { return {data_, bytes_}; }

  void Fill(uint64_t seed) {
    uint64_t word = (seed + 1) * 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < bytes_; i += sizeof(word)) {
      word += 0xbf58476d1ce4e5b9u;
      const uint64_t mixed = word ^ word >> 29;
      std::memcpy(data_ + i, &mixed, std::min<uint64_t>(sizeof(mixed), bytes_ - i));
    }
  }
  // memcmp: std::equal goes byte by byte in unoptimised builds.
  bool EqualsAt(const std::byte* other) const { return std::memcmp(data_, other, bytes_) == 0; }
  bool operator==(const IoMemory& other) const {
    return bytes_ == other.bytes_ && EqualsAt(other.data_);
  }

 private:
  uint64_t bytes_;
  std::byte* data_;
};

// A directory on the disk of the build, removed at the end.
class IoDirectory {
 public:
  IoDirectory() : path_((std::filesystem::current_path() / "io_test_XXXXXX").string()) {
    HF_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~IoDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  IoDirectory(const IoDirectory&) = delete;
  IoDirectory& operator=(const IoDirectory&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// A request whose end can be waited for from another thread, and that counts its ends.
class WaitableRequest {
 public:
  WaitableRequest(IoKind kind, uint64_t offset_bytes, std::vector<Extent> pieces)
      : pieces_(std::move(pieces)) {
    request_.kind = kind;
    request_.offset_bytes = offset_bytes;
    request_.pieces = pieces_;
    request_.context = this;
    request_.error = -1;
    request_.done = [](IoRequest* r) { static_cast<WaitableRequest*>(r->context)->OnDone(); };
  }
  WaitableRequest(const WaitableRequest&) = delete;
  WaitableRequest& operator=(const WaitableRequest&) = delete;

  IoRequest* get() noexcept { return &request_; }
  int error() const noexcept { return request_.error; }
  int times_done() {
    MutexLock lock(mutex_);
    return times_done_;
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (times_done_ == 0) changed_.Wait(mutex_);
  }

 private:
  void OnDone() {
    MutexLock lock(mutex_);
    ++times_done_;
    changed_.NotifyAll();
  }

  std::vector<Extent> pieces_;
  IoRequest request_;
  Mutex mutex_;
  CondVar changed_;
  int times_done_ HF_GUARDED_BY(mutex_) = 0;
};

}  // namespace holdfast::testing
