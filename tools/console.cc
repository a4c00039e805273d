#include "tools/console.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace holdfast::tools {
namespace {

constexpr Duration kProgressEvery = std::chrono::milliseconds(200);
constexpr size_t kLineBytesMax = 100;

// What the handler touches: it may use nothing but lock-free atomics and write().
std::atomic<bool> interrupted = false;
std::array<int, 2> wake_pipe = {-1, -1};

void OnSigint(int /*signal*/) {
  const int saved = errno;
  interrupted.store(true, std::memory_order_relaxed);
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = ::write(wake_pipe[1], &byte, 1);
  errno = saved;
}

}  // namespace

Interrupt::Interrupt() {
  interrupted.store(false, std::memory_order_relaxed);
  if (::pipe2(wake_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) wake_pipe = {-1, -1};
  struct sigaction action {};
  action.sa_handler = OnSigint;
  action.sa_flags = SA_RESETHAND | SA_RESTART;  // the second one is the system's
  ::sigaction(SIGINT, &action, nullptr);
}

Interrupt::~Interrupt() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &action, nullptr);
  for (int& fd : wake_pipe) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

bool Interrupt::requested() const noexcept { return interrupted.load(std::memory_order_relaxed); }

bool Interrupt::WaitUntil(Instant until) const {
  constexpr Duration kTurn = std::chrono::seconds(1);  // also the bound where there is no pipe
  for (;;) {
    if (requested()) return false;
    const Duration left = until - Clock::System().Now();
    if (left <= Duration::zero()) return true;
    const Duration turn = std::min(left, kTurn);
    pollfd wake = {.fd = wake_pipe[0], .events = POLLIN, .revents = 0};
    const timespec timeout = {.tv_sec = turn.count() / 1'000'000'000,
                              .tv_nsec = turn.count() % 1'000'000'000};
    ::ppoll(&wake, 1, &timeout, nullptr);
  }
}

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

bool Progress::Due() { return terminal_ && Clock::System().Now() >= next_; }

void Progress::Show(std::string_view line) {
  if (!terminal_) return;
  line = line.substr(0, kLineBytesMax);
  std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(line.size()), line.data());
  std::fflush(stderr);
  shown_ = true;
  next_ = Clock::System().Now() + kProgressEvery;
}

void Progress::Clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace holdfast::tools
