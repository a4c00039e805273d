#include "tiers/rocksdb_meta.h"

#include <utility>

#include <rocksdb/write_batch.h>

namespace holdfast {

Status RocksMeta::Start(const StartThread& start_thread) {
  return threads_.Start(start_thread, "hf-disk-meta", [this] { Run(); });
}

RocksMeta::~RocksMeta() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  threads_.Join();
}

Result<MetaSnapshot> RocksMeta::Load() {
  MetaSnapshot snapshot;
  bad_records_ = 0;
  std::unique_ptr<rocksdb::Iterator> it(database_->db().NewIterator({}, database_->meta()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    if (!DecodeMeta(it->key().ToStringView(), it->value().ToStringView(), snapshot)) {
      ++bad_records_;
    }
  }
  if (!it->status().ok()) return FromRocks(it->status(), "disk tier: loading the meta family");
  return snapshot;
}

void RocksMeta::SubmitSync(MetaBatch batch, std::function<void(Status)> done) {
  Queued queued{EncodeMeta(batch), std::move(done)};
  {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(queued));
  }
  changed_.NotifyOne();
}

Status RocksMeta::Write(const std::deque<Queued>& group) {
  rocksdb::WriteBatch batch;
  for (const Queued& queued : group) {
    for (const MetaChange& change : queued.changes) {
      const rocksdb::Status status = change.value
                                         ? batch.Put(database_->meta(), change.key, *change.value)
                                         : batch.Delete(database_->meta(), change.key);
      if (!status.ok()) return FromRocks(status, "disk tier: a meta batch");
    }
  }
  if (batch.Count() == 0) return {};                        // order alone was asked for
  if (failed_) database_->Resume().PermitUncheckedError();  // the write below says how it went
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status = database_->db().Write(options, &batch);
  failed_ = !status.ok();
  syncs_.fetch_add(1);
  return FromRocks(status, "disk tier: writing the meta family");
}

void RocksMeta::Run() {
  for (;;) {
    std::deque<Queued> group;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stop_) changed_.Wait(mutex_);
      if (queue_.empty()) return;
      group.swap(queue_);
    }
    const Status status = Write(group);
    status.IgnoreError("each batch is told");
    for (Queued& queued : group) {
      if (queued.done) queued.done(status);
    }
  }
}

}  // namespace holdfast
