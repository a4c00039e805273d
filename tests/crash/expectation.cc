#include "tests/crash/expectation.h"

#include <algorithm>
#include <utility>

namespace holdfast::testing {

void Expectation::Apply(const Record& record) {
  ++records_;
  next_op_ = std::max(next_op_, record.op + 1);
  next_version_ = std::max(next_version_, record.version + 1);
  Begun begun{record, records_};
  if (const auto it = begun_.find({record.op, record.key}); it != begun_.end()) {
    begun = it->second;
    begun_.erase(it);
  }
  switch (record.kind) {
    case RecordKind::kOpened:
      Opened(record.now);
      break;
    case RecordKind::kDidPut:
      DidPut(record, begun.record.now);
      break;
    case RecordKind::kDidFetch:
      ExtendAll(keys_[record.key], 0, record.now);
      break;
    case RecordKind::kDidHold:
      if (record.outcome == Item::kDone) DidHold(record, begun.record.now);
      break;
    case RecordKind::kDidRelease:
      // Of several versions it is not known which was there to be released.
      if (Key& key = keys_[record.key]; key.possible.size() == 1) key.possible[0].released = true;
      break;
    case RecordKind::kDidErase:
      Forget(record.key, begun.at);
      break;
    case RecordKind::kDidEpoch:
      ForgetEpoch(record);
      break;
    case RecordKind::kDidDrain:
      DidDrain();
      break;
    case RecordKind::kBroken:
      for (auto& [number, key] : keys_) Loosen(key);
      break;
    default:
      Begin(record);
  }
}

void Expectation::Begin(const Record& record) {
  begun_[{record.op, record.key}] = {record, records_};
  switch (record.kind) {
    case RecordKind::kMayPut:
      keys_[record.key].possible.push_back({.number = record.version, .ttl_ms = record.ttl_ms});
      break;
    case RecordKind::kMayRelease:
    case RecordKind::kMayErase:
      Loosen(keys_[record.key]);
      break;
    case RecordKind::kMayEpoch:
      ++epochs_begun_[InSecond(record.key) ? 1 : 0];
      for (auto& [number, key] : keys_) {
        if (InSecond(number) == InSecond(record.key)) Loosen(key);
      }
      break;
    default:
      break;
  }
}

// What was begun and not answered may have had its effect at any time until now.
void Expectation::Opened(HoldMillis now) {
  for (const auto& [id, begun] : begun_) {
    const Record& r = begun.record;
    Key& key = keys_[r.key];
    for (Version& v : key.possible) {
      if (r.kind != RecordKind::kMayPut || v.number != r.version) continue;
      if (v.ttl_ms > 0) v.deadline_max = now + v.ttl_ms;
    }
    if (r.kind <= RecordKind::kDidHold) ExtendAll(key, r.ttl_ms, now);
  }
  begun_.clear();
  for (auto& [number, key] : keys_) {
    for (Version& v : key.possible) {
      if (!v.on_media) v.deadline_max = kNoDeadline;
      v.on_media = true;
      v.over = std::min(v.over, records_);
    }
    key.granted = key.required_until > 0;  // what was not drained need not be there
    key.deadline_min = key.required_until;
  }
}

void Expectation::DidPut(const Record& record, HoldMillis begun_at) {
  Key& key = keys_[record.key];
  const auto own = std::find_if(key.possible.begin(), key.possible.end(),
                                [&](const Version& v) { return v.number == record.version; });
  if (own == key.possible.end()) return;  // erased meanwhile
  const int64_t ttl_ms = own->ttl_ms;
  own->over = records_;
  if (ttl_ms > 0) own->deadline_max = record.now + ttl_ms;
  switch (record.outcome) {
    case Item::kDone:
      Loosen(key);
      key.granted = ttl_ms > 0;
      if (key.granted) key.deadline_min = begun_at + ttl_ms;
      break;
    case Item::kPresent:
      key.possible.erase(own);
      if (ttl_ms > 0) {
        DidHold(record, begun_at);
      } else {
        ExtendAll(key, 0, record.now);
      }
      break;
    case Item::kDowngraded:
      Loosen(key);
      [[fallthrough]];
    default:
      ExtendAll(key, ttl_ms, record.now);
  }
}

void Expectation::DidHold(const Record& record, HoldMillis begun_at) {
  Key& key = keys_[record.key];
  ExtendAll(key, record.ttl_ms, record.now);
  key.granted = true;
  key.deadline_min = std::max(key.deadline_min, begun_at + record.ttl_ms);
  if (key.possible.size() != 1) return;
  // A first hold: from now on it ends. Until it is drained a kill may take that back.
  Version& v = key.possible[0];
  if (v.deadline_max != kNoDeadline) return;
  v.deadline_max = record.now + v.ttl_ms;
  v.on_media = false;
}

void Expectation::DidDrain() {
  for (auto& [number, key] : keys_) {
    key.required_until = key.granted ? key.deadline_min : 0;
    for (Version& v : key.possible) v.on_media = true;
  }
}

void Expectation::Forget(uint32_t key, uint64_t before) {
  std::erase_if(keys_[key].possible, [&](const Version& v) { return v.over <= before; });
  Loosen(keys_[key]);
}

// A put of the epoch before cannot be reached, whenever it ends.
void Expectation::ForgetEpoch(const Record& record) {
  ++epochs_[InSecond(record.key) ? 1 : 0];
  for (auto& [number, key] : keys_) {
    if (InSecond(number) == InSecond(record.key)) Forget(number, UINT64_MAX);
  }
}

void Expectation::Loosen(Key& key) {
  key.granted = false;
  key.deadline_min = 0;
  key.required_until = 0;
}

// A use (ttl_ms 0) or a hold: which of the versions is there is not known.
void Expectation::ExtendAll(Key& key, int64_t ttl_ms, HoldMillis now) {
  for (Version& v : key.possible) {
    v.ttl_ms = std::max(v.ttl_ms, ttl_ms);
    if (ttl_ms > 0) v.released = false;
    if (v.released || v.deadline_max == kNoDeadline) continue;
    v.deadline_max = std::max(v.deadline_max, now + v.ttl_ms);
  }
}

std::string Expectation::Served(uint32_t key, uint64_t version, HoldMillis before) const {
  const auto it = keys_.find(key);
  if (it != keys_.end()) {
    for (const Version& v : it->second.possible) {
      if (v.number != version) continue;
      if (before < v.deadline_max) return {};
      return "served " + std::to_string(before - v.deadline_max) + " ms past its deadline";
    }
  }
  return "served what was erased, or never put: version " + std::to_string(version);
}

std::string Expectation::Missed(uint32_t key, HoldMillis after) const {
  return Required(key, after) ? "absent, though it was drained under a granted hold" : "";
}

bool Expectation::Required(uint32_t key, HoldMillis now) const {
  const auto it = keys_.find(key);
  return it != keys_.end() && now < it->second.required_until;
}

}  // namespace holdfast::testing
