#include "tools/files.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace holdfast::tools {
namespace {

constexpr std::string_view kFreshParent = "holdfast-data";

Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Status::FromErrno(errno, "cannot write " + path);
    content.remove_prefix(written);
  }
  if (::fsync(fd) != 0 && errno != EINVAL) {
    return Status::FromErrno(errno, "cannot sync " + path);
  }
  return {};
}

Status CreateDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Status::FromErrno(error.value(), "cannot create directory " + path);
  return {};
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::string_view content) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, "cannot create a file beside " + path);
  Status status = WriteAll(fd, content, path);
  if (status.ok() && ::fchmod(fd, 0644) != 0) {
    status = Status::FromErrno(errno, "cannot set the mode of " + path);
  }
  ::close(fd);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Status::FromErrno(errno, "cannot rename onto " + path);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Result<DataDirectory> DataDirectory::Named(std::string path) {
  HF_RETURN_IF_ERROR(CreateDirectory(path));
  DataDirectory directory;
  directory.path_ = std::move(path);
  return directory;
}

Result<DataDirectory> DataDirectory::Fresh() {
  HF_RETURN_IF_ERROR(CreateDirectory(std::string(kFreshParent)));
  std::string path = std::string(kFreshParent) + "/replay-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return Status::FromErrno(errno, "cannot create a directory below " + std::string(kFreshParent));
  }
  DataDirectory directory;
  directory.path_ = std::move(path);
  directory.temporary_ = true;
  return directory;
}

DataDirectory& DataDirectory::operator=(DataDirectory&& other) noexcept {
  if (this != &other) {
    Remove();
    path_ = std::exchange(other.path_, {});
    temporary_ = std::exchange(other.temporary_, false);
  }
  return *this;
}

bool DataDirectory::InMemory() const {
  struct statfs info {};
  return !path_.empty() && ::statfs(path_.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC;
}

void DataDirectory::Remove() noexcept {
  if (!temporary_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  ::rmdir(std::string(kFreshParent).c_str());  // only when no other run uses it
}

}  // namespace holdfast::tools
