#include "tiers/rocksdb_database.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>

#include "tiers/rocksdb_options.h"

namespace holdfast {
namespace {

constexpr const char* kMetaFamily = "meta";

uint64_t FileNumber(const std::string& path) {
  const size_t slash = path.rfind('/');
  return std::strtoull(path.c_str() + (slash == std::string::npos ? 0 : slash + 1), nullptr, 10);
}

// RocksDB starts its threads when a database opens; they inherit the mask of the thread that does.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

int ErrnoOf(const rocksdb::Status& status) noexcept {
  if (status.ok()) return 0;
  return status.IsNoSpace() ? ENOSPC : EIO;
}

Status FromRocks(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return {};
  if (status.IsCorruption()) return {StatusCode::kDataLoss, what + ": " + status.ToString()};
  return Status::FromErrno(ErrnoOf(status), what + ": " + status.ToString());
}

class RocksDatabase::Listener final : public rocksdb::EventListener {
 public:
  void Observe(RocksObserver* observer) {
    MutexLock lock(mutex_);
    observer_ = observer;
  }
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& info) override {
    MutexLock lock(mutex_);
    if (observer_ != nullptr) observer_->OnFlushed(info.cf_id, info.largest_seqno);
  }
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override { Deleted(info); }
  void OnBlobFileDeleted(const rocksdb::BlobFileDeletionInfo& info) override { Deleted(info); }
  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/,
                         rocksdb::Status* error) override {
    MutexLock lock(mutex_);
    if (observer_ != nullptr) observer_->OnBackgroundError(ErrnoOf(*error));
  }

 private:
  void Deleted(const rocksdb::FileDeletionInfo& info) {
    MutexLock lock(mutex_);
    if (observer_ != nullptr && info.status.ok()) {
      observer_->OnFileDeleted(FileNumber(info.file_path));
    }
  }
  Mutex mutex_;
  RocksObserver* observer_ HF_GUARDED_BY(mutex_) = nullptr;
};

Result<std::shared_ptr<RocksDatabase>> RocksDatabase::Open(
    const std::string& directory, uint64_t write_buffer_bytes,
    const std::shared_ptr<rocksdb::FileSystem>& base) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Status::FromErrno(error.value(), "disk tier: creating " + directory);

  std::shared_ptr<RocksDatabase> database(new RocksDatabase);
  database->directory_ = directory;
  database->write_buffer_bytes_ = write_buffer_bytes;
  database->file_system_ = std::make_shared<RocksFileSystem>(base);
  database->listener_ = std::make_shared<Listener>();
  database->env_ = rocksdb::NewCompositeEnv(database->file_system_);
  if (Status status = database->OpenDb(directory); !status.ok()) {
    return std::move(status).WithContext("disk tier in " + directory);
  }
  return database;
}

Status RocksDatabase::OpenDb(const std::string& directory) {
  rocksdb::DBOptions options = RocksDbOptions(write_buffer_bytes_);
  options.env = env_.get();
  options.listeners.push_back(listener_);
  const bool created = !env_->FileExists(directory + "/CURRENT").ok();
  std::vector<std::string> names;
  if (!created) {
    // Listing takes no lock: of a directory in use it might see half a change.
    rocksdb::FileLock* probe = nullptr;
    if (env_->LockFile(directory + "/LOCK", &probe).ok()) env_->UnlockFile(probe);
    if (file_system_->lock_refused()) {
      return {StatusCode::kFailedPrecondition, "another process has it open"};
    }
    const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(options, directory, &names);
    if (!listed.ok()) {  // CURRENT is there: whatever it leads to should be readable
      return {StatusCode::kDataLoss, "its list of families is not readable: " + listed.ToString()};
    }
  }
  if (names.empty()) names = {rocksdb::kDefaultColumnFamilyName};
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) {
    const bool bucket = ParseFamilyName(name).has_value();
    if (!bucket && name != kMetaFamily && name != rocksdb::kDefaultColumnFamilyName) {
      return {StatusCode::kFailedPrecondition, "it holds the unknown family '" + name + "'"};
    }
    families.emplace_back(name,
                          bucket ? RocksPayloadOptions(write_buffer_bytes_) : RocksMetaOptions());
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  rocksdb::Status opened;
  {
    SignalsBlocked blocked;
    opened = rocksdb::DB::Open(options, directory, families, &handles, &db);
  }
  if (file_system_->lock_refused()) {
    return {StatusCode::kFailedPrecondition, "another process has it open"};
  }
  if (!opened.ok()) return FromRocks(opened, created ? "creating the database" : "opening it");
  db_.reset(db);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == kMetaFamily) {
      meta_ = handles[i];
    } else if (names[i] == rocksdb::kDefaultColumnFamilyName) {
      default_ = handles[i];
    } else {
      found_.push_back({*ParseFamilyName(names[i]), handles[i]});
    }
  }
  return CheckFormat(created);
}

Status RocksDatabase::CheckFormat(bool created) {
  if (meta_ == nullptr) {  // new, or killed before it was made
    const rocksdb::Status status = db_->CreateColumnFamily(RocksMetaOptions(), kMetaFamily, &meta_);
    if (!status.ok()) return FromRocks(status, "creating the meta family");
  }
  const rocksdb::Slice key(FormatKey().data(), FormatKey().size());
  std::string value;
  const rocksdb::Status status = db_->Get({}, meta_, key, &value);
  if (status.IsNotFound()) {
    if (!created && !found_.empty()) {
      return {StatusCode::kDataLoss, "its format version is missing"};
    }
    rocksdb::WriteOptions write;
    write.sync = true;
    return FromRocks(db_->Put(write, meta_, key, EncodeFormat(kDiskFormatVersion)),
                     "writing the format version");
  }
  if (!status.ok()) return FromRocks(status, "reading the format version");
  const std::optional<uint32_t> version = DecodeFormat(value);
  if (!version) return {StatusCode::kDataLoss, "its format version is not readable"};
  if (*version > kDiskFormatVersion) {
    return {StatusCode::kFailedPrecondition,
            "format version " + std::to_string(*version) + " is newer than " +
                std::to_string(kDiskFormatVersion) + ", the newest this program knows"};
  }
  return {};
}

RocksDatabase::~RocksDatabase() {
  if (db_ == nullptr) return;
  listener_->Observe(nullptr);
  for (const RocksFamily& family : found_) CloseFamily(family);
  if (meta_ != nullptr) CloseFamily({{}, meta_});
  if (default_ != nullptr) CloseFamily({{}, default_});
}

void RocksDatabase::Observe(RocksObserver* observer) { listener_->Observe(observer); }

std::vector<RocksFamily> RocksDatabase::TakeFamilies() { return std::exchange(found_, {}); }

Result<RocksFamily> RocksDatabase::CreateFamily(const FamilyIdentity& identity) {
  RocksFamily family{identity, nullptr};
  const std::string name = FamilyName(identity.id, identity.line);
  const rocksdb::Status status =
      db_->CreateColumnFamily(RocksPayloadOptions(write_buffer_bytes_), name, &family.handle);
  if (!status.ok()) return FromRocks(status, "disk tier in " + directory_ + ": creating " + name);
  return family;
}

std::vector<uint64_t> RocksDatabase::FilesOf(const RocksFamily& family, uint64_t* bytes) {
  rocksdb::ColumnFamilyMetaData data;
  db_->GetColumnFamilyMetaData(family.handle, &data);
  std::vector<uint64_t> numbers;
  for (const auto& level : data.levels) {
    for (const auto& file : level.files) numbers.push_back(file.file_number);
  }
  for (const auto& blob : data.blob_files) numbers.push_back(blob.blob_file_number);
  if (bytes != nullptr) *bytes = data.size + data.blob_file_size;
  return numbers;
}

Status RocksDatabase::DropFamily(const RocksFamily& family) {
  const rocksdb::Status status = db_->DropColumnFamily(family.handle);
  if (!status.ok()) return FromRocks(status, "disk tier in " + directory_ + ": dropping a family");
  CloseFamily(family);
  return {};
}

void RocksDatabase::CloseFamily(const RocksFamily& family) {
  db_->DestroyColumnFamilyHandle(family.handle).PermitUncheckedError();
}

bool RocksDatabase::FileExists(uint64_t number) {
  char name[32];
  for (const char* kind : {"sst", "blob"}) {
    std::snprintf(name, sizeof name, "/%06llu.%s", static_cast<unsigned long long>(number), kind);
    if (env_->FileExists(directory_ + name).ok()) return true;
  }
  return false;
}

}  // namespace holdfast
