#include "tiers/io_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kvstore/types.h"

namespace holdfast::internal {
namespace {

Status MakeDirectoryEntryDurable(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, "open " + parent);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return error == 0 ? Status() : Status::FromErrno(error, "fsync " + parent);
}

uint64_t FreeBytes(int fd) {
  struct statvfs fs {};
  return fstatvfs(fd, &fs) == 0 ? uint64_t{fs.f_bavail} * fs.f_frsize : 0;
}

}  // namespace

Result<std::unique_ptr<IoFile>> IoFile::Open(const IoEngineOptions& options) {
  std::unique_ptr<IoFile> file(new IoFile(options.path, options.capacity_bytes, !options.buffered));
  Status status = file->OpenDescriptor();
  if (status.ok()) status = file->Reserve();
  if (status.ok()) {
    alignas(kPageBytes) std::byte page[kPageBytes];
    status = file->ReadFirstPage(page);
  }
  if (!status.ok()) {
    file->RemoveIfCreated();
    return status;
  }
  return file;
}

IoFile::~IoFile() {
  if (fd_ >= 0) close(fd_);
}

void IoFile::RemoveIfCreated() {
  if (std::exchange(created_, false)) unlink(path_.c_str());
}

Status IoFile::OpenDescriptor() {
  int flags = O_RDWR | O_CLOEXEC | (direct_ ? O_DIRECT : 0);
  struct stat info {};
  const bool exists = stat(path_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return Status::FromErrno(errno, "stat " + path_);
  if (exists && !S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return {StatusCode::kInvalidArgument, path_ + ": neither a regular file nor a block device"};
  }
  // O_EXCL on a block device: refused while a file system on it is mounted.
  if (exists && S_ISBLK(info.st_mode)) flags |= O_EXCL;
  if (!exists) flags |= O_CREAT | O_EXCL;
  fd_ = open(path_.c_str(), flags, 0600);
  if (fd_ >= 0) {
    created_ = !exists;
    return {};
  }
  const int error = errno;
  if (error == EINVAL && direct_) {
    // The file is made before O_DIRECT is refused; O_EXCL says that nobody else made it.
    created_ = !exists;
    return NoDirect();
  }
  return Status::FromErrno(error, "open " + path_);
}

Status IoFile::Reserve() {
  struct stat info {};
  if (fstat(fd_, &info) != 0) return Status::FromErrno(errno, "fstat " + path_);
  if (S_ISBLK(info.st_mode)) return CheckDevice();
  if (!S_ISREG(info.st_mode)) {
    return {StatusCode::kInvalidArgument, path_ + ": neither a regular file nor a block device"};
  }
  HF_RETURN_IF_ERROR(ReserveFile(static_cast<uint64_t>(info.st_size),
                                 static_cast<uint64_t>(info.st_blocks) * 512));
  if (!created_) return {};
  if (fsync(fd_) != 0) return Status::FromErrno(errno, "fsync " + path_);
  return MakeDirectoryEntryDurable(path_);
}

Status IoFile::ReserveFile(uint64_t file_bytes, uint64_t allocated_bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && capacity_bytes_ > limit.rlim_cur) {
    // Asking for it would raise SIGXFSZ in the process that we are a guest of.
    return Status::FromErrno(EFBIG, path_ + ": the limit on file sizes (ulimit -f) is lower");
  }
  // Asked for first: a reservation that cannot succeed would take the last space from everybody
  // before it fails.
  const uint64_t missing = capacity_bytes_ - std::min(capacity_bytes_, allocated_bytes);
  const uint64_t free_bytes = FreeBytes(fd_);
  if (missing > free_bytes) return NoSpace(missing, free_bytes);
  int rc = 0;
  do {
    rc = fallocate(fd_, 0, 0, static_cast<off_t>(capacity_bytes_));
  } while (rc != 0 && errno == EINTR);
  if (rc == 0) return {};
  const int error = errno;
  if (!created_ && ftruncate(fd_, static_cast<off_t>(file_bytes)) != 0) {
    return Status::FromErrno(errno, "shorten " + path_ + " after its preallocation failed");
  }
  if (error == ENOSPC) return NoSpace(missing, FreeBytes(fd_));
  return Status::FromErrno(error,
                           "preallocate " + std::to_string(capacity_bytes_) + " bytes of " + path_);
}

Status IoFile::CheckDevice() const {
  uint64_t device_bytes = 0;
  int sector_bytes = 0;
  if (ioctl(fd_, BLKGETSIZE64, &device_bytes) != 0 || ioctl(fd_, BLKSSZGET, &sector_bytes) != 0) {
    return Status::FromErrno(errno, "ask the size of " + path_);
  }
  if (device_bytes < capacity_bytes_) {
    return {StatusCode::kInvalidArgument,
            path_ + ": capacity of " + std::to_string(capacity_bytes_) + " bytes, the device has " +
                std::to_string(device_bytes)};
  }
  if (static_cast<uint64_t>(sector_bytes) > kPageBytes) {
    return {StatusCode::kInvalidArgument,
            path_ + ": sectors of " + std::to_string(sector_bytes) + " bytes; at most 4096"};
  }
  return {};
}

Status IoFile::NoDirect() const {
  return {
      StatusCode::kUnimplemented,
      path_ + ": this file system refuses O_DIRECT; another directory, or flash_buffered = true"};
}

Status IoFile::NoSpace(uint64_t missing_bytes, uint64_t free_bytes) const {
  return Status::FromErrno(ENOSPC, "preallocate " + path_ + ": " + std::to_string(missing_bytes) +
                                       " bytes wanted, " + std::to_string(free_bytes) + " free");
}

Status IoFile::ReadFirstPage(std::byte* page) const {
  ssize_t got = 0;
  do {
    got = pread(fd_, page, kPageBytes, 0);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(kPageBytes)) return {};
  if (got >= 0) return Status::FromErrno(EIO, "read the first page of " + path_);
  if (errno == EINVAL && direct_) return NoDirect();  // some accept the flag and refuse the read
  return Status::FromErrno(errno, "read the first page of " + path_);
}

}  // namespace holdfast::internal
