// A RocksDB disk tier in a directory of its own, with a bell for its wake, removed at the end.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include "kvstore/mutex.h"
#include "kvstore/tiers.h"
#include "tests/testing/start_thread.h"
#include "tiers/rocksdb_tier.h"

namespace holdfast::testing {

class Bell {
 public:
  void Ring() {
    MutexLock lock(mutex_);
    rung_ = true;
    changed_.NotifyAll();
  }
  // Until it rang since the last time, at most 10 ms.
  void Wait() {
    MutexLock lock(mutex_);
    if (!rung_) changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
    rung_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool rung_ HF_GUARDED_BY(mutex_) = false;
};

class DiskDirectory {
 public:
  DiskDirectory() {
    std::string name = (std::filesystem::current_path() / "disk_tier.XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~DiskDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  DiskDirectory(const DiskDirectory&) = delete;
  DiskDirectory& operator=(const DiskDirectory&) = delete;

  const std::string& path() const { return path_; }
  Bell& bell() { return bell_; }
  DiskTierOptions Options(uint64_t capacity_bytes) const {
    DiskTierOptions options;
    options.directory = path_;
    options.capacity_bytes = capacity_bytes;
    options.write_buffer_bytes = 32 << 20;
    options.start_thread = StartThread;
    return options;
  }
  Result<DiskTier> Open(
      const DiskTierOptions& options,
      const std::shared_ptr<rocksdb::FileSystem>& files = rocksdb::FileSystem::Default()) {
    return OpenRocksDisk(
        Clock::System(), [this] { bell_.Ring(); }, options, files);
  }
  Result<std::shared_ptr<RocksDatabase>> OpenDatabase() const {
    return RocksDatabase::Open({.directory = path_,
                                .write_buffer_bytes = 32 << 20,
                                .file_system = rocksdb::FileSystem::Default(),
                                .start_thread = StartThread});
  }
  uint64_t BytesOf(const std::string& extension) const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::error_code error;
      const uint64_t size = entry.file_size(error);
      if (!error && entry.path().extension() == extension) bytes += size;
    }
    return bytes;
  }

 private:
  std::string path_;
  Bell bell_;
};

}  // namespace holdfast::testing
