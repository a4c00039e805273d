#include "tiers/rocksdb_file_system.h"

#include <algorithm>
#include <utility>

#include "kvstore/types.h"

namespace holdfast {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus MayTryAgain(IOStatus status) {
  if (status.IsIOError()) status.SetRetryable(true);
  return status;
}

class WritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WritableFile(std::unique_ptr<rocksdb::FSWritableFile> file,
               std::shared_ptr<RocksFileCounters> counters)
      : FSWritableFileOwnerWrapper(std::move(file)), counters_(std::move(counters)) {}

  size_t GetRequiredBufferAlignment() const override {
    return std::max<size_t>(kPageBytes, target()->GetRequiredBufferAlignment());
  }
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return Counted(data, target()->Append(data, options, debug));
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    return Counted(data, target()->Append(data, options, info, debug));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* debug) override {
    return Counted(data, target()->PositionedAppend(data, offset, options, debug));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo& info,
                            IODebugContext* debug) override {
    return Counted(data, target()->PositionedAppend(data, offset, options, info, debug));
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    return MayTryAgain(target()->Flush(options, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return MayTryAgain(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return MayTryAgain(target()->Fsync(options, debug));
  }
  IOStatus Truncate(uint64_t bytes, const IOOptions& options, IODebugContext* debug) override {
    return MayTryAgain(target()->Truncate(bytes, options, debug));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return MayTryAgain(target()->Close(options, debug));
  }

 private:
  IOStatus Counted(const Slice& data, IOStatus status) {
    if (status.ok()) {
      counters_->written_bytes.fetch_add(data.size(), std::memory_order_relaxed);
    }
    return MayTryAgain(std::move(status));
  }
  std::shared_ptr<RocksFileCounters> counters_;
};

class ReadableFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  ReadableFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file,
               std::shared_ptr<RocksFileCounters> counters)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), counters_(std::move(counters)) {}

  size_t GetRequiredBufferAlignment() const override {
    return std::max<size_t>(kPageBytes, target()->GetRequiredBufferAlignment());
  }
  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions& options, Slice* result,
                char* scratch, IODebugContext* debug) const override {
    IOStatus status = target()->Read(offset, bytes, options, result, scratch, debug);
    if (status.ok()) {
      counters_->read_bytes.fetch_add(result->size(), std::memory_order_relaxed);
    }
    return status;
  }

 private:
  std::shared_ptr<RocksFileCounters> counters_;
};

}  // namespace

IOStatus RocksFileSystem::NewWritableFile(const std::string& name,
                                          const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSWritableFile>* out,
                                          IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  IOStatus status = target()->NewWritableFile(name, options, &file, debug);
  if (status.ok()) *out = std::make_unique<WritableFile>(std::move(file), counters_);
  return MayTryAgain(std::move(status));
}

IOStatus RocksFileSystem::NewRandomAccessFile(const std::string& name,
                                              const rocksdb::FileOptions& options,
                                              std::unique_ptr<rocksdb::FSRandomAccessFile>* out,
                                              IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  IOStatus status = target()->NewRandomAccessFile(name, options, &file, debug);
  if (status.ok()) *out = std::make_unique<ReadableFile>(std::move(file), counters_);
  return status;
}

IOStatus RocksFileSystem::LockFile(const std::string& name, const IOOptions& options,
                                   rocksdb::FileLock** lock, IODebugContext* debug) {
  IOStatus status = target()->LockFile(name, options, lock, debug);
  if (!status.ok()) lock_refused_.store(true, std::memory_order_relaxed);
  return status;
}

}  // namespace holdfast
