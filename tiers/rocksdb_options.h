// RocksDB's options for values of 0.25 to 8 MiB that die by deadline. Each setting that is not the
// default says why in the source. Shared by the tier and by benchmarks of RocksDB alone.
//
// Threading: free functions.
#pragma once

#include <cstdint>

#include <rocksdb/options.h>

namespace holdfast {

// Two write a fifth faster, and can lose a flush for ever when one fails (rocksdb_env.h).
inline constexpr int kRocksFlushThreads = 1;

rocksdb::DBOptions RocksDbOptions(uint64_t write_buffer_bytes);
rocksdb::ColumnFamilyOptions RocksPayloadOptions(uint64_t write_buffer_bytes);
rocksdb::ColumnFamilyOptions RocksMetaOptions();

// Without the log, never waiting inside RocksDB: the tier waits, where it can be woken.
rocksdb::WriteOptions RocksPayloadWrite();

}  // namespace holdfast
