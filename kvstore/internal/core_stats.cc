// Statistics: the counters as they are, and the gauges of this moment.
#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {
namespace {

constexpr Duration kViewOld = std::chrono::seconds(30);

}  // namespace

StoreStats Core::Stats() {
  if (Forked()) return {};
  Section section(*this);
  StoreStats s = counters_;
  s.tiers = ledger_.stats;
  for (int t = 0; t < kTiers; ++t) {
    TierStats& tier = s.tiers[t];
    tier.on = ledger_.on(t);
    tier.leased_bytes = ledger_.leased_bytes(t);
    if (!tier.on) continue;
    if (t == kDdr) {
      tier.engine = frames_.bytes()
                        ? (frames_.arena().huge_pages() ? "arena (huge pages)" : "arena")
                        : "none";
      tier.capacity_bytes = frames_.ddr_capacity();
      continue;
    }
    if (tiers_[t] == nullptr) continue;  // closed
    const TierUsage usage = tiers_[t]->usage();
    tier.engine = tiers_[t]->engine();
    tier.capacity_bytes = tiers_[t]->limits().capacity_bytes;
    tier.used_bytes = usage.used_bytes;
    tier.available = tier_failing_[t] == 0;
    tier.read_bytes = usage.read_bytes;
    tier.written_bytes = usage.written_bytes;
    tier.undurable_bytes = usage.undurable_bytes;
    if (usage.last_errno != 0) tier.last_errno = usage.last_errno;
  }
  s.holds = ledger_.holds.Stats();
  s.entries = ledger_.index.size();
  s.entries_max = ledger_.index.entries_max();
  s.memory_bytes = ledger_.memory_bytes();
  s.evictions_refused = ledger_.evictions_refused;
  s.spills_refused = ledger_.spills_refused;
  s.views = views_;
  const Instant long_ago = run_clock_->Now() - kViewOld;
  for (auto at = held_.begin(); at != held_.end() && at->since < long_ago; ++at) {
    s.views_old += at->frames;
  }
  s.staging_bytes = frames_.staging_used();
  s.operations_in_flight = operations_.size();
  s.meta_undurable = meta_waiting_ + ledger_.moved_deadlines.size();
  return s;
}

}  // namespace holdfast::internal
