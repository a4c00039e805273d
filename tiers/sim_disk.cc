#include "tiers/sim_disk.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>

#include "kvstore/check.h"
#include "kvstore/mutex.h"
#include "tiers/bucket_table.h"

namespace holdfast {
namespace {

class SimDiskTier final : public GroupedTier {
 public:
  SimDiskTier(Clock& clock, const SimDiskOptions& options, std::shared_ptr<SimDiskMedium> medium)
      : clock_(clock),
        options_(options),
        medium_(std::move(medium)),
        table_({.capacity_bytes = options.capacity_bytes, .families_max = options.families_max}) {
    medium_->LoseUnflushed();
  }
  ~SimDiskTier() override { HF_CHECK(in_flight_.load() == 0); }
  SimDiskTier(const SimDiskTier&) = delete;
  SimDiskTier& operator=(const SimDiskTier&) = delete;

  Where where() const noexcept override { return Where::kDisk; }
  std::string_view engine() const noexcept override { return options_.bytes ? "sim" : "none"; }
  TierLimits limits() const noexcept override {
    return {.capacity_bytes = options_.capacity_bytes};
  }
  TierUsage usage() const noexcept override {
    MutexLock lock(mutex_);
    TierUsage usage = table_.Usage();
    usage.undurable_bytes = undurable_bytes_;
    usage.read_bytes = read_bytes_;
    usage.written_bytes = written_bytes_;
    usage.faults = faults_;
    usage.last_errno = last_errno_;
    return usage;
  }
  std::optional<Place> Allocate(const Shape& shape) override {
    MutexLock lock(mutex_);
    std::optional<Place> place = table_.Allocate(shape);
    if (options_.bytes) return place;
    CreateWanted();
    return place ? place : table_.Allocate(shape);
  }
  void Free(Place place) override {
    MutexLock lock(mutex_);
    table_.Free(place);
    if (!options_.bytes) DropRetired();
  }
  void Submit(FrameOp* op) override {
    op->submitted = clock_.Now();
    in_flight_.fetch_add(1);
    MutexLock lock(mutex_);
    (table_.BeginOperation(op->place) ? queue_ : gone_).push_back(op);
  }
  size_t Poll(std::span<FrameOp*> out) override;
  size_t in_flight() const noexcept override { return in_flight_.load(); }

  Status Recover(HoldMillis now, const OnRecovered& on_copy) override;
  std::optional<GroupId> Victim(HoldMillis now) override {
    MutexLock lock(mutex_);
    return table_.Victim(now);
  }
  std::optional<GroupId> Expired(HoldMillis now) override {
    MutexLock lock(mutex_);
    return table_.Expired(now);
  }
  void Live(GroupId group, std::vector<LiveCopy>& out) const override {
    MutexLock lock(mutex_);
    table_.Live(group, out);
  }
  void BeginRetire(GroupId group) override {
    MutexLock lock(mutex_);
    table_.BeginRetire(group);
  }
  void Retire(GroupId group) override {
    MutexLock lock(mutex_);
    table_.Retire(group);
    if (!options_.bytes) DropRetired();
  }
  bool NeedsRoom() const noexcept override {
    MutexLock lock(mutex_);
    return table_.NeedsRoom();
  }
  void Touched(Place place, uint32_t /*before*/, uint32_t now) override {
    MutexLock lock(mutex_);
    table_.Touched(place, now);
  }
  void SetEnd(Place /*place*/, HoldMillis /*deadline*/) override {}  // a bucket's end is fixed
  HoldMillis CopyEnd(Place place) const noexcept override {
    MutexLock lock(mutex_);
    return table_.End(place.group);
  }
  void Step(Instant now, HoldMillis hold_now) override {
    MutexLock lock(mutex_);
    table_.Observe(hold_now);
    CreateWanted();
    DropRetired();
    if (flush_wanted_ || (undurable_bytes_ > 0 && now >= unflushed_since_ + options_.flush_age)) {
      FlushAll();
    }
  }
  void RequestFlush() override {
    MutexLock lock(mutex_);
    flush_wanted_ = true;
  }
  Instant NextStep() const noexcept override {
    MutexLock lock(mutex_);
    if (flush_wanted_ || table_.Pending()) return Instant::min();
    return undurable_bytes_ > 0 ? unflushed_since_ + options_.flush_age : Instant::max();
  }

 private:
  void CreateWanted() HF_REQUIRES(mutex_);
  void DropRetired() HF_REQUIRES(mutex_);
  void FlushAll() HF_REQUIRES(mutex_);
  void Run(FrameOp& op) HF_REQUIRES(mutex_);
  void Write(FrameOp& op) HF_REQUIRES(mutex_);
  void Read(FrameOp& op) HF_REQUIRES(mutex_);
  FrameFault Unpack(const SimDiskMedium::Record& record, FrameOp& op) HF_REQUIRES(mutex_);

  Clock& clock_;
  const SimDiskOptions options_;
  const std::shared_ptr<SimDiskMedium> medium_;
  std::atomic<size_t> in_flight_{0};

  mutable Mutex mutex_;
  BucketTable table_ HF_GUARDED_BY(mutex_);
  std::deque<FrameOp*> queue_ HF_GUARDED_BY(mutex_);
  std::deque<FrameOp*> gone_ HF_GUARDED_BY(mutex_);  // reads of what was dropped before
  bool flush_wanted_ HF_GUARDED_BY(mutex_) = false;
  uint64_t undurable_bytes_ HF_GUARDED_BY(mutex_) = 0;
  Instant unflushed_since_ HF_GUARDED_BY(mutex_){};
  uint64_t read_bytes_ HF_GUARDED_BY(mutex_) = 0, written_bytes_ HF_GUARDED_BY(mutex_) = 0;
  uint64_t faults_ HF_GUARDED_BY(mutex_) = 0;
  int last_errno_ HF_GUARDED_BY(mutex_) = 0;
};

void SimDiskTier::CreateWanted() {
  for (const GroupId group : table_.TakeWanted()) {
    if (options_.bytes) medium_->families()[group].line = table_.Find(group)->line;
    table_.Created(group);
  }
}

void SimDiskTier::DropRetired() {
  for (const GroupId group : table_.TakeDroppable()) {
    const auto it = medium_->families().find(group);
    if (it != medium_->families().end()) {
      for (const auto& [slot, record] : it->second.records) {
        if (!record.durable) undurable_bytes_ -= FrameBytes(record.payload.size());
      }
      medium_->families().erase(it);
    }
    table_.Dropped(group);
  }
}

void SimDiskTier::FlushAll() {
  for (auto& [group, family] : medium_->families()) {
    for (auto& [slot, record] : family.records) record.durable = true;
  }
  undurable_bytes_ = 0;
  flush_wanted_ = false;
}

size_t SimDiskTier::Poll(std::span<FrameOp*> out) {
  MutexLock lock(mutex_);
  CreateWanted();
  size_t n = 0;
  for (; n < out.size() && !queue_.empty(); ++n) {
    FrameOp* const op = queue_.front();
    queue_.pop_front();
    Run(*op);
    op->finished = clock_.Now();
    table_.EndOperation(op->place);
    out[n] = op;
  }
  for (; n < out.size() && !gone_.empty(); ++n) {
    FrameOp* const op = gone_.front();
    gone_.pop_front();
    op->outcome = FrameOutcome::kCorrupt;
    op->fault = FrameFault::kIdentity;
    op->finished = clock_.Now();
    out[n] = op;
  }
  in_flight_.fetch_sub(n);
  if (!options_.bytes) DropRetired();
  return n;
}

void SimDiskTier::Run(FrameOp& op) {
  op.outcome = FrameOutcome::kDone;
  if (!options_.bytes) return;
  op.os_errno = medium_->NextFault();
  if (op.os_errno != 0) {
    op.outcome = FrameOutcome::kFailed;
    last_errno_ = op.os_errno;
    ++faults_;
  } else if (op.kind == FrameOpKind::kWrite) {
    Write(op);
  } else {
    Read(op);
  }
}

void SimDiskTier::Write(FrameOp& op) {
  op.header->placement.epoch = op.place.group;
  op.header->placement.slot = op.place.slot;
  SealPlacement(*op.header);
  SimDiskMedium::Record record;
  record.block_record = EncodeBlockRecord(*op.header, op.place);
  record.header = std::make_unique<FrameHeader>(*op.header);
  const uint64_t payload_bytes = op.header->fixed.payload_bytes;
  for (const Extent& extent : op.payload) {
    const uint64_t bytes = std::min(extent.bytes, payload_bytes - record.payload.size());
    record.payload.insert(record.payload.end(), extent.data, extent.data + bytes);
  }
  HF_CHECK(record.payload.size() == payload_bytes);
  if (undurable_bytes_ == 0) unflushed_since_ = clock_.Now();
  undurable_bytes_ += FrameBytes(payload_bytes);
  written_bytes_ += kPageBytes + payload_bytes + record.block_record.size();
  medium_->families()[op.place.group].records[op.place.slot] = std::move(record);
}

void SimDiskTier::Read(FrameOp& op) {
  const auto& records = medium_->families()[op.place.group].records;
  const auto it = records.find(op.place.slot);
  op.fault = it == records.end() ? FrameFault::kMagic : Unpack(it->second, op);
  if (op.fault != FrameFault::kNone) op.outcome = FrameOutcome::kCorrupt;
}

FrameFault SimDiskTier::Unpack(const SimDiskMedium::Record& record, FrameOp& op) {
  *op.header = *record.header;
  FrameExpect expect = op.expect;
  expect.epoch = op.place.group;
  expect.slot = op.place.slot;
  const FrameFault fault = CheckHeader(*op.header, expect);
  if (fault != FrameFault::kNone) return fault;
  if (op.offset > record.payload.size()) return FrameFault::kPayload;
  std::span<const std::byte> left = std::span(record.payload).subspan(op.offset);
  for (const Extent& extent : op.payload) {
    const size_t bytes = std::min<size_t>(extent.bytes, left.size());
    std::copy_n(left.begin(), bytes, extent.data);
    left = left.subspan(bytes);
    read_bytes_ += bytes;
  }
  return CheckPayload(op.header->fixed, op.offset, op.payload);
}

Status SimDiskTier::Recover(HoldMillis now, const OnRecovered& on_copy) {
  std::vector<GroupId> groups;
  {
    MutexLock lock(mutex_);
    table_.Observe(now);
  }
  for (const auto& [group, family] : medium_->families()) groups.push_back(group);
  BlockRecord found;
  for (const GroupId group : groups) {
    const SimDiskMedium::Family& family = medium_->families()[group];
    uint64_t bytes = 0;
    for (const auto& [slot, record] : family.records) {
      bytes += BucketTable::CostOf(record.payload.size());
    }
    {
      MutexLock lock(mutex_);
      table_.Adopt(group, family.line, bytes);
      if (family.line.end <= now) {
        table_.Retire(group);
        DropRetired();
        continue;
      }
    }
    for (const auto& [slot, record] : family.records) {
      const Place place{group, slot};
      std::optional<EntryId> entry;
      const bool readable = DecodeBlockRecord(record.block_record, place, found);
      if (readable) {
        entry = on_copy({.fixed = &found.fixed, .placement = found.placement, .place = place});
      }
      MutexLock lock(mutex_);
      if (!readable) ++faults_;
      table_.AdoptSlot(place, record.payload.size(), entry);
    }
  }
  return {};
}

class SimMeta final : public MetaStore {
 public:
  explicit SimMeta(std::shared_ptr<SimDiskMedium> medium) : medium_(std::move(medium)) {}

  Result<MetaSnapshot> Load() override {
    MutexLock lock(mutex_);
    MetaSnapshot snapshot;
    for (const auto& [key, value] : medium_->meta()) {
      if (!DecodeMeta(key, value, snapshot)) ++bad_records_;
    }
    return snapshot;
  }
  void SubmitSync(MetaBatch batch, std::function<void(Status)> done) override {
    MutexLock lock(mutex_);
    queue_.push_back({EncodeMeta(batch), std::move(done)});
  }
  size_t Poll() override {
    std::deque<Queued> group;
    {
      MutexLock lock(mutex_);
      group.swap(queue_);
      for (const Queued& queued : group) Apply(queued.changes);
    }
    for (const Queued& queued : group) {
      if (queued.done) queued.done(Status());
    }
    return group.size();
  }

 private:
  struct Queued {
    std::vector<MetaChange> changes;
    std::function<void(Status)> done;
  };
  void Apply(const std::vector<MetaChange>& changes) HF_REQUIRES(mutex_) {
    for (const MetaChange& change : changes) {
      if (change.value) {
        medium_->meta()[change.key] = *change.value;
      } else {
        medium_->meta().erase(change.key);
      }
    }
  }
  const std::shared_ptr<SimDiskMedium> medium_;
  Mutex mutex_;
  std::deque<Queued> queue_ HF_GUARDED_BY(mutex_);
  uint64_t bad_records_ HF_GUARDED_BY(mutex_) = 0;
};

}  // namespace

SimDiskMedium::Record* SimDiskMedium::Newest(const BlockKey& key) {
  Record* newest = nullptr;
  for (auto& [group, family] : families_) {
    for (auto& [slot, record] : family.records) {
      if (record.header->fixed.key != key) continue;
      if (newest == nullptr ||
          record.header->placement.write_id > newest->header->placement.write_id) {
        newest = &record;
      }
    }
  }
  return newest;
}

bool SimDiskMedium::CorruptPayload(const BlockKey& key) {
  Record* const record = Newest(key);
  if (record != nullptr) record->payload[record->payload.size() / 2] ^= std::byte{1};
  return record != nullptr;
}

bool SimDiskMedium::CorruptBlockRecord(const BlockKey& key) {
  Record* const record = Newest(key);
  if (record != nullptr) record->block_record[40] ^= 1;
  return record != nullptr;
}

void SimDiskMedium::LoseUnflushed() {
  for (auto& [group, family] : families_) {
    std::erase_if(family.records, [](const auto& item) { return !item.second.durable; });
  }
}

size_t SimDiskMedium::records() const noexcept {
  size_t count = 0;
  for (const auto& [group, family] : families_) count += family.records.size();
  return count;
}

int SimDiskMedium::NextFault() noexcept {
  if (!fail_after_) return 0;
  if ((*fail_after_)-- > 0) return 0;
  fail_after_.reset();
  return fail_errno_;
}

DiskTier OpenSimDisk(Clock& run_clock, const SimDiskOptions& options,
                     std::shared_ptr<SimDiskMedium> medium) {
  DiskTier disk;
  disk.meta = std::make_unique<SimMeta>(medium);
  if (options.capacity_bytes > 0) {
    disk.tier = std::make_unique<SimDiskTier>(run_clock, options, std::move(medium));
  }
  return disk;
}

DiskTier CreateSimDisk(Clock& run_clock, uint64_t capacity_bytes, bool bytes) {
  return OpenSimDisk(run_clock, {.capacity_bytes = capacity_bytes, .bytes = bytes},
                     std::make_shared<SimDiskMedium>());
}

}  // namespace holdfast
