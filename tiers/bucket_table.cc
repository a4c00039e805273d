#include "tiers/bucket_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kvstore/check.h"

namespace holdfast {
namespace {

constexpr int64_t kMinute = 60'000;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kWidths[] = {kMinute, 5 * kMinute, kHour, kDay, kDay};
constexpr uint64_t kBucketsOfCapacity = 16;
constexpr HoldMillis kFarthest = kNoDeadline - 2 * kDay;  // no overflow by rounding

HoldMillis RoundUpTo(HoldMillis value, int64_t multiple) noexcept {
  return value <= 0 ? 0 : (value + multiple - 1) / multiple * multiple;
}

}  // namespace

int64_t WidthMillis(uint8_t width) noexcept { return kWidths[width]; }

int64_t BucketMillis(uint8_t width) noexcept { return std::max(kMinute, kWidths[width] / 4); }

BucketLine LineOf(HoldMillis deadline, HoldMillis now) noexcept {
  if (deadline >= kFarthest) {
    const HoldMillis created_to = RoundUpTo(now + 1, BucketMillis(kUndatedWidth));
    return {.width = kUndatedWidth, .end = kNoDeadline, .created_to = created_to};
  }
  uint8_t width = 0;
  while (width + 1 < kUndatedWidth && deadline > now && deadline - now > kWidths[width]) ++width;
  return {.width = width, .end = RoundUpTo(deadline, BucketMillis(width))};
}

BucketTable::BucketTable(BucketTableOptions options)
    : options_(options),
      bucket_bytes_max_(std::max<uint64_t>(options.capacity_bytes / kBucketsOfCapacity, 1)) {}

uint64_t BucketTable::CostOf(uint64_t payload_bytes) noexcept {
  const uint64_t frame = FrameBytes(payload_bytes);
  return frame + frame / 100 + 256;
}

void BucketTable::Observe(HoldMillis now) noexcept { now_ = std::max(now_, now); }

Bucket& BucketTable::At(GroupId id) {
  const auto it = buckets_.find(id);
  HF_CHECK(it != buckets_.end());
  return it->second;
}

const Bucket* BucketTable::Find(GroupId id) const {
  const auto it = buckets_.find(id);
  return it == buckets_.end() ? nullptr : &it->second;
}

bool BucketTable::Known(const BucketLine& line) const {
  return std::any_of(buckets_.begin(), buckets_.end(), [&](const auto& item) {
    return item.second.line == line && item.second.state <= Bucket::State::kOpen;
  });
}

bool BucketTable::Want(const BucketLine& line, size_t alive_max) {
  if (buckets_.size() >= alive_max) return false;
  const GroupId id = next_id_++;
  Bucket& bucket = buckets_[id];
  bucket.id = id;
  bucket.line = line;
  wanted_.push_back(id);
  return true;
}

Bucket* BucketTable::OpenBucket(const BucketLine& line) {
  Bucket* target = nullptr;  // the first with room, else the last
  bool spare = false;
  for (auto& [id, bucket] : buckets_) {
    if (bucket.line != line || bucket.state > Bucket::State::kOpen) continue;
    const bool open = bucket.state == Bucket::State::kOpen;
    if (open && (target == nullptr || Full(*target))) {
      target = &bucket;
    } else {
      spare = true;  // being created, or the one after the target
    }
  }
  const bool half_full = target == nullptr || target->total_bytes >= bucket_bytes_max_ / 2;
  if (half_full && !spare) Want(line, options_.families_max);
  // The line of the copies that come next, as long as buckets are not scarce.
  BucketLine next = line;
  (line.width == kUndatedWidth ? next.created_to : next.end) += BucketMillis(line.width);
  if (!Known(next)) Want(next, options_.families_max * 3 / 4);
  return target;
}

Bucket* BucketTable::NearestLater(HoldMillis deadline) {
  Bucket* nearest = nullptr;
  for (auto& [id, bucket] : buckets_) {
    if (bucket.state != Bucket::State::kOpen || bucket.line.end < deadline) continue;
    if (nearest == nullptr || bucket.line.end < nearest->line.end) nearest = &bucket;
  }
  return nearest;
}

std::optional<Place> BucketTable::Allocate(const Shape& shape) {
  const uint64_t cost = CostOf(shape.payload_bytes);
  if (total_bytes_ > options_.capacity_bytes || cost > options_.capacity_bytes - total_bytes_) {
    return std::nullopt;
  }
  const BucketLine line = LineOf(shape.deadline, now_);
  if (line.end <= now_) return std::nullopt;
  Bucket* bucket = OpenBucket(line);
  if (bucket == nullptr && !Known(line)) {
    bucket = NearestLater(shape.deadline);
    starved_ = bucket == nullptr;
  }
  if (bucket == nullptr || bucket->slots.size() >= UINT32_MAX) return std::nullopt;

  const Place place{bucket->id, static_cast<uint32_t>(bucket->slots.size())};
  const uint64_t frame = FrameBytes(shape.payload_bytes);
  bucket->slots.push_back({.entry = shape.entry,
                           .touched = shape.touched,
                           .pages = static_cast<uint32_t>(frame / kPageBytes),
                           .state = Bucket::Slot::State::kAllocated,
                           .granted = shape.hold_class != 0});
  ++bucket->live_copies;
  bucket->granted_copies += shape.hold_class != 0 ? 1 : 0;
  bucket->live_bytes += frame;
  bucket->touched_sum += shape.touched;
  bucket->total_bytes += cost;
  total_bytes_ += cost;
  return place;
}

void BucketTable::Forget(Bucket& bucket, Bucket::Slot& slot) {
  --bucket.live_copies;
  bucket.granted_copies -= slot.granted ? 1 : 0;
  bucket.live_bytes -= slot.pages * kPageBytes;
  bucket.touched_sum -= slot.touched;
}

void BucketTable::Free(Place place) {
  Bucket& bucket = At(place.group);
  HF_CHECK(place.slot < bucket.slots.size());
  Bucket::Slot& slot = bucket.slots[place.slot];
  HF_CHECK(slot.live());
  Forget(bucket, slot);
  if (slot.state == Bucket::Slot::State::kSubmitted) {
    slot.state = Bucket::Slot::State::kDead;
  } else {  // never written: nothing lies on the medium
    const uint64_t cost = CostOf(slot.pages * kPageBytes - kPageBytes);
    bucket.total_bytes -= cost;
    total_bytes_ -= cost;
    if (bucket.state >= Bucket::State::kRetiring) leaving_bytes_ -= cost;
    slot.state = Bucket::Slot::State::kUnused;
    while (!bucket.slots.empty() && bucket.slots.back().state == Bucket::Slot::State::kUnused) {
      bucket.slots.pop_back();
    }
  }
  if (bucket.state == Bucket::State::kRetired) Retire(bucket.id);
}

void BucketTable::Touched(Place place, uint32_t now) {
  const auto it = buckets_.find(place.group);
  if (it == buckets_.end() || place.slot >= it->second.slots.size()) return;
  Bucket::Slot& slot = it->second.slots[place.slot];
  if (!slot.live()) return;
  it->second.touched_sum += now;
  it->second.touched_sum -= slot.touched;
  slot.touched = now;
}

std::vector<GroupId> BucketTable::TakeWanted() { return std::exchange(wanted_, {}); }

void BucketTable::Created(GroupId id) {
  Bucket& bucket = At(id);
  HF_CHECK(bucket.state == Bucket::State::kCreating);
  bucket.state = Bucket::State::kOpen;
}

void BucketTable::CreateFailed(GroupId id) {
  HF_CHECK(At(id).state == Bucket::State::kCreating);
  buckets_.erase(id);
}

void BucketTable::Adopt(GroupId id, const BucketLine& line, uint64_t total_bytes) {
  HF_CHECK(!buckets_.contains(id));
  Bucket& bucket = buckets_[id];
  bucket.id = id;
  bucket.line = line;
  bucket.state = Bucket::State::kOpen;
  bucket.total_bytes = total_bytes;
  total_bytes_ += total_bytes;
  next_id_ = std::max(next_id_, id + 1);
}

void BucketTable::AdoptSlot(Place place, uint64_t payload_bytes, std::optional<EntryId> entry) {
  Bucket& bucket = At(place.group);
  if (bucket.slots.size() <= place.slot) bucket.slots.resize(uint64_t{place.slot} + 1);
  Bucket::Slot& slot = bucket.slots[place.slot];
  slot.state = entry ? Bucket::Slot::State::kSubmitted : Bucket::Slot::State::kDead;
  if (!entry) return;
  slot.entry = *entry;
  slot.pages = static_cast<uint32_t>(FrameBytes(payload_bytes) / kPageBytes);
  ++bucket.live_copies;
  bucket.live_bytes += slot.pages * kPageBytes;
}

bool BucketTable::BeginOperation(Place place) {
  const auto it = buckets_.find(place.group);
  if (it == buckets_.end() || it->second.state == Bucket::State::kDropping) return false;
  Bucket& bucket = it->second;
  HF_CHECK(place.slot < bucket.slots.size());
  Bucket::Slot& slot = bucket.slots[place.slot];
  if (slot.state == Bucket::Slot::State::kAllocated) slot.state = Bucket::Slot::State::kSubmitted;
  ++bucket.operations;
  return true;
}

void BucketTable::EndOperation(Place place) {
  Bucket& bucket = At(place.group);
  HF_CHECK(bucket.operations > 0);
  --bucket.operations;
  if (bucket.state == Bucket::State::kRetired) Retire(bucket.id);
}

bool BucketTable::LineClosed(const BucketLine& line) const noexcept {
  if (line.width == kUndatedWidth) return line.created_to <= now_;
  const int64_t shorter = line.width == 0 ? 0 : kWidths[line.width - 1];
  return line.end - now_ <= shorter;  // what ends then fits the next smaller width
}

bool BucketTable::Replaced(const Bucket& bucket) const {
  if (!Full(bucket)) return false;
  const auto later = buckets_.upper_bound(bucket.id);
  return std::any_of(later, buckets_.end(), [&](const auto& item) {
    return item.second.line == bucket.line && item.second.state == Bucket::State::kOpen;
  });
}

bool BucketTable::Closed(GroupId id) const {
  const Bucket* bucket = Find(id);
  return bucket == nullptr || bucket->state >= Bucket::State::kRetiring ||
         LineClosed(bucket->line) || Replaced(*bucket);
}

std::optional<GroupId> BucketTable::Expired(HoldMillis now) {
  Observe(now);
  std::optional<GroupId> first;
  HoldMillis first_end = kNoDeadline;
  for (const auto& [id, bucket] : buckets_) {
    if (bucket.state != Bucket::State::kOpen || bucket.line.end > now_) continue;
    if (bucket.line.end >= first_end) continue;
    first = id;
    first_end = bucket.line.end;
  }
  return first;
}

// Buckets that mostly hold granted copies go last. Of the others those that take no more, the least
// recently touched first.
std::optional<GroupId> BucketTable::Victim(HoldMillis now) {
  if (const auto expired = Expired(now)) return expired;
  std::optional<GroupId> best;
  std::tuple<bool, bool, double> best_order;
  for (const auto& [id, bucket] : buckets_) {
    if (bucket.state != Bucket::State::kOpen) continue;
    if (bucket.total_bytes == 0) {
      if (starved_) return id;  // frees a family, costs nothing
      continue;
    }
    const bool granted = 2 * bucket.granted_copies > bucket.live_copies;
    const bool takes_more = !LineClosed(bucket.line) && !Replaced(bucket);
    double order = static_cast<double>(id);
    if (!takes_more) {
      order = bucket.live_copies == 0 ? -1.0
                                      : static_cast<double>(bucket.touched_sum) /
                                            static_cast<double>(bucket.live_copies);
    }
    const std::tuple candidate(granted, takes_more, order);
    if (best && candidate >= best_order) continue;
    best = id;
    best_order = candidate;
  }
  return best;
}

void BucketTable::BeginRetire(GroupId id) {
  Bucket& bucket = At(id);
  if (bucket.state != Bucket::State::kOpen) return;
  bucket.state = Bucket::State::kRetiring;
  leaving_bytes_ += bucket.total_bytes;
}

void BucketTable::Retire(GroupId id) {
  BeginRetire(id);
  Bucket& bucket = At(id);
  HF_CHECK(bucket.state == Bucket::State::kRetiring || bucket.state == Bucket::State::kRetired);
  bucket.state = Bucket::State::kRetired;
  if (bucket.live_copies > 0 || bucket.operations > 0) return;
  bucket.state = Bucket::State::kDropping;
  bucket.slots.clear();
  droppable_.push_back(id);
}

std::vector<GroupId> BucketTable::TakeDroppable() { return std::exchange(droppable_, {}); }

void BucketTable::Dropped(GroupId id) {
  const Bucket& bucket = At(id);
  HF_CHECK(bucket.state == Bucket::State::kDropping);
  total_bytes_ -= bucket.total_bytes;
  leaving_bytes_ -= bucket.total_bytes;
  buckets_.erase(id);
  starved_ = false;
}

void BucketTable::Live(GroupId id, std::vector<LiveCopy>& out) const {
  const Bucket* bucket = Find(id);
  if (bucket == nullptr) return;
  out.reserve(out.size() + bucket->live_copies);
  uint32_t index = 0;
  for (const Bucket::Slot& slot : bucket->slots) {
    if (slot.live()) out.push_back({slot.entry, {id, index}});
    ++index;
  }
}

HoldMillis BucketTable::End(GroupId id) const noexcept {
  const Bucket* bucket = Find(id);
  return bucket == nullptr ? kNoDeadline : bucket->line.end;
}

bool BucketTable::NeedsRoom() const noexcept {
  if (starved_) return true;
  uint64_t largest = 0;
  for (const auto& [id, bucket] : buckets_) {
    if (bucket.state == Bucket::State::kOpen) largest = std::max(largest, bucket.total_bytes);
  }
  const uint64_t staying = total_bytes_ - leaving_bytes_;
  const uint64_t free = staying > options_.capacity_bytes ? 0 : options_.capacity_bytes - staying;
  // A bucket larger than planned (no other could be created) must not ask for half of the tier.
  const uint64_t reserve = std::min(largest, options_.capacity_bytes / (kBucketsOfCapacity / 2));
  return free < std::max(options_.capacity_bytes / 20, reserve);
}

TierUsage BucketTable::Usage() const noexcept {
  TierUsage usage;
  for (const auto& [id, bucket] : buckets_) {
    usage.used_bytes += bucket.live_bytes;
    usage.live_copies += bucket.live_copies;
  }
  usage.groups = buckets_.size();
  usage.groups_free =
      options_.families_max > buckets_.size() ? options_.families_max - buckets_.size() : 0;
  return usage;
}

}  // namespace holdfast
