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

constexpr int kLinksMax = 40;  // as the kernel

Status WriteAll(int fd, std::string_view content, const std::string& name) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Status::FromErrno(errno, name);
    content.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// Where a file of this name is, or would be made.
Result<std::filesystem::path> FollowLinks(std::filesystem::path path) {
  for (int links = 0; links < kLinksMax; ++links) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return path;  // no link
    path = path.parent_path() / target;
  }
  return Status::FromErrno(ELOOP, "cannot write " + path.string());
}

bool IsStandardOutput(const struct stat& info) {
  struct stat out {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == info.st_dev &&
         out.st_ino == info.st_ino;
}

mode_t ModeOfNewFiles() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

Status CreateDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Status::FromErrno(error.value(), "cannot create directory " + path);
  return {};
}

}  // namespace

Status WriteStandardOutput(std::string_view text) {
  return WriteAll(STDOUT_FILENO, text, "standard output");
}

Result<OutputFile> OutputFile::Open(const std::string& path) {
  OutputFile file(path);
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return Status::FromErrno(errno, "cannot write " + path);
  if (exists && !S_ISREG(info.st_mode)) {
    HF_RETURN_IF_ERROR(file.OpenDirectly(0));
    return file;
  }
  if (exists && IsStandardOutput(info)) {
    HF_RETURN_IF_ERROR(file.OpenDirectly(O_APPEND));
    return file;
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) {
    return Status::FromErrno(errno, "cannot write " + path);
  }
  HF_ASSIGN_OR_RETURN(file.path_, FollowLinks(path));
  file.mode_ = exists ? info.st_mode & 07777 : ModeOfNewFiles();
  std::string temporary;
  HF_ASSIGN_OR_RETURN(const int fd, file.CreateBeside(temporary));
  ::close(fd);
  ::unlink(temporary.c_str());
  return file;
}

OutputFile::~OutputFile() {
  if (direct_ >= 0) ::close(direct_);
}

Status OutputFile::OpenDirectly(int flags) {
  direct_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | flags);
  if (direct_ < 0) return Status::FromErrno(errno, "cannot write " + path_);
  return {};
}

Result<int> OutputFile::CreateBeside(std::string& temporary) const {
  temporary = path_ + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, "cannot create a file beside " + path_);
  return fd;
}

Status OutputFile::Write(std::string_view content) {
  if (direct_ >= 0) return WriteAll(direct_, content, "cannot write " + path_);
  std::string temporary;
  HF_ASSIGN_OR_RETURN(const int fd, CreateBeside(temporary));
  Status status = WriteAll(fd, content, "cannot write " + path_);
  if (status.ok() && ::fsync(fd) != 0) status = Status::FromErrno(errno, "cannot sync " + path_);
  if (status.ok() && ::fchmod(fd, mode_) != 0) {
    status = Status::FromErrno(errno, "cannot set the mode of " + path_);
  }
  ::close(fd);
  if (status.ok() && ::rename(temporary.c_str(), path_.c_str()) != 0) {
    status = Status::FromErrno(errno, "cannot rename onto " + path_);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Status WriteResults(std::string_view text, std::optional<OutputFile>& file,
                    std::string_view content) {
  Status shown = WriteStandardOutput(text);
  if (!file) return shown;
  Status written = file->Write(content);
  if (written.ok()) return shown;
  shown.IgnoreError("the one of the file is told");
  return written;
}

Result<DataDirectory> DataDirectory::Named(std::string path) {
  DataDirectory directory;
  directory.path_ = std::move(path);
  std::error_code error;
  std::filesystem::path above = directory.path_;
  for (; !above.empty() && !std::filesystem::exists(above, error); above = above.parent_path()) {
    directory.created_ = above;
  }
  HF_RETURN_IF_ERROR(CreateDirectory(directory.path_));
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
  directory.created_ = kFreshParent;
  return directory;
}

DataDirectory& DataDirectory::operator=(DataDirectory&& other) noexcept {
  if (this != &other) {
    Remove();
    path_ = std::exchange(other.path_, {});
    created_ = std::exchange(other.created_, {});
  }
  return *this;
}

bool DataDirectory::InMemory() const {
  struct statfs info {};
  return !path_.empty() && ::statfs(path_.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC;
}

void DataDirectory::Remove() noexcept {
  if (!temporary()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  for (std::filesystem::path above = path_; above != created_ && above.has_parent_path();) {
    above = above.parent_path();
    ::rmdir(above.c_str());  // only when nobody else uses it
  }
}

}  // namespace holdfast::tools
