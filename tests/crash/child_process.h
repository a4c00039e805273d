// A program of this folder in a process of its own, by fork and exec.
//
// Threading: thread-confined. Memory: a process that still runs is killed with its object.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvstore/clock.h"

namespace holdfast::testing {

class ChildProcess {
 public:
  // `output`: a file for what it prints on both streams; empty: where ours goes.
  explicit ChildProcess(const std::vector<std::string>& arguments, const std::string& output = "") {
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int fd = output.empty() ? -1 : open(output.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
      if (fd >= 0 && (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)) _exit(127);
      execv(argv[0], argv.data());
      _exit(127);
    }
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  }
  ~ChildProcess() {
    Kill();
    if (pidfd_ >= 0) close(pidfd_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // True when it has ended by itself within that time.
  bool EndedWithin(Duration wait) {
    pollfd ended{.fd = pidfd_, .events = POLLIN, .revents = 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
    return poll(&ended, 1, static_cast<int>(ms)) > 0;
  }
  // SIGKILL, and waits until the kernel has taken everything back.
  void Kill() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  // Its exit code, or 128 + the signal.
  int Wait() {
    int status = 0;
    if (pid_ < 0 || waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int pidfd_ = -1;
};

}  // namespace holdfast::testing
