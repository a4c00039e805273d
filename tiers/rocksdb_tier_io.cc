// The threads hf-disk-N: one frame in, one frame out.
#include <cerrno>
#include <cstring>

#include "kvstore/check.h"
#include "tiers/rocksdb_options.h"
#include "tiers/rocksdb_tier.h"

namespace holdfast {
namespace {

constexpr size_t kBatchBytesKept = 16 << 20;  // a larger batch gives its memory back
constexpr Duration kStallPoll = std::chrono::milliseconds(10);

// Copies the bytes of `value` from `offset` on into the extents; what is past its end stays.
void CopyOut(std::string_view value, std::span<const Extent> extents) {
  for (const Extent& extent : extents) {
    const size_t bytes = std::min<size_t>(extent.bytes, value.size());
    std::memcpy(extent.data, value.data(), bytes);
    value.remove_prefix(bytes);
  }
}

std::vector<rocksdb::Slice> FrameSlices(const FrameOp& op) {
  std::vector<rocksdb::Slice> slices;
  slices.reserve(op.payload.size() + 1);
  slices.emplace_back(reinterpret_cast<const char*>(op.header), kPageBytes);
  uint64_t left = op.header->fixed.payload_bytes;
  for (const Extent& extent : op.payload) {
    const uint64_t bytes = std::min(extent.bytes, left);
    slices.emplace_back(reinterpret_cast<const char*>(extent.data), bytes);
    left -= bytes;
  }
  HF_CHECK(left == 0);
  return slices;
}

// Fills header and extents from a frame's record; the fault that makes it another one, or none.
FrameFault Unpack(std::string_view value, FrameOp& op) {
  if (value.size() < kPageBytes) return FrameFault::kMagic;
  std::memcpy(op.header, value.data(), kPageBytes);
  FrameExpect expect = op.expect;
  expect.epoch = op.place.group;
  expect.slot = op.place.slot;
  const FrameFault fault = CheckHeader(*op.header, expect);
  if (fault != FrameFault::kNone) return fault;
  value.remove_prefix(kPageBytes);
  if (value.size() != op.header->fixed.payload_bytes || op.offset > value.size()) {
    return FrameFault::kPayload;
  }
  CopyOut(value.substr(op.offset), op.payload);
  return CheckPayload(op.header->fixed, op.offset, op.payload);
}

}  // namespace

void RocksTier::Work() {
  rocksdb::WriteBatch batch;
  for (;;) {
    FrameOp* op = nullptr;
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    {
      MutexLock lock(mutex_);
      while ((op = NextOp()) == nullptr && !stop_) work_.Wait(mutex_);
      if (op == nullptr) return;
      handle = families_.at(op->place.group).rocks.handle;  // stays while the operation runs
    }
    if (op->kind == FrameOpKind::kRead) {
      Read(*op, handle);
    } else {
      Write(*op, handle, batch);
    }
    Finish(op);
  }
}

FrameOp* RocksTier::NextOp() {
  FrameOp* op = nullptr;
  if (!reads_.empty()) {
    op = reads_.front();
    reads_.pop_front();
  } else if (!writes_.empty() && writing_ < writers_max_) {
    op = writes_.front();
    writes_.pop_front();
    ++writing_;
  }
  return op;
}

void RocksTier::Read(FrameOp& op, rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      database_->db().Get({}, handle, SlotKey(kFrameRecord, op.place.slot), &value);
  op.outcome = FrameOutcome::kCorrupt;
  if (status.ok()) {
    op.fault = Unpack(value.ToStringView(), op);
    if (op.fault == FrameFault::kNone) op.outcome = FrameOutcome::kDone;
  } else if (status.IsNotFound()) {
    op.fault = FrameFault::kMagic;  // no frame there
  } else if (status.IsCorruption()) {
    op.fault = FrameFault::kPayload;
  } else {
    op.outcome = FrameOutcome::kFailed;
    op.os_errno = ErrnoOf(status);
  }
}

void RocksTier::Write(FrameOp& op, rocksdb::ColumnFamilyHandle* handle,
                      rocksdb::WriteBatch& batch) {
  op.header->placement.epoch = op.place.group;
  op.header->placement.slot = op.place.slot;
  SealPlacement(*op.header);
  const std::vector<rocksdb::Slice> frame = FrameSlices(op);
  const std::string key = SlotKey(kFrameRecord, op.place.slot);
  const rocksdb::Slice key_slice(key);
  batch.Clear();
  rocksdb::Status status =
      batch.Put(handle, rocksdb::SliceParts(&key_slice, 1),
                rocksdb::SliceParts(frame.data(), static_cast<int>(frame.size())));
  if (status.ok()) {
    status = batch.Put(handle, SlotKey(kBlockRecord, op.place.slot),
                       EncodeBlockRecord(*op.header, op.place));
  }
  op.os_errno = status.ok() ? WriteWithoutStall(batch) : ErrnoOf(status);
  op.outcome = op.os_errno == 0 ? FrameOutcome::kDone : FrameOutcome::kFailed;
  if (batch.GetDataSize() > kBatchBytesKept) batch = rocksdb::WriteBatch();
}

// RocksDB would make a writer wait for its flushes inside, for ever when they cannot go on. Here
// the wait ends when a flush completed, or fails when there was an error.
int RocksTier::WriteWithoutStall(rocksdb::WriteBatch& batch) {
  for (;;) {
    const rocksdb::Status status = database_->db().Write(RocksPayloadWrite(), &batch);
    if (!status.IsIncomplete()) return ErrnoOf(status);
    MutexLock lock(mutex_);
    if (declining_) return last_errno_ != 0 ? last_errno_ : EIO;
    unstalled_.WaitFor(mutex_, kStallPoll);
  }
}

void RocksTier::Finish(FrameOp* op) {
  const bool wrote = op->kind == FrameOpKind::kWrite && op->outcome == FrameOutcome::kDone;
  const uint64_t sequence = wrote ? database_->db().GetLatestSequenceNumber() : 0;
  op->finished = clock_.Now();
  {
    MutexLock lock(mutex_);
    if (op->kind == FrameOpKind::kWrite) --writing_;
    if (op->outcome == FrameOutcome::kFailed) CountFault(op->os_errno);
    if (wrote) {
      Family& family = families_.at(op->place.group);
      const uint64_t bytes = FrameBytes(op->header->fixed.payload_bytes);
      family.unflushed.push_back({sequence, bytes, op->finished});
      family.unflushed_bytes += bytes;
      undurable_bytes_ += bytes;
      ++family.written;
    }
    table_.EndOperation(op->place);
    Dispatch();
    finished_.push_back(op);
  }
  work_.NotifyOne();  // a write may have waited for this one's turn
  wake_();
}

}  // namespace holdfast
