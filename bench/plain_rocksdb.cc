#include "bench/plain_rocksdb.h"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <unistd.h>

#include "kvstore/environment.h"
#include "kvstore/mutex.h"
#include "tiers/rocksdb_file_system.h"
#include "tiers/rocksdb_options.h"

namespace holdfast::bench {
namespace {

Status FromRocks(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return {};
  return Status::FromErrno(EIO, std::string("RocksDB alone: ") + what + ": " + status.ToString());
}

std::string KeyOf(uint64_t number) {
  std::string key(sizeof number, '\0');
  for (size_t i = 0; i < sizeof number; ++i) {
    key[i] = static_cast<char>(number >> (8 * (sizeof number - 1 - i)));
  }
  return key;
}

uint64_t Mix(uint64_t x) {  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

rocksdb::Slice Value(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The same loop in `threads` threads, until each answers false or fails.
class Loops {
 public:
  using One = std::function<Result<bool>(uint32_t thread, Sample& sample)>;
  Result<Sample> Run(uint32_t threads, const One& one) {
    std::vector<Sample> samples(threads);
    std::vector<std::function<void()>> joins;
    for (uint32_t i = 0; i < threads; ++i) {
      joins.push_back(SystemThreads()("bench-rocksdb", [&, i] { Loop(i, one, samples[i]); }));
    }
    Sample sum;
    for (uint32_t i = 0; i < threads; ++i) {
      if (!joins[i]) continue;
      joins[i]();
      sum.bytes += samples[i].bytes;
      sum.latencies.insert(sum.latencies.end(), samples[i].latencies.begin(),
                           samples[i].latencies.end());
    }
    MutexLock lock(mutex_);
    HF_RETURN_IF_ERROR(failed_);
    return sum;
  }

 private:
  void Loop(uint32_t thread, const One& one, Sample& sample) {
    for (;;) {
      const Instant started = Clock::System().Now();
      const Result<bool> more = one(thread, sample);
      if (!more.has_value()) {
        MutexLock lock(mutex_);
        failed_ = more.error();
        return;
      }
      if (!*more) return;
      sample.latencies.push_back(Clock::System().Now() - started);
    }
  }
  Mutex mutex_;
  Status failed_ HF_GUARDED_BY(mutex_);
};

}  // namespace

struct PlainRocksDb::Impl {
  std::string directory;
  bool tuned = false;
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::DB> db;
  std::atomic<uint64_t> keys{0};
};

PlainRocksDb::PlainRocksDb(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

PlainRocksDb::~PlainRocksDb() {
  if (impl_->db != nullptr) impl_->db->Close().PermitUncheckedError();
}

Result<std::unique_ptr<PlainRocksDb>> PlainRocksDb::Open(const std::string& directory, bool tuned,
                                                         uint64_t write_buffer_bytes) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->tuned = tuned;
  rocksdb::Options options;
  options.create_if_missing = true;
  if (tuned) {
    options = rocksdb::Options(RocksDbOptions(write_buffer_bytes),
                               RocksPayloadOptions(write_buffer_bytes));
    impl->env =
        rocksdb::NewCompositeEnv(std::make_shared<RocksFileSystem>(rocksdb::FileSystem::Default()));
    options.env = impl->env.get();
  }
  rocksdb::DB* db = nullptr;
  HF_RETURN_IF_ERROR(FromRocks(rocksdb::DB::Open(options, directory, &db), "opening it"));
  impl->db.reset(db);
  return std::unique_ptr<PlainRocksDb>(new PlainRocksDb(std::move(impl)));
}

Result<Sample> PlainRocksDb::Put(const RocksRun& run) {
  rocksdb::WriteOptions write;
  if (impl_->tuned) {
    write = RocksPayloadWrite();
    write.no_slowdown = false;  // nobody else waits here
  }
  const uint64_t payload_bytes = run.memory.payload_bytes();
  std::atomic<uint64_t> begun_bytes{0};
  const Meter meter;
  Loops loops;
  HF_ASSIGN_OR_RETURN(
      Sample sample, loops.Run(run.threads, [&](uint32_t, Sample& own) -> Result<bool> {
        if (begun_bytes.fetch_add(payload_bytes) >= run.bytes_max) return false;
        const uint64_t number = impl_->keys.fetch_add(1);
        const std::span<const std::byte> payload = run.memory.slot(number % run.memory.slots());
        HF_RETURN_IF_ERROR(
            FromRocks(impl_->db->Put(write, KeyOf(number), Value(payload)), "a put"));
        own.bytes += payload_bytes;
        return true;
      }));
  HF_RETURN_IF_ERROR(impl_->tuned ? FromRocks(impl_->db->Flush({}), "a flush")
                                  : FromRocks(impl_->db->SyncWAL(), "a sync of its log"));
  meter.Stop(sample);
  return sample;
}

Result<Sample> PlainRocksDb::Get(const RocksRun& run) {
  const uint64_t payload_bytes = run.memory.payload_bytes();
  const uint64_t keys = impl_->keys;
  std::atomic<uint64_t> turn{0};
  std::vector<rocksdb::PinnableSlice> values(run.threads);
  const Meter meter;
  const Instant end = Clock::System().Now() + run.time_max;
  Loops loops;
  HF_ASSIGN_OR_RETURN(
      Sample sample, loops.Run(run.threads, [&](uint32_t thread, Sample& own) -> Result<bool> {
        if (Clock::System().Now() >= end) return false;
        rocksdb::PinnableSlice& value = values[thread];
        value.Reset();
        const std::string key = KeyOf(Mix(run.seed + turn.fetch_add(1)) % keys);
        HF_RETURN_IF_ERROR(
            FromRocks(impl_->db->Get({}, impl_->db->DefaultColumnFamily(), key, &value), "a get"));
        if (value.size() != payload_bytes) {
          return Status(StatusCode::kDataLoss, "RocksDB alone: a value of another length");
        }
        own.bytes += payload_bytes;
        return true;
      }));
  meter.Stop(sample);
  return sample;
}

void PlainRocksDb::DropPageCache() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(impl_->directory, ignored)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

}  // namespace holdfast::bench
