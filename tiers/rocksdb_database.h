// RocksDatabase: one opened RocksDB directory, shared by the tier and the meta store. It knows the
// directory's format, its families and its lock; what they mean is the business of its users.
//
// Threading: thread-safe. The observer is called from threads of RocksDB, never after Observe(null)
// returned.
// Memory: handles of families are the caller's, given back with DropFamily or CloseFamily before
// the database goes. Errors: kFailedPrecondition: another process owns the directory, or a newer
// version wrote it; kDataLoss: it is not readable as a database; kResourceExhausted: a thread,
// memory or files are not to be had; kIoError: the system said no.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/db.h>

#include "kvstore/mutex.h"
#include "kvstore/status.h"
#include "tiers/disk_records.h"
#include "tiers/rocksdb_env.h"
#include "tiers/rocksdb_file_system.h"

namespace holdfast {

class RocksObserver {
 public:
  virtual ~RocksObserver() = default;
  // What the family holds up to this sequence number is on the medium.
  virtual void OnFlushed(uint32_t family_id, uint64_t sequence) = 0;
  virtual void OnFileDeleted(uint64_t number) = 0;
  virtual void OnBackgroundError(int os_errno) = 0;
};

// A bucket's family: the handle is owned by whoever holds this.
struct RocksFamily {
  FamilyIdentity identity;
  rocksdb::ColumnFamilyHandle* handle = nullptr;
};

struct RocksDatabaseOptions {
  std::string directory;
  uint64_t write_buffer_bytes = 0;
  std::shared_ptr<rocksdb::FileSystem> file_system;  // below RocksFileSystem
  StartThread start_thread;
};

class RocksDatabase {
 public:
  static Result<std::shared_ptr<RocksDatabase>> Open(RocksDatabaseOptions options);
  ~RocksDatabase();
  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;

  rocksdb::DB& db() noexcept { return *db_; }
  rocksdb::ColumnFamilyHandle* meta() noexcept { return meta_; }
  const RocksFileCounters& counters() const noexcept { return file_system_->counters(); }
  void Observe(RocksObserver* observer);
  // After a background error; the only way in which it may be called.
  rocksdb::Status Resume();
  void OpenFlushes() { env_->OpenFlushes(); }  // before the end: nothing waits for a Resume

  std::vector<RocksFamily> TakeFamilies();  // found at open; once
  Result<RocksFamily> CreateFamily(const FamilyIdentity& identity);
  // Numbers of the files it leaves behind; each is deleted some time later.
  std::vector<uint64_t> FilesOf(const RocksFamily& family, uint64_t* bytes);
  Status DropFamily(const RocksFamily& family);  // on success its handle is gone
  void CloseFamily(const RocksFamily& family);
  bool FileExists(uint64_t number);

 private:
  class Listener;
  explicit RocksDatabase(RocksDatabaseOptions options)
      : directory_(std::move(options.directory)),
        write_buffer_bytes_(options.write_buffer_bytes),
        start_thread_(std::move(options.start_thread)),
        file_system_(std::make_shared<RocksFileSystem>(options.file_system)) {}
  Status OpenDb();
  Status ListFamilies(const rocksdb::DBOptions& options, std::vector<std::string>& names);
  Status OpenFamilies(const rocksdb::DBOptions& options, const std::vector<std::string>& names);
  Status CheckFormat(bool created);

  const std::string directory_;
  const uint64_t write_buffer_bytes_;
  const StartThread start_thread_;
  std::shared_ptr<RocksFileSystem> file_system_;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<RocksEnv> env_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* default_ = nullptr;
  rocksdb::ColumnFamilyHandle* meta_ = nullptr;
  std::vector<RocksFamily> found_;
};

int ErrnoOf(const rocksdb::Status& status);  // 0: ok
Status FromRocks(const rocksdb::Status& status, const std::string& what);

}  // namespace holdfast
