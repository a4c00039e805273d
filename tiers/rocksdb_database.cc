#include "tiers/rocksdb_database.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>
#include <sys/resource.h>

#include "tiers/rocksdb_options.h"

namespace holdfast {
namespace {

constexpr const char* kMetaFamily = "meta";

uint64_t FileNumber(const std::string& path) {
  const size_t slash = path.rfind('/');
  return std::strtoull(path.c_str() + (slash == std::string::npos ? 0 : slash + 1), nullptr, 10);
}

// RocksDB starts a thread when the first database opens; it inherits the mask of this one.
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

// How many of `wanted` files RocksDB may keep open: half of what the process may, which is raised
// where it would not do.
Result<uint64_t> OpenFilesFor(uint64_t wanted) {
  constexpr rlim_t kLeast = 128;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Status::FromErrno(errno, "getrlimit");
  if (limit.rlim_cur < kLeast) {
    const rlim_t had = std::exchange(limit.rlim_cur, kLeast);
    if (limit.rlim_max < kLeast || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      return Status(StatusCode::kResourceExhausted,
                    "the limit on open files (ulimit -n) is " + std::to_string(had) +
                        " and may not be raised; at least " + std::to_string(kLeast));
    }
  }
  return std::min<uint64_t>(wanted, limit.rlim_cur / 2);
}

Status Unreadable(const std::string& what) {
  return {StatusCode::kDataLoss,
          what +
              ". Its copies cannot be found again, nor which ones in flash were erased or of an "
              "older epoch; move this directory and the flash file away to start empty"};
}

constexpr int kErrnoMax = 133;  // of Linux

}  // namespace

int ErrnoOf(const rocksdb::Status& status) {
  if (status.ok()) return 0;
  if (status.IsNoSpace()) return ENOSPC;
  // RocksDB keeps the number as its text, at the end.
  const std::string text = status.ToString();
  for (int number = 1; number <= kErrnoMax; ++number) {
    if (text.ends_with(": " + std::generic_category().message(number))) return number;
  }
  return EIO;
}

Status FromRocks(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return {};
  std::string text = what + ": " + status.ToString();
  if (status.IsCorruption()) return {StatusCode::kDataLoss, std::move(text)};
  const int number = ErrnoOf(status);
  // FromErrno says it again.
  const std::string said = ": " + std::generic_category().message(number);
  if (text.ends_with(said)) text.resize(text.size() - said.size());
  return Status::FromErrno(number, std::move(text));
}

class RocksDatabase::Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(RocksEnv& env) : env_(env) {}
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
    if (error->severity() >= rocksdb::Status::kHardError) env_.HoldFlushes();
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
  RocksEnv& env_;
  Mutex mutex_;
  RocksObserver* observer_ HF_GUARDED_BY(mutex_) = nullptr;
};

Result<std::shared_ptr<RocksDatabase>> RocksDatabase::Open(RocksDatabaseOptions options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) return Status::FromErrno(error.value(), "disk tier: creating " + options.directory);

  std::shared_ptr<RocksDatabase> database(new RocksDatabase(std::move(options)));
  Status status;
  try {
    status = database->OpenDb();
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "opening it: no memory to be had (ulimit -v)");
  } catch (const std::system_error& refused) {
    status = Status::FromErrno(refused.code().value(), "opening it");
  }
  if (status.ok()) return database;
  return std::move(status).WithContext("disk tier in " + database->directory_);
}

Status RocksDatabase::OpenDb() {
  HF_ASSIGN_OR_RETURN(env_, RocksEnv::Create(file_system_, start_thread_));
  listener_ = std::make_shared<Listener>(*env_);
  rocksdb::DBOptions options = RocksDbOptions(write_buffer_bytes_);
  options.env = env_.get();
  options.listeners.push_back(listener_);
  HF_ASSIGN_OR_RETURN(const uint64_t files, OpenFilesFor(options.max_open_files));
  options.max_open_files = static_cast<int>(files);
  const bool created = !env_->FileExists(directory_ + "/CURRENT").ok();
  std::vector<std::string> names;
  if (!created) HF_RETURN_IF_ERROR(ListFamilies(options, names));
  if (names.empty()) names = {rocksdb::kDefaultColumnFamilyName};
  HF_RETURN_IF_ERROR(OpenFamilies(options, names));
  return CheckFormat(created);
}

Status RocksDatabase::ListFamilies(const rocksdb::DBOptions& options,
                                   std::vector<std::string>& names) {
  // Listing takes no lock: of a directory in use it might see half a change.
  rocksdb::FileLock* probe = nullptr;
  if (env_->LockFile(directory_ + "/LOCK", &probe).ok()) env_->UnlockFile(probe);
  if (file_system_->lock_refused()) {
    return {StatusCode::kFailedPrecondition, "another process has it open"};
  }
  const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(options, directory_, &names);
  if (listed.ok()) return {};
  // CURRENT is there: whatever it leads to should be readable.
  return Unreadable("its list of families is not readable: " + listed.ToString());
}

Status RocksDatabase::OpenFamilies(const rocksdb::DBOptions& options,
                                   const std::vector<std::string>& names) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) {
    const bool bucket = ParseFamilyName(name).has_value();
    if (!bucket && name != kMetaFamily && name != rocksdb::kDefaultColumnFamilyName) {
      return {StatusCode::kFailedPrecondition, "it holds the unknown family '" + name + "'"};
    }
    families.emplace_back(name,
                          bucket ? RocksPayloadOptions(write_buffer_bytes_) : RocksMetaOptions());
  }
  // RocksDB starts one thread that is not ours, and cannot go back when it is refused.
  ThreadGroup timer;
  HF_RETURN_IF_ERROR(timer.Start(start_thread_, "hf-disk-timer", [] {}));
  timer.Join();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  rocksdb::Status opened;
  {
    SignalsBlocked blocked;
    opened = rocksdb::DB::Open(options, directory_, families, &handles, &db);
  }
  if (file_system_->lock_refused()) {
    return {StatusCode::kFailedPrecondition, "another process has it open"};
  }
  if (opened.IsCorruption() || opened.IsPathNotFound()) {
    return Unreadable("opening it: " + opened.ToString());
  }
  if (!opened.ok()) return FromRocks(opened, "opening it");
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
  return {};
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
  OpenFlushes();
  for (const RocksFamily& family : found_) CloseFamily(family);
  if (meta_ != nullptr) CloseFamily({{}, meta_});
  if (default_ != nullptr) CloseFamily({{}, default_});
}

void RocksDatabase::Observe(RocksObserver* observer) { listener_->Observe(observer); }

rocksdb::Status RocksDatabase::Resume() {
  env_->BeginResume();
  rocksdb::Status status = db_->Resume();
  env_->EndResume(/*stopped=*/!status.ok() && !status.IsBusy());  // busy: it recovers by itself
  return status;
}

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
