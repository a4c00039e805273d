// Opening: the directory and its owner, the arena, the tiers, recovery, the threads.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"
#include "kvstore/tiers.h"

namespace holdfast::internal {
namespace {

constexpr uint64_t kIdentityMagic = 0x3144495453464c48;  // "HLFSTID1"

// directory/IDENTITY: who the directory is, and the secret of its keys.
struct IdentityFile {
  uint64_t magic;
  uint64_t version;
  std::array<std::byte, 32> secret;
  BlockKey store_id;
  uint64_t checksum;
};

Status Errno(const std::string& what) { return Status::FromErrno(errno, what); }

Status RandomBytes(std::span<std::byte> out) {
  for (size_t done = 0; done < out.size();) {
    const ssize_t n = getrandom(out.data() + done, out.size() - done, 0);
    if (n < 0 && errno != EINTR) return Errno("getrandom");
    if (n > 0) done += static_cast<size_t>(n);
  }
  return {};
}

Status WriteWhole(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = path + ".new";
  const int fd = open(temporary.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return Errno(temporary);
  const ssize_t n = write(fd, bytes.data(), bytes.size());
  const bool good = n == static_cast<ssize_t>(bytes.size()) && fsync(fd) == 0;
  const int error = n >= 0 && !good && errno == 0 ? ENOSPC : errno;
  close(fd);
  if (!good) {
    unlink(temporary.c_str());
    return Status::FromErrno(error, temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return Errno(path);
  return {};
}

uint64_t IdentityChecksum(const IdentityFile& f) {
  return Checksum64({reinterpret_cast<const std::byte*>(&f), offsetof(IdentityFile, checksum)});
}

// Reads the identity, or makes one where there is none.
Result<IdentityFile> LoadIdentity(const std::string& path) {
  IdentityFile f{};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t n = read(fd, &f, sizeof f);
    close(fd);
    if (n == sizeof f && f.magic == kIdentityMagic && f.version > 1) {
      return Status(StatusCode::kFailedPrecondition,
                    path + ": format version " + std::to_string(f.version) +
                        " is newer than this build, which knows 1");
    }
    if (n != sizeof f || f.magic != kIdentityMagic || f.checksum != IdentityChecksum(f)) {
      return Status(StatusCode::kDataLoss,
                    path +
                        ": not an identity of a store; without it nothing stored here can be "
                        "found: empty the directory to start anew");
    }
    return f;
  }
  if (errno != ENOENT) return Errno(path);
  f.magic = kIdentityMagic;
  f.version = 1;
  HF_RETURN_IF_ERROR(RandomBytes(f.secret));
  HF_RETURN_IF_ERROR(RandomBytes({reinterpret_cast<std::byte*>(&f.store_id), sizeof f.store_id}));
  f.checksum = IdentityChecksum(f);
  HF_RETURN_IF_ERROR(WriteWhole(path, {reinterpret_cast<const std::byte*>(&f), sizeof f}));
  return f;
}

// Creates the last component, or all of them.
Status MakeDirectory(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return Errno("directory " + part);
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Errno("directory " + path);
  if (!S_ISDIR(info.st_mode)) return Status::FromErrno(ENOTDIR, "directory " + path);
  return {};
}

// Bit c: granted copies of hold class c do not go on from flash to disk.
uint32_t ClassesLast(const StoreOptions& options) {
  uint32_t classes = 0;
  for (size_t c = 0; c < options.hold_classes.size(); ++c) {
    const bool goes_on =
        options.disk_bytes > 0 && options.hold_classes[c].disk != PlacementRow::kNever;
    if (!goes_on) classes |= 2u << c;
  }
  return classes;
}

}  // namespace

Core::Core(StoreOptions options, Environment environment)
    : options_(std::move(options)), environment_(std::move(environment)) {
  run_clock_ = environment_.run_clock != nullptr ? environment_.run_clock : &Clock::System();
  hold_clock_ = environment_.hold_clock != nullptr ? environment_.hold_clock : &Clock::System();
  start_thread_ = environment_.start_thread ? environment_.start_thread : SystemThreads();
  waiter_ = Waiter::Create(*run_clock_);
}

Core::~Core() {
  for (FrameHeader* header : headers_) std::free(header);
  if (alive_ != nullptr) munmap(alive_, kPageBytes);
}

Status Core::OpenDirectory() {
  void* page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Errno("mmap");
  madvise(page, kPageBytes, MADV_WIPEONFORK);
  alive_ = new (page) AliveWord{1};
  persistent_ = options_.bytes && (options_.flash_bytes > 0 || options_.disk_bytes > 0);
  if (!persistent_) {
    if (environment_.random_seed == 0) return RandomBytes(secret_);
    std::memcpy(secret_.data(), &environment_.random_seed, sizeof environment_.random_seed);
    return {};
  }
  HF_RETURN_IF_ERROR(MakeDirectory(options_.directory));
  const std::string lock = options_.directory + "/LOCK";
  lock_fd_ = open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) return Errno(lock);
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Errno(lock);
    return {StatusCode::kFailedPrecondition,
            options_.directory + ": in use by another store; a directory has one owner"};
  }
  HF_ASSIGN_OR_RETURN(const IdentityFile identity, LoadIdentity(options_.directory + "/IDENTITY"));
  secret_ = identity.secret;
  store_id_ = identity.store_id;
  return {};
}

Status Core::OpenTiers() {
  const auto wake = [this] {
    tier_woke_.store(true, std::memory_order_release);
    waiter_->Ring();
  };
  HF_RETURN_IF_ERROR(frames_.Init(options_, start_thread_));
  if (options_.hbm_bytes > 0) {
    if (environment_.device == nullptr) own_device_ = CreateHostDevice();
    HbmTierOptions hbm;
    hbm.capacity_bytes = options_.hbm_bytes;
    hbm.page_bytes = options_.page_bytes;
    hbm.bytes = options_.bytes;
    hbm.start_thread = environment_.driver_thread ? start_thread_ : StartThread{};
    hbm.wake = wake;
    Device& device = environment_.device != nullptr ? *environment_.device : *own_device_;
    HF_ASSIGN_OR_RETURN(tiers_[kHbm], CreateHbmTier(device, *run_clock_, hbm));
  }
  if (options_.flash_bytes > 0) {
    FlashTierOptions flash;
    flash.segment_bytes = options_.segment_bytes;
    flash.segment_bytes_min = options_.segment_bytes_min;
    flash.flush_age = options_.flush_age;
    flash.payload_bytes_typical = options_.payload_bytes_typical;
    flash.store_id = store_id_;
    flash.bytes = options_.bytes;
    flash.capacity_bytes = options_.flash_bytes;
    flash.classes_last = ClassesLast(options_);
    if (environment_.idle) flash.idle = [this] { Idle(Instant::max()); };
    std::unique_ptr<IoEngine> io;
    if (options_.bytes) {
      IoEngineOptions engine;
      engine.path =
          options_.flash_path.empty() ? options_.directory + "/flash" : options_.flash_path;
      engine.capacity_bytes = options_.flash_bytes;
      engine.kind = options_.io_engine;
      engine.threads = options_.io_threads;
      engine.depth = options_.io_depth;
      engine.buffered = options_.flash_buffered;
      engine.start_thread = start_thread_;
      flash.path = engine.path;
      std::string note;
      HF_ASSIGN_OR_RETURN(io, environment_.open_io ? environment_.open_io(engine, &note)
                                                   : OpenIoEngine(engine, &note));
      if (!note.empty()) Log(LogLevel::kWarning, note);
    }
    HF_ASSIGN_OR_RETURN(tiers_[kFlash], CreateFlashTier(std::move(io), *run_clock_, wake, flash));
  }
  if (!options_.bytes) {
    if (options_.disk_bytes > 0) {
      tiers_[kDisk] = CreateSimDisk(*run_clock_, options_.disk_bytes, /*bytes=*/false).tier;
    }
    return {};
  }
  if (!persistent_) return {};
  DiskTierOptions disk;
  disk.directory = options_.directory + "/disk";
  disk.capacity_bytes = options_.disk_bytes;
  disk.threads = options_.disk_threads;
  disk.flush_age = options_.flush_age;
  disk.write_buffer_bytes = options_.disk_write_buffer_bytes;
  disk.start_thread = start_thread_;
  HF_ASSIGN_OR_RETURN(DiskTier opened, environment_.open_disk
                                           ? environment_.open_disk(*run_clock_, wake, disk)
                                           : OpenDiskTier(*run_clock_, wake, disk));
  tiers_[kDisk] = std::move(opened.tier);
  meta_ = std::move(opened.meta);
  return {};
}

Status Core::StartThreads() {
  if (!environment_.driver_thread) return {};
  HF_RETURN_IF_ERROR(jobs_.Start(options_.workers, start_thread_));
  return driver_.Start(start_thread_, "hf-driver", [this] { DriverMain(); });
}

Status Core::OpenAll() {
  HF_RETURN_IF_ERROR(OpenDirectory());
  HF_RETURN_IF_ERROR(OpenTiers());
  {
    MutexLock lock(mutex_);
    spaces_.resize(1);  // ids start at 1
    regions_.resize(1);
    layouts_.resize(1);
    std::array<Tier*, kTiers> tiers{};
    for (int t = 0; t < kTiers; ++t) tiers[t] = tiers_[t].get();
    HF_RETURN_IF_ERROR(ledger_.Init(options_, tiers, &frames_, run_clock_->Now()));
  }
  HF_RETURN_IF_ERROR(Recover());
  return StartThreads();
}

Result<std::shared_ptr<Core>> Core::Open(StoreOptions options, Environment environment) {
  HF_ASSIGN_OR_RETURN(options, CheckOptions(std::move(options)));
  auto core = std::make_shared<Core>(std::move(options), std::move(environment));
  Status status;
  try {
    status = core->OpenAll();
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted,
                    "opening a store: no memory to be had; make index_entries_max or the tiers "
                    "smaller, or raise the limit (ulimit -v, memory.max of the cgroup)");
  }
  if (status.ok()) return core;
  core->Close(core->run_clock_->Now() + std::chrono::seconds(2))
      .IgnoreError("opening failed already");
  return status;
}

}  // namespace holdfast::internal
