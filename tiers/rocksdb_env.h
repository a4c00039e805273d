// RocksEnv: RocksDB's environment with threads of our own. RocksDB's default one has one pool for
// the whole process: it starts threads by exceptions in the middle of an opening, has none in a
// child after fork(), and would share them with an embedder that uses RocksDB itself.
//
// Threading: thread-safe. Memory: outlives its databases. Errors: Create says which thread is not
// to be had; once it is there nothing starts a thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include <rocksdb/env.h>

#include "kvstore/mutex.h"
#include "kvstore/status.h"
#include "kvstore/threads.h"

namespace holdfast {

class RocksEnv final : public rocksdb::EnvWrapper {
 public:
  static Result<std::unique_ptr<RocksEnv>> Create(
      const std::shared_ptr<rocksdb::FileSystem>& file_system,
      const holdfast::StartThread& start_thread);
  ~RocksEnv() override;
  RocksEnv(const RocksEnv&) = delete;
  RocksEnv& operator=(const RocksEnv&) = delete;

  const char* Name() const override { return "holdfast"; }
  void Schedule(void (*run)(void*), void* argument, Priority priority, void* tag,
                void (*drop)(void*)) override;
  int UnSchedule(void* tag, Priority priority) override;
  unsigned int GetThreadPoolQueueLen(Priority priority) const override;
  // Their numbers are fixed.
  int GetBackgroundThreads(Priority priority) override;
  void SetBackgroundThreads(int /*number*/, Priority /*priority*/) override {}
  void IncBackgroundThreadsIfNeeded(int /*number*/, Priority /*priority*/) override {}

  // RocksDB 7.8 loses a queued flush that is run while an error has stopped its background work: it
  // stays queued, nothing runs it any more, and Resume waits for it for ever. So from such an error
  // to the next Resume flushes wait here, and go on once Resume has begun. With two threads for
  // them one may begin just when the other meets the error.
  void HoldFlushes();
  void BeginResume();
  void EndResume(bool stopped);  // stopped: the error still stands
  void OpenFlushes();            // whatever was before

 private:
  struct Task {
    void (*run)(void*) = nullptr;
    void* argument = nullptr;
    void* tag = nullptr;
    void (*drop)(void*) = nullptr;  // instead of run, when it is unscheduled
  };
  enum class Gate : uint8_t { kOpen, kHeld, kOpening };
  struct Pool {
    mutable Mutex mutex;
    CondVar changed;
    std::deque<Task> tasks HF_GUARDED_BY(mutex);
    bool stop HF_GUARDED_BY(mutex) = false;
    Gate gate HF_GUARDED_BY(mutex) = Gate::kOpen;
    int resumes HF_GUARDED_BY(mutex) = 0;  // running
    ThreadGroup threads;
  };

  explicit RocksEnv(const std::shared_ptr<rocksdb::FileSystem>& file_system);
  Pool& PoolOf(Priority priority) { return priority == HIGH ? flushes_ : compactions_; }
  const Pool& PoolOf(Priority priority) const { return priority == HIGH ? flushes_ : compactions_; }
  static void Run(Pool& pool);
  static void Stop(Pool& pool);

  Pool flushes_;  // and deletions of files
  Pool compactions_;
};

}  // namespace holdfast
