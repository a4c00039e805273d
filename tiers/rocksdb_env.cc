#include "tiers/rocksdb_env.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/clock.h"
#include "tiers/rocksdb_options.h"

namespace holdfast {
namespace {

// Resume takes RocksDB's lock and says that it has begun; nothing tells when.
constexpr Duration kResumeHeadStart = std::chrono::milliseconds(50);

}  // namespace

RocksEnv::RocksEnv(const std::shared_ptr<rocksdb::FileSystem>& file_system)
    : EnvWrapper(rocksdb::NewCompositeEnv(file_system)) {
  file_system_ = file_system;  // else the base makes one that loses what a Status cannot say
}

Result<std::unique_ptr<RocksEnv>> RocksEnv::Create(
    const std::shared_ptr<rocksdb::FileSystem>& file_system,
    const holdfast::StartThread& start_thread) {
  std::unique_ptr<RocksEnv> env(new RocksEnv(file_system));
  for (int i = 1; i <= kRocksFlushThreads; ++i) {
    HF_RETURN_IF_ERROR(env->flushes_.threads.Start(start_thread,
                                                   "hf-disk-flush-" + std::to_string(i),
                                                   [pool = &env->flushes_] { Run(*pool); }));
  }
  HF_RETURN_IF_ERROR(env->compactions_.threads.Start(start_thread, "hf-disk-compact",
                                                     [pool = &env->compactions_] { Run(*pool); }));
  return env;
}

RocksEnv::~RocksEnv() {
  Stop(flushes_);
  Stop(compactions_);
}

void RocksEnv::Stop(Pool& pool) {
  {
    MutexLock lock(pool.mutex);
    pool.stop = true;
  }
  pool.changed.NotifyAll();
  pool.threads.Join();
}

void RocksEnv::Run(Pool& pool) {
  for (;;) {
    Task task;
    {
      MutexLock lock(pool.mutex);
      while (!pool.stop && (pool.tasks.empty() || pool.gate != Gate::kOpen)) {
        if (pool.gate != Gate::kOpening) {
          pool.changed.Wait(pool.mutex);
        } else {
          pool.changed.WaitFor(pool.mutex, kResumeHeadStart);
          if (pool.gate == Gate::kOpening) pool.gate = Gate::kOpen;
        }
      }
      if (pool.tasks.empty()) return;
      task = pool.tasks.front();
      pool.tasks.pop_front();
    }
    task.run(task.argument);
  }
}

void RocksEnv::HoldFlushes() {
  MutexLock lock(flushes_.mutex);
  if (flushes_.resumes == 0) flushes_.gate = Gate::kHeld;
}

void RocksEnv::BeginResume() {
  {
    MutexLock lock(flushes_.mutex);
    ++flushes_.resumes;
    if (flushes_.gate == Gate::kHeld) flushes_.gate = Gate::kOpening;
  }
  flushes_.changed.NotifyAll();
}

void RocksEnv::EndResume(bool stopped) {
  {
    MutexLock lock(flushes_.mutex);
    --flushes_.resumes;
    if (flushes_.resumes == 0) flushes_.gate = stopped ? Gate::kHeld : Gate::kOpen;
  }
  flushes_.changed.NotifyAll();
}

void RocksEnv::OpenFlushes() {
  {
    MutexLock lock(flushes_.mutex);
    flushes_.gate = Gate::kOpen;
  }
  flushes_.changed.NotifyAll();
}

void RocksEnv::Schedule(void (*run)(void*), void* argument, Priority priority, void* tag,
                        void (*drop)(void*)) {
  Pool& pool = PoolOf(priority);
  {
    MutexLock lock(pool.mutex);
    pool.tasks.push_back({run, argument, tag, drop});
  }
  pool.changed.NotifyOne();
}

int RocksEnv::UnSchedule(void* tag, Priority priority) {
  Pool& pool = PoolOf(priority);
  std::vector<Task> dropped;
  {
    MutexLock lock(pool.mutex);
    std::erase_if(pool.tasks, [&](const Task& task) {
      if (task.tag != tag) return false;
      dropped.push_back(task);
      return true;
    });
  }
  for (const Task& task : dropped) {
    if (task.drop != nullptr) task.drop(task.argument);
  }
  return static_cast<int>(dropped.size());
}

unsigned int RocksEnv::GetThreadPoolQueueLen(Priority priority) const {
  const Pool& pool = PoolOf(priority);
  MutexLock lock(pool.mutex);
  return static_cast<unsigned int>(pool.tasks.size());
}

int RocksEnv::GetBackgroundThreads(Priority priority) {
  if (priority == HIGH) return kRocksFlushThreads;
  return priority == LOW ? 1 : 0;
}

}  // namespace holdfast
