#include "tiers/rocksdb_options.h"

#include <algorithm>

#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

namespace holdfast {

rocksdb::DBOptions RocksDbOptions(uint64_t write_buffer_bytes) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.use_direct_reads = true;  // the page cache is the server's
  options.use_direct_io_for_flush_and_compaction = true;
  options.writable_file_max_buffer_size = 4 << 20;  // direct writes of 4 MiB
  options.db_write_buffer_size = write_buffer_bytes;
  options.max_background_jobs = 4;
  options.max_background_flushes = kRocksFlushThreads;
  options.delayed_write_rate = 4ull << 30;
  options.avoid_unnecessary_blocking_io = true;  // files are deleted behind, not by who drops
  options.avoid_flush_during_shutdown = true;    // the store decides what is flushed, and when
  options.max_bgerror_resume_count = 0;          // the tier resumes, so that it knows
  options.max_total_wal_size = 16 << 20;
  options.max_open_files = 1024;
  options.max_file_opening_threads = 1;  // it cannot bear that one of several is refused
  options.skip_stats_update_on_db_open = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.keep_log_file_num = 2;
  options.max_log_file_size = 4 << 20;
  return options;
}

rocksdb::ColumnFamilyOptions RocksPayloadOptions(uint64_t write_buffer_bytes) {
  rocksdb::ColumnFamilyOptions options;
  options.enable_blob_files = true;
  options.min_blob_size = 4096;
  options.blob_file_size = 256ull << 20;
  options.enable_blob_garbage_collection = false;  // a family goes as a whole
  options.compression = rocksdb::kNoCompression;   // KV bytes do not compress
  options.write_buffer_size = std::max<uint64_t>(write_buffer_bytes / 4, 1 << 20);
  options.max_write_buffer_number = 4;
  // Tables hold little but references to blobs and never overlap by more than what was in flight:
  // merging them would win nothing.
  options.disable_auto_compactions = true;
  options.level0_file_num_compaction_trigger = 1000;
  options.level0_slowdown_writes_trigger = 100'000;
  options.level0_stop_writes_trigger = 200'000;
  options.soft_pending_compaction_bytes_limit = 0;
  options.hard_pending_compaction_bytes_limit = 0;
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::ColumnFamilyOptions RocksMetaOptions() {
  rocksdb::ColumnFamilyOptions options;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 4 << 20;
  return options;
}

rocksdb::WriteOptions RocksPayloadWrite() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  options.no_slowdown = true;
  return options;
}

}  // namespace holdfast
