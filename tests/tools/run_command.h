// Runs the holdfast command in a process of its own, in a directory of its own.
//
//   CommandDirectory directory;
//   CommandResult result = RunCommand(directory, {"replay", "trace.jsonl"});
//   EXPECT_EQ(result.exit_code, 0) << result.err;
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace holdfast::testing {

struct CommandResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// Made and removed; not on a tmpfs.
class CommandDirectory {
 public:
  CommandDirectory();
  CommandDirectory(const CommandDirectory&) = delete;
  CommandDirectory& operator=(const CommandDirectory&) = delete;
  ~CommandDirectory();

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + '/' + name; }
  void Write(const std::string& name, const std::string& content) const;
  std::string Read(const std::string& name) const;

 private:
  std::string path_;
};

// A started command, its input from the file `in` and its output into files of the directory.
pid_t StartCommand(const CommandDirectory& directory, const std::vector<std::string>& arguments,
                   const std::string& in = "/dev/null");
// Waits until `name` appears in the directory; by the time of a store's the command answers
// signals.
void WaitForEntry(const CommandDirectory& directory, const std::string& name);
CommandResult WaitForCommand(const CommandDirectory& directory, pid_t pid);
CommandResult RunCommand(const CommandDirectory& directory,
                         const std::vector<std::string>& arguments,
                         const std::string& in = "/dev/null");

// A script of /bin/sh in the directory, where the command is called "$HOLDFAST".
CommandResult RunShell(const CommandDirectory& directory, const std::string& script);

}  // namespace holdfast::testing
