// Mutex: std::mutex that clang's -Wthread-safety understands, and what goes with it.
//
//   Mutex mutex_;
//   int count_ HF_GUARDED_BY(mutex_) = 0;
//   { MutexLock lock(mutex_);  ++count_; }
//
// Threading: thread-safe. Memory: nothing is allocated. Errors: none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define HF_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define HF_THREAD_ANNOTATION(x)
#endif
#define HF_GUARDED_BY(x) HF_THREAD_ANNOTATION(guarded_by(x))
#define HF_PT_GUARDED_BY(x) HF_THREAD_ANNOTATION(pt_guarded_by(x))
#define HF_REQUIRES(...) HF_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define HF_EXCLUDES(...) HF_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define HF_ACQUIRE(...) HF_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define HF_RELEASE(...) HF_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define HF_TRY_ACQUIRE(...) HF_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define HF_ASSERT_CAPABILITY(...) HF_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
#define HF_CAPABILITY(name) HF_THREAD_ANNOTATION(capability(name))
#define HF_SCOPED_CAPABILITY HF_THREAD_ANNOTATION(scoped_lockable)
#define HF_NO_THREAD_SAFETY_ANALYSIS HF_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace holdfast {

// Named as the standard wants a lockable, so that std::condition_variable_any takes it too.
class HF_CAPABILITY("mutex") Mutex {
 public:
  void lock() HF_ACQUIRE() { mutex_.lock(); }
  void unlock() HF_RELEASE() { mutex_.unlock(); }
  bool try_lock() HF_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  // For the checker alone: a lambda that runs inside a locked section says so.
  void AssertHeld() const HF_ASSERT_CAPABILITY() {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class HF_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HF_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() HF_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may end for no reason: ask for the condition in a loop.
class CondVar {
 public:
  void Wait(Mutex& mutex) HF_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void WaitFor(Mutex& mutex, std::chrono::nanoseconds time) HF_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(lock, time);
    lock.release();
  }
  void NotifyOne() noexcept { condition_.notify_one(); }
  void NotifyAll() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace holdfast
