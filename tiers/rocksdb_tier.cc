#include "tiers/rocksdb_tier.h"

#include <algorithm>
#include <utility>

#include <rocksdb/convenience.h>

#include "kvstore/check.h"
#include "tiers/rocksdb_meta.h"

namespace holdfast {
namespace {

constexpr Duration kSweepInterval = std::chrono::seconds(5);

}  // namespace

RocksTier::RocksTier(std::shared_ptr<RocksDatabase> database, Clock& run_clock,
                     std::function<void()> wake, DiskTierOptions options)
    : database_(std::move(database)),
      clock_(run_clock),
      wake_(wake ? std::move(wake) : [] {}),
      options_(std::move(options)),
      writers_max_(std::max(1u, options_.threads - 1)),
      table_({.capacity_bytes = options_.capacity_bytes, .families_max = options_.families_max}) {
  database_->Observe(this);
}

Status RocksTier::Start() {
  HF_RETURN_IF_ERROR(
      threads_.Start(options_.start_thread, "hf-disk-maint", [this] { Maintain(); }));
  for (uint32_t i = 0; i < options_.threads; ++i) {
    HF_RETURN_IF_ERROR(threads_.Start(options_.start_thread, "hf-disk-" + std::to_string(i + 1),
                                      [this] { Work(); }));
  }
  return {};
}

RocksTier::~RocksTier() {
  HF_CHECK(in_flight_.load() == 0);
  bool resuming = false;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    resuming = resume_queued_;
  }
  database_->OpenFlushes();
  // Should RocksDB have lost a flush nevertheless, Resume would never end.
  if (resuming) rocksdb::CancelAllBackgroundWork(&database_->db(), /*wait=*/false);
  work_.NotifyAll();
  jobs_changed_.NotifyAll();
  threads_.Join();
  database_->Observe(nullptr);
  MutexLock lock(mutex_);
  for (const auto& [group, family] : families_) database_->CloseFamily(family.rocks);
}

TierLimits RocksTier::limits() const noexcept {
  return {.capacity_bytes = options_.capacity_bytes};
}

TierUsage RocksTier::usage() const noexcept {
  MutexLock lock(mutex_);
  TierUsage usage = table_.Usage();
  usage.undurable_bytes = undurable_bytes_;
  usage.read_bytes = database_->counters().read_bytes.load(std::memory_order_relaxed);
  usage.written_bytes = database_->counters().written_bytes.load(std::memory_order_relaxed);
  usage.faults = faults_;
  usage.last_errno = last_errno_;
  return usage;
}

std::optional<Place> RocksTier::Allocate(const Shape& shape) {
  MutexLock lock(mutex_);
  if (declining_) return std::nullopt;
  std::optional<Place> place = table_.Allocate(shape);
  Dispatch();
  return place;
}

void RocksTier::Free(Place place) {
  MutexLock lock(mutex_);
  table_.Free(place);
  Dispatch();
}

void RocksTier::Submit(FrameOp* op) {
  op->submitted = op->finished = clock_.Now();
  in_flight_.fetch_add(1);
  {
    MutexLock lock(mutex_);
    if (table_.BeginOperation(op->place)) {
      (op->kind == FrameOpKind::kRead ? reads_ : writes_).push_back(op);
      work_.NotifyOne();
      return;
    }
    op->outcome = FrameOutcome::kCorrupt;
    op->fault = FrameFault::kIdentity;
    finished_.push_back(op);
  }
  wake_();
}

size_t RocksTier::Poll(std::span<FrameOp*> out) {
  MutexLock lock(mutex_);
  size_t n = 0;
  for (; n < out.size() && !finished_.empty(); ++n) {
    out[n] = finished_.front();
    finished_.pop_front();
  }
  in_flight_.fetch_sub(n);
  return n;
}

Status RocksTier::Recover(HoldMillis now, const OnRecovered& on_copy) {
  {
    MutexLock lock(mutex_);
    table_.Observe(now);
  }
  for (const RocksFamily& family : database_->TakeFamilies()) {
    uint64_t bytes = 0;
    database_->FilesOf(family, &bytes);
    const GroupId group = family.identity.id;
    {
      MutexLock lock(mutex_);
      table_.Adopt(group, family.identity.line, bytes);
      families_[group].rocks = family;
      families_[group].id = family.handle->GetID();
      if (family.identity.line.end <= now) {
        table_.Retire(group);
        Dispatch();
        continue;
      }
    }
    const Status status = RecoverFamily(family, on_copy);
    if (status.ok()) continue;
    // What could not be listed is a miss; the rest of the disk is not.
    MutexLock lock(mutex_);
    CountFault(status.os_errno());
  }
  return {};
}

Status RocksTier::RecoverFamily(const RocksFamily& family, const OnRecovered& on_copy) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::string from(1, kBlockRecord);
  const std::string to(1, kBlockRecord + 1);
  const rocksdb::Slice upper(to);
  options.iterate_upper_bound = &upper;  // an iterator would fetch the blob of a frame's record
  std::unique_ptr<rocksdb::Iterator> it(database_->db().NewIterator(options, family.handle));
  BlockRecord record;
  for (it->Seek(from); it->Valid(); it->Next()) {
    const auto slot = ParseSlotKey(kBlockRecord, it->key().ToStringView());
    if (!slot) continue;
    const Place place{family.identity.id, *slot};
    std::optional<EntryId> entry;
    const bool readable = DecodeBlockRecord(it->value().ToStringView(), place, record);
    if (readable) {
      entry = on_copy({.fixed = &record.fixed, .placement = record.placement, .place = place});
    }
    MutexLock lock(mutex_);
    if (!readable) CountFault(0);
    table_.AdoptSlot(place, record.fixed.payload_bytes, entry);
  }
  return FromRocks(it->status(), "disk tier: listing a bucket");
}

std::optional<GroupId> RocksTier::Victim(HoldMillis now) {
  MutexLock lock(mutex_);
  return table_.Victim(now);
}

std::optional<GroupId> RocksTier::Expired(HoldMillis now) {
  MutexLock lock(mutex_);
  return table_.Expired(now);
}

void RocksTier::Live(GroupId group, std::vector<LiveCopy>& out) const {
  MutexLock lock(mutex_);
  table_.Live(group, out);
}

void RocksTier::BeginRetire(GroupId group) {
  MutexLock lock(mutex_);
  table_.BeginRetire(group);
}

void RocksTier::Retire(GroupId group) {
  MutexLock lock(mutex_);
  table_.Retire(group);
  Dispatch();
}

bool RocksTier::NeedsRoom() const noexcept {
  MutexLock lock(mutex_);
  return table_.NeedsRoom();
}

void RocksTier::Touched(Place place, uint32_t /*before*/, uint32_t now) {
  MutexLock lock(mutex_);
  table_.Touched(place, now);
}

HoldMillis RocksTier::CopyEnd(Place place) const noexcept {
  MutexLock lock(mutex_);
  return table_.End(place.group);
}

Instant RocksTier::FlushAt(const Family& family) const {
  if (family.unflushed.empty() || family.flush_queued) return Instant::max();
  const GroupId group = family.rocks.identity.id;
  if (table_.Find(group)->state != Bucket::State::kOpen) return Instant::max();  // it will go
  if (table_.Closed(group)) return retry_at_;
  return std::max(retry_at_, family.unflushed.front().since + options_.flush_age);
}

void RocksTier::Step(Instant now, HoldMillis hold_now) {
  MutexLock lock(mutex_);
  table_.Observe(hold_now);
  Dispatch();
  if (declining_ && !resume_queued_ && now >= resume_at_) {
    resume_queued_ = true;
    Enqueue({JobKind::kResume, 0});
  }
  if (!leaving_.empty() && !sweep_queued_ && now >= sweep_at_) {
    sweep_at_ = now + kSweepInterval;
    sweep_queued_ = true;
    Enqueue({JobKind::kSweep, 0});
  }
  if (declining_ || now < retry_at_) return;
  for (const GroupId group : std::exchange(failed_drops_, {})) Enqueue({JobKind::kDrop, group});
  for (auto& [group, family] : families_) {
    if (FlushAt(family) <= now) QueueFlush(group, family);
  }
}

void RocksTier::RequestFlush() {
  MutexLock lock(mutex_);
  for (auto& [group, family] : families_) {
    if (!family.unflushed.empty()) QueueFlush(group, family);
  }
}

Instant RocksTier::NextStep() const noexcept {
  MutexLock lock(mutex_);
  Instant next = Instant::max();
  if (declining_ && !resume_queued_) next = std::min(next, resume_at_);
  if (!leaving_.empty() && !sweep_queued_) next = std::min(next, sweep_at_);
  if (declining_) return next;
  if (!failed_drops_.empty()) next = std::min(next, retry_at_);
  for (const auto& [group, family] : families_) next = std::min(next, FlushAt(family));
  return next;
}

void RocksTier::CountFault(int os_errno) {
  ++faults_;
  if (os_errno != 0) last_errno_ = os_errno;
}

Result<DiskTier> OpenRocksDisk(Clock& run_clock, std::function<void()> wake,
                               DiskTierOptions options,
                               const std::shared_ptr<rocksdb::FileSystem>& file_system) {
  constexpr uint64_t kWriteBufferMin = 4 << 20;
  if (options.directory.empty() || !options.start_thread || options.threads == 0 ||
      options.families_max < 4 || options.write_buffer_bytes < kWriteBufferMin) {
    return Status(StatusCode::kInvalidArgument,
                  "disk tier: directory and start_thread must be set, threads at least 1, "
                  "families_max at least 4, write_buffer_bytes at least 4 MiB");
  }
  HF_ASSIGN_OR_RETURN(std::shared_ptr<RocksDatabase> database,
                      RocksDatabase::Open({.directory = options.directory,
                                           .write_buffer_bytes = options.write_buffer_bytes,
                                           .file_system = file_system,
                                           .start_thread = options.start_thread}));
  DiskTier disk;
  auto meta = std::make_unique<RocksMeta>(database);
  HF_RETURN_IF_ERROR(meta->Start(options.start_thread));
  disk.meta = std::move(meta);
  if (options.capacity_bytes > 0) {
    auto tier = std::make_unique<RocksTier>(std::move(database), run_clock, std::move(wake),
                                            std::move(options));
    HF_RETURN_IF_ERROR(tier->Start());
    disk.tier = std::move(tier);
    return disk;
  }
  // Nobody will ever expire what an earlier capacity left behind.
  for (const RocksFamily& family : database->TakeFamilies()) {
    HF_RETURN_IF_ERROR(database->DropFamily(family));
  }
  return disk;
}

Result<DiskTier> OpenDiskTier(Clock& run_clock, std::function<void()> wake,
                              DiskTierOptions options) {
  return OpenRocksDisk(run_clock, std::move(wake), std::move(options),
                       rocksdb::FileSystem::Default());
}

}  // namespace holdfast
