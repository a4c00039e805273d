#include "kvstore/waiter.h"

#include <algorithm>
#include <atomic>

#include "kvstore/mutex.h"

namespace holdfast {
namespace {

// One sleep; keeps until - now in range whatever `until` is.
constexpr Duration kSleepMax = std::chrono::hours(1);

class BellWaiter final : public Waiter {
 public:
  explicit BellWaiter(Clock& clock) : clock_(clock) {}

  void Ring() noexcept override {
    if (state_.exchange(State::kRung, std::memory_order_acq_rel) != State::kSleeping) return;
    // With the mutex the sleeper is either before its look at the state or inside its wait.
    MutexLock lock(mutex_);
    bell_.NotifyOne();
  }

  void Wait(Instant until) override {
    State expected = State::kAwake;
    if (state_.compare_exchange_strong(expected, State::kSleeping, std::memory_order_acq_rel)) {
      Sleep(until);
    }
    // An exchange, not a store: it takes over what the last ringer wrote.
    state_.exchange(State::kAwake, std::memory_order_acq_rel);
  }

 private:
  enum class State : uint8_t { kAwake, kSleeping, kRung };

  void Sleep(Instant until) {
    if (until == Instant::min()) return;
    MutexLock lock(mutex_);
    while (state_.load(std::memory_order_acquire) == State::kSleeping) {
      Duration sleep = kSleepMax;
      if (until != Instant::max()) {
        const Instant now = clock_.Now();
        if (now >= until) return;
        sleep = std::min(sleep, until - now);
      }
      bell_.WaitFor(mutex_, sleep);
    }
  }

  Clock& clock_;
  std::atomic<State> state_{State::kAwake};
  Mutex mutex_;  // taken only by a sleeper and by the ringer that wakes it
  CondVar bell_;
};

}  // namespace

std::unique_ptr<Waiter> Waiter::Create(Clock& clock) { return std::make_unique<BellWaiter>(clock); }

}  // namespace holdfast
