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

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

// What the handler touches: it may use nothing but lock-free atomics, write(), raise() and the
// clock.
std::atomic<int> first_signal = 0;
std::atomic<Instant> first_signal_at = Instant();
std::atomic<const char*> left_behind = nullptr;  // a line
std::array<int, 2> wake_pipe = {-1, -1};
static_assert(std::atomic<Instant>::is_always_lock_free);

std::array<struct sigaction, kSignals.size()> actions_before;

void Write(int fd, std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
}

void OnSignal(int signal) {
  const int saved = errno;
  const Instant now = Clock::System().Now();
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_signal_at.store(now);
    Write(wake_pipe[1], "x");
  } else if (signal != SIGHUP && now - first_signal_at.load() >= Interrupt::kSameSignal) {
    const char* const line = left_behind.load();
    if (line != nullptr) Write(STDERR_FILENO, line);
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // comes when this handler returns
  }
  errno = saved;
}

}  // namespace

void PrepareStandardStreams() {
  constexpr std::array kWrongMode = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", kWrongMode[fd]);  // takes the lowest free one
  }
  ::signal(SIGPIPE, SIG_IGN);
}

Interrupt::Interrupt() {
  first_signal_at.store(Instant::max());  // until it is known
  first_signal.store(0);
  if (::pipe2(wake_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) wake_pipe = {-1, -1};
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &actions_before[i]);
    const bool nohup = kSignals[i] == SIGHUP && actions_before[i].sa_handler == SIG_IGN;
    if (!nohup) ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &actions_before[i], nullptr);
  }
  left_behind.store(nullptr);
  for (int& fd : wake_pipe) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

int Interrupt::signal() const noexcept { return first_signal.load(std::memory_order_relaxed); }

void Interrupt::SetLeftBehind(const std::string& path) {
  left_behind_ = "\nholdfast: ended by a second signal; left behind: " + path + "\n";
  left_behind.store(left_behind_.c_str());
}

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
