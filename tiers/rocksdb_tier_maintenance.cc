// The thread hf-disk-maint, and what RocksDB reports from its own threads.
#include <algorithm>
#include <utility>

#include "tiers/rocksdb_tier.h"

namespace holdfast {
namespace {

constexpr Duration kRetryInterval = std::chrono::seconds(1);
constexpr Duration kResumeIntervalMax = std::chrono::seconds(60);

}  // namespace

void RocksTier::Enqueue(Job job) {
  if (job.kind == JobKind::kCreate) {
    jobs_.push_front(job);  // writes wait for it
  } else {
    jobs_.push_back(job);
  }
  jobs_changed_.NotifyOne();
}

void RocksTier::Dispatch() {
  for (const GroupId group : table_.TakeWanted()) Enqueue({JobKind::kCreate, group});
  for (const GroupId group : table_.TakeDroppable()) Enqueue({JobKind::kDrop, group});
}

void RocksTier::QueueFlush(GroupId group, Family& family) {
  if (family.flush_queued) {
    family.flush_again = true;  // the running one may have begun before the last write
    return;
  }
  family.flush_queued = true;
  Enqueue({JobKind::kFlush, group});
}

// False: the tier is going. Only drops are still done then: what they free must not come back.
bool RocksTier::TakeJob(Job& job) {
  MutexLock lock(mutex_);
  while (jobs_.empty() && !stop_) jobs_changed_.Wait(mutex_);
  if (stop_) std::erase_if(jobs_, [](const Job& each) { return each.kind != JobKind::kDrop; });
  if (jobs_.empty()) return false;
  job = jobs_.front();
  jobs_.pop_front();
  return true;
}

void RocksTier::Maintain() {
  Job job;
  while (TakeJob(job)) {
    switch (job.kind) {
      case JobKind::kCreate:
        Create(job.group);
        break;
      case JobKind::kFlush:
        Flush(job.group);
        break;
      case JobKind::kDrop:
        Drop(job.group);
        break;
      case JobKind::kResume:
        Resume();
        break;
      case JobKind::kSweep:
        Sweep();
        break;
    }
    wake_();
  }
}

void RocksTier::Create(GroupId group) {
  FamilyIdentity identity{.id = group};
  {
    MutexLock lock(mutex_);
    identity.line = table_.Find(group)->line;
  }
  Result<RocksFamily> created = database_->CreateFamily(identity);
  MutexLock lock(mutex_);
  if (created.has_value()) {
    families_[group].rocks = *created;
    families_[group].id = created->handle->GetID();
    table_.Created(group);
  } else {
    CountFault(created.error().os_errno());
    table_.CreateFailed(group);
  }
}

void RocksTier::Flush(GroupId group) {
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  uint64_t written = 0;
  {
    MutexLock lock(mutex_);
    const auto it = families_.find(group);
    if (it == families_.end()) return;
    handle = it->second.rocks.handle;
    written = it->second.written;
    it->second.flush_again = false;
  }
  rocksdb::FlushOptions options;
  options.allow_write_stall = true;  // writers do not wait inside RocksDB
  const rocksdb::Status status = database_->db().Flush(options, handle);
  MutexLock lock(mutex_);
  Family& family = families_.at(group);  // only this thread takes families out
  family.flush_queued = false;
  if (status.ok()) {
    while (family.flushed < written) TakeFlushed(family);
    if (family.flush_again && !family.unflushed.empty()) QueueFlush(group, family);
  } else {
    CountFault(ErrnoOf(status));
    retry_at_ = clock_.Now() + kRetryInterval;
  }
}

void RocksTier::Drop(GroupId group) {
  RocksFamily family;
  {
    MutexLock lock(mutex_);
    family = families_.at(group).rocks;
  }
  std::vector<uint64_t> files = database_->FilesOf(family, nullptr);
  {
    MutexLock lock(mutex_);  // before the drop: deletions are reported from another thread
    leaving_[group].files.insert(files.begin(), files.end());
  }
  const Status status = database_->DropFamily(family);
  MutexLock lock(mutex_);
  if (!status.ok()) {
    CountFault(status.os_errno());
    leaving_.erase(group);
    failed_drops_.push_back(group);
    retry_at_ = clock_.Now() + kRetryInterval;
    return;
  }
  undurable_bytes_ -= families_.at(group).unflushed_bytes;
  families_.erase(group);
  leaving_[group].dropped = true;
  FinishLeaving();
}

void RocksTier::FinishLeaving() {
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    if (!it->second.dropped || !it->second.files.empty()) {
      ++it;
      continue;
    }
    table_.Dropped(it->first);
    it = leaving_.erase(it);
  }
}

void RocksTier::Resume() {
  const rocksdb::Status status = database_->Resume();
  MutexLock lock(mutex_);
  resume_queued_ = false;
  if (status.ok()) {
    declining_ = false;
    resume_interval_ = std::chrono::seconds(1);
    unstalled_.NotifyAll();
    return;
  }
  CountFault(ErrnoOf(status));
  resume_at_ = clock_.Now() + resume_interval_;
  resume_interval_ = std::min(resume_interval_ * 2, kResumeIntervalMax);
}

// Deletions are reported as they happen; this finds those that were not.
void RocksTier::Sweep() {
  std::vector<uint64_t> files;
  {
    MutexLock lock(mutex_);
    sweep_queued_ = false;
    for (const auto& [group, leaving] : leaving_) {
      files.insert(files.end(), leaving.files.begin(), leaving.files.end());
    }
  }
  std::erase_if(files, [this](uint64_t number) { return database_->FileExists(number); });
  for (const uint64_t number : files) OnFileDeleted(number);
}

void RocksTier::TakeFlushed(Family& family) {
  const uint64_t bytes = family.unflushed.front().bytes;
  family.unflushed.pop_front();
  family.unflushed_bytes -= bytes;
  undurable_bytes_ -= bytes;
  ++family.flushed;
}

void RocksTier::OnFlushed(uint32_t family_id, uint64_t sequence) {
  {
    MutexLock lock(mutex_);
    for (auto& [group, family] : families_) {
      if (family.id != family_id) continue;
      while (!family.unflushed.empty() && family.unflushed.front().sequence <= sequence) {
        TakeFlushed(family);
      }
    }
    unstalled_.NotifyAll();
  }
  wake_();
}

void RocksTier::OnFileDeleted(uint64_t number) {
  bool some = false;
  {
    MutexLock lock(mutex_);
    for (auto& [group, leaving] : leaving_) some |= leaving.files.erase(number) > 0;
    if (some) FinishLeaving();
  }
  if (some) wake_();
}

void RocksTier::OnBackgroundError(int os_errno) {
  {
    MutexLock lock(mutex_);
    CountFault(os_errno);
    if (!declining_) resume_at_ = clock_.Now() + resume_interval_;
    declining_ = true;
    unstalled_.NotifyAll();
  }
  wake_();
}

}  // namespace holdfast
