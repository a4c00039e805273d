#include "tests/tools/run_command.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

namespace holdfast::testing {
namespace {

constexpr char kOut[] = "stdout";
constexpr char kErr[] = "stderr";

void Redirect(int to, const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags, 0644);
  if (fd < 0 || ::dup2(fd, to) < 0) ::_exit(127);
  ::close(fd);
}

pid_t Start(const CommandDirectory& directory, const char* program,
            const std::vector<std::string>& arguments, const std::string& in) {
  std::vector<char*> argv = {const_cast<char*>("holdfast")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (::chdir(directory.path().c_str()) != 0) ::_exit(127);
  Redirect(STDIN_FILENO, in, O_RDONLY);
  Redirect(STDOUT_FILENO, directory.File(kOut), O_WRONLY | O_CREAT | O_TRUNC);
  Redirect(STDERR_FILENO, directory.File(kErr), O_WRONLY | O_CREAT | O_TRUNC);
  // A shell starts what runs in the background with some of them ignored.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  ::execv(program, argv.data());
  ::_exit(127);
}

}  // namespace

CommandDirectory::CommandDirectory() {
  path_ = HOLDFAST_TEST_DIR "/command_XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot create " << path_;
}

CommandDirectory::~CommandDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void CommandDirectory::Write(const std::string& name, const std::string& content) const {
  std::ofstream(File(name)) << content;
}

std::string CommandDirectory::Read(const std::string& name) const {
  std::ifstream file(File(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

pid_t StartCommand(const CommandDirectory& directory, const std::vector<std::string>& arguments,
                   const std::string& in) {
  return Start(directory, HOLDFAST_COMMAND, arguments, in);
}

void WaitForEntry(const CommandDirectory& directory, const std::string& name) {
  const int fd = ::inotify_init1(IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(fd, directory.path().c_str(), IN_CREATE), 0);
  pollfd event = {.fd = fd, .events = POLLIN, .revents = 0};
  std::array<char, 4096> buffer;
  while (!std::filesystem::exists(directory.File(name))) {
    ASSERT_EQ(::poll(&event, 1, /*timeout_ms=*/30'000), 1) << name << " did not appear";
    ASSERT_GT(::read(fd, buffer.data(), buffer.size()), 0);
  }
  ::close(fd);
}

CommandResult WaitForCommand(const CommandDirectory& directory, pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = directory.Read(kOut),
          .err = directory.Read(kErr)};
}

CommandResult RunCommand(const CommandDirectory& directory,
                         const std::vector<std::string>& arguments, const std::string& in) {
  return WaitForCommand(directory, StartCommand(directory, arguments, in));
}

CommandResult RunShell(const CommandDirectory& directory, const std::string& script) {
  const std::string named = "HOLDFAST='" HOLDFAST_COMMAND "'\n" + script;
  return WaitForCommand(directory, Start(directory, "/bin/sh", {"-c", named}, "/dev/null"));
}

}  // namespace holdfast::testing
