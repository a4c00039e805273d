// What a command needs of its terminal: standard streams that are there, a progress line, and
// Ctrl-C as a question instead of an end.
//
//   Interrupt interrupt;                 // from here on Ctrl-C only sets a flag
//   Progress progress;                   // shown only where stderr is a terminal
//   while (!interrupt.requested()) { ...; if (progress.Due()) progress.Show("42 %"); }
//
// Threading: Interrupt: thread-safe, one at a time in a process. Progress: thread-compatible.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "kvstore/clock.h"

namespace holdfast::tools {

// At the start of main. A standard stream that is closed fails with EBADF instead of becoming the
// next file that is opened, and a pipe without a reader fails with EPIPE instead of ending the
// process.
void PrepareStandardStreams();

// While it lives, the first SIGINT, SIGTERM or SIGHUP sets the flag and wakes WaitUntil. A SIGINT
// or SIGTERM that comes kSameSignal later or more ends the process; before that it is the first one
// again, as `timeout` sends it. A SIGHUP that nohup has set to be ignored stays so.
class Interrupt {
 public:
  static constexpr Duration kSameSignal = std::chrono::milliseconds(500);

  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  bool requested() const noexcept { return signal() != 0; }
  int signal() const noexcept;  // the first one; 0: none
  // Waits for that time of Clock::System, or for the interrupt. False when interrupted.
  bool WaitUntil(Instant until) const;
  // What a second signal names on stderr as left behind.
  void SetLeftBehind(const std::string& path);

 private:
  std::string left_behind_;
};

// One line on stderr that is written over.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { Clear(); }

  // Whether enough time went by to show something new. Cheap where there is no terminal.
  bool Due();
  void Show(std::string_view line);
  void Clear();

 private:
  bool terminal_;
  bool shown_ = false;
  Instant next_{};
};

}  // namespace holdfast::tools
