// Files of a command: standard output, the directory its store works in, and results that are there
// whole or not at all.
//
// Threading: thread-compatible. Errors: kIoError names the path and keeps the errno.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvstore/status.h"

namespace holdfast::tools {

// All of it, now. Errors name standard output.
Status WriteStandardOutput(std::string_view text);

// A file for a result. What is there already keeps its mode and is replaced whole, by a rename in
// its directory; symbolic links are followed. What is no regular file (a pipe, a device), or is
// standard output itself, is written directly.
class OutputFile {
 public:
  // Fails where a later Write would, as far as that can be known.
  static Result<OutputFile> Open(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile(OutputFile&& other) noexcept
      : path_(std::move(other.path_)),
        mode_(other.mode_),
        direct_(std::exchange(other.direct_, -1)) {}
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status Write(std::string_view content);  // once

 private:
  explicit OutputFile(std::string path) noexcept : path_(std::move(path)) {}
  Status OpenDirectly(int flags);
  Result<int> CreateBeside(std::string& temporary) const;

  std::string path_;  // where it is replaced: without symbolic links
  unsigned mode_ = 0;
  int direct_ = -1;  // open: not replaced
};

// `text` to standard output, and `content` to the file where there is one. Both are tried; where
// both fail, the error is the file's.
Status WriteResults(std::string_view text, std::optional<OutputFile>& file,
                    std::string_view content);

// The directory of a store. One that the user names is created if need be and stays once a store
// was in it; a fresh one is made below ./holdfast-data and removed at the end.
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
  bool temporary() const noexcept { return !created_.empty(); }  // removed at the end
  void Keep() noexcept { created_.clear(); }
  bool InMemory() const;  // on a tmpfs: measures memory, not a device

 private:
  void Remove() noexcept;

  std::string path_;
  std::string created_;  // the uppermost directory that is removed with it; empty: none
};

}  // namespace holdfast::tools
