// Files of a command: the directory its store works in, and results that are there whole or not at
// all.
//
// Threading: thread-compatible. Errors: kIoError names the path and keeps the errno.
#pragma once

#include <string>
#include <string_view>

#include "kvstore/status.h"

namespace holdfast::tools {

// Writes beside `path`, syncs, renames.
Status WriteFileAtomically(const std::string& path, std::string_view content);

// The directory of a store. One that the user names is created if need be and stays; a fresh one is
// made below ./holdfast-data and removed at the end.
class DataDirectory {
 public:
  static Result<DataDirectory> Named(std::string path);
  static Result<DataDirectory> Fresh();

  DataDirectory() = default;  // none
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;
  DataDirectory(DataDirectory&& other) noexcept { *this = std::move(other); }
  DataDirectory& operator=(DataDirectory&& other) noexcept;
  ~DataDirectory() { Remove(); }

  const std::string& path() const noexcept { return path_; }
  bool temporary() const noexcept { return temporary_; }
  void Keep() noexcept { temporary_ = false; }
  bool InMemory() const;  // on a tmpfs: measures memory, not a device

 private:
  void Remove() noexcept;

  std::string path_;
  bool temporary_ = false;
};

}  // namespace holdfast::tools
