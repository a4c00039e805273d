// What a command needs of its terminal: a progress line, and Ctrl-C as a question instead of an
// end.
//
//   Interrupt interrupt;                 // from here on Ctrl-C only sets a flag
//   Progress progress;                   // shown only where stderr is a terminal
//   while (!interrupt.requested()) { ...; if (progress.Due()) progress.Show("42 %"); }
//
// Threading: Interrupt: thread-safe, one at a time in a process. Progress: thread-compatible.
#pragma once

#include <string_view>

#include "kvstore/clock.h"

namespace holdfast::tools {

// While it lives, the first SIGINT sets the flag and wakes WaitUntil; a second one ends the
// process.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  bool requested() const noexcept;
  // Waits for that time of Clock::System, or for the interrupt. False when interrupted.
  bool WaitUntil(Instant until) const;
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
