// PlainRocksDb: RocksDB alone, the limit of the disk tier. Tuned: the options and the file system
// of the tier. As delivered: Options() as they are, with the log and through the page cache.
//
// Threading: thread-confined; its loops start threads of their own. Memory: `memory` outlives each
// call. Errors: from the database.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/payload_memory.h"
#include "bench/sample.h"

namespace holdfast::bench {

struct RocksRun {
  const PayloadMemory& memory;
  uint32_t threads = 1;
  uint64_t bytes_max = UINT64_MAX;
  Duration time_max = Duration::max();
  uint64_t seed = 1;
};

class PlainRocksDb {
 public:
  static Result<std::unique_ptr<PlainRocksDb>> Open(const std::string& directory, bool tuned,
                                                    uint64_t write_buffer_bytes);
  PlainRocksDb(const PlainRocksDb&) = delete;
  PlainRocksDb& operator=(const PlainRocksDb&) = delete;
  ~PlainRocksDb();

  // New keys; counted to durable: tuned without the log to a flush, as delivered to a synced log.
  Result<Sample> Put(const RocksRun& run);
  // Random ones of what was put.
  Result<Sample> Get(const RocksRun& run);
  // Forgets what the page cache holds of its files.
  void DropPageCache();

 private:
  struct Impl;
  explicit PlainRocksDb(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::bench
