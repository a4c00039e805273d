// The meta store over RocksDB: its own family, log on, each batch synced. One thread, hf-disk-meta,
// takes what has queued up and writes it as one batch with one sync.
//
// Threading: thread-safe. Memory: queued batches, encoded. Errors: the Status handed to `done`; the
// next batch first tries to resume the database.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kvstore/meta_store.h"
#include "kvstore/mutex.h"
#include "kvstore/tiers.h"
#include "tiers/rocksdb_database.h"

namespace holdfast {

class RocksMeta final : public MetaStore {
 public:
  explicit RocksMeta(std::shared_ptr<RocksDatabase> database) : database_(std::move(database)) {}
  ~RocksMeta() override;  // writes what is queued
  RocksMeta(const RocksMeta&) = delete;
  RocksMeta& operator=(const RocksMeta&) = delete;

  // Before anything else. kResourceExhausted: no thread to be had.
  Status Start(const StartThread& start_thread);

  Result<MetaSnapshot> Load() override;
  void SubmitSync(MetaBatch batch, std::function<void(Status)> done) override;
  size_t Poll() override { return 0; }

  uint64_t bad_records() const noexcept { return bad_records_; }  // skipped by Load
  uint64_t syncs() const noexcept { return syncs_.load(); }       // groups written

 private:
  struct Queued {
    std::vector<MetaChange> changes;
    std::function<void(Status)> done;
  };
  void Run();
  Status Write(const std::deque<Queued>& group);

  const std::shared_ptr<RocksDatabase> database_;
  uint64_t bad_records_ = 0;
  std::atomic<uint64_t> syncs_{0};
  bool failed_ = false;  // of the thread
  Mutex mutex_;
  CondVar changed_;
  std::deque<Queued> queue_ HF_GUARDED_BY(mutex_);
  bool stop_ HF_GUARDED_BY(mutex_) = false;
  ThreadGroup threads_;
};

}  // namespace holdfast
