// Recovery: what the media say, corrected by the meta store, before anything is visible. The
// highest write id of a key wins; what was erased, past its deadline or of a dead epoch is not
// taken.
#include <algorithm>

#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {

Status Core::Recover() {
  MetaSnapshot meta;
  if (meta_ != nullptr) {
    HF_ASSIGN_OR_RETURN(meta, meta_->Load());
  }
  hold_base_ = hold_clock_->Now();
  hold_base_ms_ = std::max(hold_clock_->WallMicrosSinceEpoch() / 1000, meta.hold_now);
  recover_now_ = hold_base_ms_;
  uint64_t highest = meta.write_id_next;
  for (const Tombstone& t : meta.tombstones) {
    highest = std::max(highest, t.write_id + 1);
    tombstones_[t.key] = t;
  }
  for (const DeadlineRecord& d : meta.deadlines) {
    highest = std::max(highest, d.write_id + 1);
    deadline_records_[d.key] = d;
  }
  {
    MutexLock lock(mutex_);
    hold_persisted_ = 0;
    for (SpaceEpoch& s : meta.epochs) {
      for (const RootKey& root : s.dead_roots) ledger_.KillRoot(ledger_.RootNumber(root));
      stored_epochs_[s.space] = std::move(s);
    }
    next_write_id_ = highest;
  }
  for (int t : {int{kFlash}, int{kDisk}}) {
    if (tiers_[t] == nullptr) continue;
    auto* tier = static_cast<GroupedTier*>(tiers_[t].get());
    HF_RETURN_IF_ERROR(tier->Recover(recover_now_, [this, t](const RecoveredCopy& copy) {
      MutexLock lock(mutex_);
      return OnRecovered(t, copy);
    }));
  }
  return ApplyRecovered();
}

std::optional<EntryId> Core::OnRecovered(int tier, const RecoveredCopy& copy) {
  const FrameFixed& fixed = *copy.fixed;
  const FramePlacement& p = copy.placement;
  next_write_id_ = std::max(next_write_id_, p.write_id + 1);
  const uint32_t root = ledger_.RootNumber(fixed.root);
  if (ledger_.RootDead(root) || fixed.payload_bytes == 0 ||
      fixed.payload_bytes > options_.payload_bytes_max) {
    return std::nullopt;
  }
  if (const auto t = tombstones_.find(fixed.key);
      t != tombstones_.end() && p.write_id <= t->second.write_id) {
    return std::nullopt;
  }
  RecoveredHold hold{kNoEntry, p.write_id, p.deadline_ms, p.hold_ttl_ms, p.granted != 0};
  if (const auto d = deadline_records_.find(fixed.key);
      d != deadline_records_.end() && p.write_id <= d->second.write_id) {
    hold.deadline = d->second.deadline;
    hold.ttl_ms = d->second.hold_ttl_ms;
    hold.granted = d->second.granted;
  }
  if (hold.deadline != kNoDeadline) {
    // A clock that was set back makes nothing immortal.
    const uint8_t c = ledger_.holds.ClassOfStored(hold.ttl_ms);
    const uint8_t longest = ledger_.holds.classes();
    const int64_t ttl = ledger_.holds.ttl_ms(c != 0 ? c : longest);
    if (ttl > 0) hold.deadline = std::min(hold.deadline, recover_now_ + ttl);
    if (hold.deadline <= recover_now_) return std::nullopt;
  }
  EntryId id = ledger_.index.Find(fixed.key);
  if (id != kNoEntry) {
    const uint32_t known = ledger_.write_id_low(id);
    // Write ids of one key are close together: the difference of the low words has the sign.
    const auto newer = static_cast<int32_t>(static_cast<uint32_t>(p.write_id) - known);
    if (newer < 0) return std::nullopt;
    if (newer == 0 && (ledger_.index[id].readable(tier) ||
                       ledger_.index[id].payload_bytes != fixed.payload_bytes)) {
      return std::nullopt;
    }
    if (newer > 0) {
      ledger_.Remove(id, Why::kMoved);
      id = kNoEntry;
    }
  }
  if (id == kNoEntry) {
    id = ledger_.Add(fixed.key, root, fixed.index, static_cast<uint32_t>(fixed.payload_bytes));
    if (id == kNoEntry) return std::nullopt;  // the index was made smaller
    Entry& e = ledger_.index[id];
    e.last_touch = 0;
    e.touches = static_cast<uint8_t>(std::min<uint32_t>(p.touches, 255));
    ledger_.set_write_id(id, p.write_id);
    hold.id = id;
    if (hold.deadline != kNoDeadline) recovered_holds_.push_back(hold);
    if (!(fixed.parent == BlockKey{})) recovered_links_.push_back({id, fixed.parent});
  }
  ledger_.SetLive(id, tier, copy.place);
  return id;
}

Status Core::ApplyRecovered() {
  MetaBatch forget;
  {
    MutexLock lock(mutex_);
    for (const RecoveredLink& link : recovered_links_) {
      const Entry& e = ledger_.index[link.id];
      const EntryId parent = ledger_.index.Find(link.parent);
      if (!e.in_use || parent == kNoEntry) continue;
      if (ledger_.index[parent].root == e.root &&
          ledger_.index[parent].position + 1 == e.position) {
        ledger_.LinkParent(link.id, parent);
      }
    }
    std::sort(
        recovered_holds_.begin(), recovered_holds_.end(),
        [](const RecoveredHold& a, const RecoveredHold& b) { return a.deadline < b.deadline; });
    for (const RecoveredHold& h : recovered_holds_) {
      const Entry& e = ledger_.index[h.id];
      if (!e.in_use || ledger_.write_id_low(h.id) != static_cast<uint32_t>(h.write_id)) continue;
      ledger_.holds.Restore(h.id, ledger_.holds.ClassOfStored(h.ttl_ms), h.deadline, h.granted);
    }
    // A tombstone goes when no medium can hold an older copy any more; one that could not be read
    // in full may.
    bool all_read = true;
    for (int t : {int{kFlash}, int{kDisk}}) {
      if (tiers_[t] != nullptr) all_read = all_read && tiers_[t]->usage().faults == 0;
    }
    for (const auto& [key, d] : deadline_records_) {
      if (all_read && ledger_.index.Find(key) == kNoEntry) forget.forget_deadlines.push_back(key);
    }
    forget.hold_now = recover_now_;
    forget.write_id_next = next_write_id_;
    hold_persisted_ = recover_now_;
  }
  recovered_links_ = {};
  recovered_holds_ = {};
  deadline_records_ = {};
  tombstones_ = {};
  if (meta_ != nullptr) {
    {
      MutexLock lock(mutex_);
      ++meta_waiting_;
    }
    meta_->SubmitSync(std::move(forget), [this](Status status) {
      MutexLock lock(meta_mutex_);
      meta_done_.emplace_back(nullptr, std::move(status));
    });
  }
  return {};
}

}  // namespace holdfast::internal
