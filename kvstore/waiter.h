// Waiter: the one place where a thread waits for work that several others make. A bell, not a
// queue: rings before a Wait are one ring.
//
// Usage:
//   worker:  for (;;) { DoAllThatIsThere();  waiter->Wait(next_timer); }
//   others:  queue.Add(work);  waiter->Ring();
//
// Threading: Ring from any thread, Wait from one. What was written before a Ring is seen after the
// Wait that it ends.
// Memory: fixed. Errors: none.
#pragma once

#include <memory>

#include "kvstore/clock.h"

namespace holdfast {

class Waiter {
 public:
  virtual ~Waiter() = default;

  // One atomic exchange while nobody sleeps. Must not be called from a signal handler.
  virtual void Ring() noexcept = 0;
  // Returns at once if rung since the last Wait; else when rung, or at `until` of the clock.
  // Instant::min(): does not wait. Instant::max(): for ever.
  virtual void Wait(Instant until) = 0;

  // `clock` outlives the waiter. Under one that does not run by itself only a Ring ends a Wait.
  static std::unique_ptr<Waiter> Create(Clock& clock);
};

}  // namespace holdfast
