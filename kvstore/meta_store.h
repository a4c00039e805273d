// MetaStore: the few small facts of a directory that must survive: refreshed deadlines, releases,
// tombstones, epochs of key spaces, the hold clock. One RocksDB column family with its log on; or
// in memory, for simulation and for a store without a directory.
//
// Threading: thread-safe. Errors: a Status of the medium; the store goes on without durability and
// counts it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast {

struct DeadlineRecord {  // of a block: overrides the placement of older copies
  BlockKey key;
  uint64_t write_id = 0;  // of the copy it was known for; a copy with a higher write id ignores it
  HoldMillis deadline = kNoDeadline;
  uint64_t hold_ttl_ms = 0;  // 0: released or none
  bool granted = false;
};
struct Tombstone {  // of a block: copies with a write id up to this one are erased
  BlockKey key;
  uint64_t write_id = 0;
};
struct SpaceEpoch {  // of a key space, by the identity of its fields without the epoch
  BlockKey space;
  uint32_t epoch = 0;
  std::vector<RootKey> dead_roots;  // roots of earlier epochs; their copies are absent
};

struct MetaBatch {
  std::vector<DeadlineRecord> deadlines;
  std::vector<BlockKey> forget_deadlines;
  std::vector<Tombstone> tombstones;
  std::vector<BlockKey> forget_tombstones;
  std::vector<SpaceEpoch> epochs;
  HoldMillis hold_now = 0;     // 0: not written
  uint64_t write_id_next = 0;  // 0: not written
  bool empty() const noexcept {
    return deadlines.empty() && forget_deadlines.empty() && tombstones.empty() &&
           forget_tombstones.empty() && epochs.empty() && hold_now == 0 && write_id_next == 0;
  }
};

struct MetaSnapshot {
  std::vector<DeadlineRecord> deadlines;
  std::vector<Tombstone> tombstones;
  std::vector<SpaceEpoch> epochs;
  HoldMillis hold_now = 0;
  uint64_t write_id_next = 1;
};

class MetaStore {
 public:
  virtual ~MetaStore() = default;
  virtual Result<MetaSnapshot> Load() = 0;
  // Queues the batch. Batches apply in order; `done(status)` runs on a thread of the store (or in
  // Poll) once the batch and all before it are on the medium.
  virtual void SubmitSync(MetaBatch batch, std::function<void(Status)> done) = 0;
  virtual size_t Poll() = 0;  // for an implementation without threads
};

}  // namespace holdfast
