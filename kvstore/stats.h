// StoreStats: counters and gauges of a store at one moment. Counters count from Open. Bytes are
// bytes.
//
// Threading: values. OpenMetrics gives the same as Prometheus text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/types.h"

namespace holdfast {

// Counts by power of two of nanoseconds, four equal steps each: quantiles within 13 %. Covers all
// durations; negative ones count as 0. Thread-compatible.
class LatencyHistogram {
 public:
  void Add(Duration took) noexcept;
  uint64_t count() const noexcept;
  // Middle of the bucket that holds the q-th of the counts, at most max(); 0 when empty.
  Duration Quantile(double q) const noexcept;
  Duration max() const noexcept { return Duration(max_ns_); }
  Duration sum() const noexcept { return Duration(sum_ns_); }
  const std::array<uint64_t, 256>& buckets() const noexcept { return buckets_; }
  static Duration UpperBound(size_t bucket) noexcept;  // the longest duration counted there

 private:
  std::array<uint64_t, 256> buckets_{};
  int64_t max_ns_ = 0;
  int64_t sum_ns_ = 0;
};

struct TierStats {
  Where where = Where::kAbsent;
  bool on = false;
  bool available = true;  // false: the medium failed and is being retried
  std::string engine;     // "uring", "rocksdb", ...
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;  // of live copies
  uint64_t copies = 0;
  uint64_t hits = 0;  // blocks whose fetch was served from here
  uint64_t hit_bytes = 0;
  uint64_t promoted = 0;    // copies that came up into this tier
  uint64_t spilled_in = 0;  // copies that came down into this tier
  uint64_t put_in = 0;      // copies written at put
  uint64_t rewritten = 0;   // copies carried over to a newer segment or bucket
  uint64_t dropped = 0;     // copies that went to make room
  uint64_t expired = 0;     // copies that went because their deadline was past
  uint64_t orphaned = 0;    // blocks left without an ancestor by a drop here
  uint64_t read_bytes = 0;  // of the medium
  uint64_t written_bytes = 0;
  uint64_t payload_written_bytes =
      0;  // what was asked to be written: amplification = written / this
  uint64_t undurable_bytes = 0;
  uint64_t corrupt = 0;  // reads that were not what was asked for
  uint64_t failed = 0;   // operations that the medium failed
  int last_errno = 0;
  uint64_t leased_bytes = 0;
  LatencyHistogram read_latency;  // fetch: submit to verified
  LatencyHistogram write_latency;
};

struct HoldStats {
  std::string name;
  Duration ttl{};
  uint64_t budget_bytes = 0;
  uint64_t granted_bytes = 0;
  uint64_t granted = 0;     // blocks, since open
  uint64_t downgraded = 0;  // no budget
  uint64_t broken = 0;      // granted blocks lost before their deadline
  uint64_t expired = 0;
};

struct StoreStats {
  std::array<TierStats, 4> tiers;  // hbm, ddr, flash, disk
  std::vector<HoldStats> holds;    // by class
  uint64_t entries = 0, entries_max = 0;
  uint64_t memory_bytes = 0;  // bookkeeping outside the arena
  uint64_t lookups = 0;       // blocks asked for by FindPrefix
  uint64_t matched = 0;
  uint64_t matches_cut = 0;  // shortened because leases hold too much already
  uint64_t fetched = 0, missed = 0, late = 0, cancelled = 0;  // blocks of fetches
  uint64_t put = 0, present = 0, skipped = 0;                 // blocks of puts
  uint64_t declined_admission = 0;                            // a put that no tier would take
  uint64_t declined_busy = 0;                                 // could not start within wait_max
  uint64_t declined_orphan = 0;    // an earlier block of its batch was declined
  uint64_t declined_index = 0;     // the index is full
  uint64_t spills_refused = 0;     // leaves ddr without going down: no credit and not remembered
  uint64_t shared_reads = 0;       // fetches that attached to a read of somebody else
  uint64_t bounced = 0;            // reads and writes that could not go direct
  uint64_t evictions_refused = 0;  // victims passed over: leased, parents of residents
  uint64_t erased = 0, released = 0;
  uint64_t leases = 0, leases_expired = 0;
  uint64_t views = 0;          // and reserved frames
  uint64_t views_old = 0;      // of them, held for more than 30 s: somebody forgot a Lease
  uint64_t staging_bytes = 0;  // frames of the arena outside ddr that operations and views hold
  uint64_t operations_in_flight = 0;
  uint64_t meta_undurable = 0;  // records queued for the meta store
  uint64_t meta_failed = 0;
  LatencyHistogram lock_hold;  // CPU time of the holder, sampled
};

// Prometheus text format (version 0.0.4): counters holdfast_..._total, gauges and histograms in
// bytes and seconds, labels tier and class only, broken holds first. Tiers that are off are left
// out.
std::string OpenMetricsText(const StoreStats& stats);

}  // namespace holdfast
