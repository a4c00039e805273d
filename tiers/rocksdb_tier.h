// RocksTier: the disk tier. Buckets of BucketTable are column families of one RocksDB; frames are
// blobs in them.
//
// Who does what: the client's thread accounts and queues. Threads hf-disk-N put and get frames,
// reads first; at least one of several is kept free of writes. The thread hf-disk-maint creates,
// flushes and drops families and resumes the database after an error. RocksDB is never called with
// the lock held, and never asked to wait for its own flushes where a frame is written.
//
// A write is visible when it is in RocksDB's memory, durable when its family was flushed; what was
// not flushed when the tier goes is lost, so whoever closes calls RequestFlush first.
//
// Threading: as Tier says. Memory: RocksDB's write buffer (about 3x of the option resident), one
// batch a thread. Errors: of an operation in its outcome; after a background error of RocksDB the
// tier declines until a resume succeeds, tried after 1 s, 2 s, 4 s ... 60 s.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include <rocksdb/write_batch.h>

#include "kvstore/mutex.h"
#include "kvstore/tiers.h"
#include "tiers/bucket_table.h"
#include "tiers/rocksdb_database.h"

namespace holdfast {

class RocksTier final : public GroupedTier, private RocksObserver {
 public:
  RocksTier(std::shared_ptr<RocksDatabase> database, Clock& run_clock, std::function<void()> wake,
            DiskTierOptions options);
  ~RocksTier() override;
  // Before anything else. kResourceExhausted: a thread is refused, by name.
  Status Start();
  RocksTier(const RocksTier&) = delete;
  RocksTier& operator=(const RocksTier&) = delete;

  Where where() const noexcept override { return Where::kDisk; }
  std::string_view engine() const noexcept override { return "rocksdb"; }
  TierLimits limits() const noexcept override;
  TierUsage usage() const noexcept override;
  std::optional<Place> Allocate(const Shape& shape) override;
  void Free(Place place) override;
  void Submit(FrameOp* op) override;
  size_t Poll(std::span<FrameOp*> out) override;
  size_t in_flight() const noexcept override { return in_flight_.load(); }

  Status Recover(HoldMillis now, const OnRecovered& on_copy) override;
  std::optional<GroupId> Victim(HoldMillis now) override;
  std::optional<GroupId> Expired(HoldMillis now) override;
  void Live(GroupId group, std::vector<LiveCopy>& out) const override;
  void BeginRetire(GroupId group) override;
  void Retire(GroupId group) override;
  bool NeedsRoom() const noexcept override;
  void Touched(Place place, uint32_t before, uint32_t now) override;
  void SetEnd(Place /*place*/, HoldMillis /*deadline*/) override {}  // a bucket's end is fixed
  HoldMillis CopyEnd(Place place) const noexcept override;
  void Step(Instant now, HoldMillis hold_now) override;
  void RequestFlush() override;
  Instant NextStep() const noexcept override;

 private:
  struct Unflushed {
    uint64_t sequence = 0;  // at or after that of the write
    uint64_t bytes = 0;
    Instant since{};
  };
  struct Family {
    RocksFamily rocks;
    uint32_t id = 0;  // RocksDB's; the handle may be gone when a flush is reported
    std::deque<Unflushed> unflushed;
    uint64_t unflushed_bytes = 0;
    uint64_t written = 0, flushed = 0;  // entries ever added to, taken from the queue
    bool flush_queued = false, flush_again = false;
  };
  struct Leaving {
    std::set<uint64_t> files;  // yet to be deleted
    bool dropped = false;
  };
  enum class JobKind : uint8_t { kCreate, kFlush, kDrop, kResume, kSweep };
  struct Job {
    JobKind kind = JobKind::kCreate;
    GroupId group = 0;
  };

  // rocksdb_tier_io.cc
  void Work();
  FrameOp* NextOp() HF_REQUIRES(mutex_);
  void Read(FrameOp& op, rocksdb::ColumnFamilyHandle* handle);
  void Write(FrameOp& op, rocksdb::ColumnFamilyHandle* handle, rocksdb::WriteBatch& batch);
  int WriteWithoutStall(rocksdb::WriteBatch& batch);  // errno
  void Finish(FrameOp* op);

  // rocksdb_tier_maintenance.cc
  void Maintain();
  bool TakeJob(Job& job);
  void Create(GroupId group);
  void Flush(GroupId group);
  void Drop(GroupId group);
  void Resume();
  void Sweep();
  void OnFlushed(uint32_t family_id, uint64_t sequence) override;
  void OnFileDeleted(uint64_t number) override;
  void OnBackgroundError(int os_errno) override;
  void TakeFlushed(Family& family) HF_REQUIRES(mutex_);  // the oldest entry is durable
  void FinishLeaving() HF_REQUIRES(mutex_);

  void Enqueue(Job job) HF_REQUIRES(mutex_);
  void Dispatch() HF_REQUIRES(mutex_);  // what the table wants created or dropped
  void QueueFlush(GroupId group, Family& family) HF_REQUIRES(mutex_);
  void CountFault(int os_errno) HF_REQUIRES(mutex_);
  Instant FlushAt(const Family& family) const HF_REQUIRES(mutex_);  // max: not by itself
  Status RecoverFamily(const RocksFamily& family, const OnRecovered& on_copy);

  const std::shared_ptr<RocksDatabase> database_;
  Clock& clock_;
  const std::function<void()> wake_;
  const DiskTierOptions options_;
  const uint32_t writers_max_;
  std::atomic<size_t> in_flight_{0};

  mutable Mutex mutex_;
  CondVar work_, jobs_changed_, unstalled_;
  BucketTable table_ HF_GUARDED_BY(mutex_);
  std::map<GroupId, Family> families_ HF_GUARDED_BY(mutex_);
  std::map<GroupId, Leaving> leaving_ HF_GUARDED_BY(mutex_);
  std::deque<FrameOp*> reads_ HF_GUARDED_BY(mutex_), writes_ HF_GUARDED_BY(mutex_);
  std::deque<FrameOp*> finished_ HF_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ HF_GUARDED_BY(mutex_);
  uint32_t writing_ HF_GUARDED_BY(mutex_) = 0;
  uint64_t undurable_bytes_ HF_GUARDED_BY(mutex_) = 0;
  uint64_t faults_ HF_GUARDED_BY(mutex_) = 0;
  int last_errno_ HF_GUARDED_BY(mutex_) = 0;
  bool declining_ HF_GUARDED_BY(mutex_) = false;  // after a background error
  bool resume_queued_ HF_GUARDED_BY(mutex_) = false, sweep_queued_ HF_GUARDED_BY(mutex_) = false;
  bool stop_ HF_GUARDED_BY(mutex_) = false;
  Duration resume_interval_ HF_GUARDED_BY(mutex_) = std::chrono::seconds(1);
  Instant resume_at_ HF_GUARDED_BY(mutex_){}, sweep_at_ HF_GUARDED_BY(mutex_){};
  Instant retry_at_ HF_GUARDED_BY(mutex_){};  // of flushes and drops that failed
  std::vector<GroupId> failed_drops_ HF_GUARDED_BY(mutex_);
  ThreadGroup threads_;
};

// OpenDiskTier over another file system, for tests that let it fail.
Result<DiskTier> OpenRocksDisk(Clock& run_clock, std::function<void()> wake,
                               DiskTierOptions options,
                               const std::shared_ptr<rocksdb::FileSystem>& file_system);

}  // namespace holdfast
