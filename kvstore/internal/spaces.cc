// Key spaces, regions and layouts.
#include <algorithm>

#include "kvstore/internal/core.h"
#include "kvstore/internal/leases.h"

namespace holdfast::internal {

Result<SpaceId> Core::OpenSpace(const SpaceSpec& spec) {
  HF_RETURN_IF_ERROR(CheckAlive());
  HF_RETURN_IF_ERROR(CheckSpaceSpec(spec));
  const std::span<const std::byte> secret =
      options_.keep_secret ? std::span<const std::byte>(secret_) : std::span<const std::byte>();
  const BlockKey identity = SpaceIdentity(spec, secret);
  Section section(*this);
  const auto [it, added] = space_ids_.try_emplace(identity, static_cast<SpaceId>(spaces_.size()));
  if (!added) return it->second;
  SpaceRecord s;
  s.spec = spec;
  s.identity = identity;
  s.key.id = it->second;
  s.key.block_tokens = spec.block_tokens;
  s.key.key_bytes = spec.key_bytes;
  if (const auto stored = stored_epochs_.find(identity); stored != stored_epochs_.end()) {
    s.key.epoch = stored->second.epoch;
    s.dead_roots = stored->second.dead_roots;
  }
  s.key.root = SpaceRoot(spec, secret, s.key.epoch);
  s.root = ledger_.RootNumber(s.key.root);
  spaces_.push_back(std::move(s));
  return it->second;
}

Result<KeySpace> Core::Space(SpaceId space) {
  Section section(*this);
  if (space == 0 || space >= spaces_.size()) {
    return Status(StatusCode::kInvalidArgument, "space " + std::to_string(space) + " is not open");
  }
  return spaces_[space].key;
}

Result<RegionId> Core::AddRegion(std::span<std::byte> memory) {
  HF_RETURN_IF_ERROR(CheckAlive());
  if (memory.empty() || memory.data() == nullptr) {
    return Status(StatusCode::kInvalidArgument, "region: empty memory");
  }
  Section section(*this);
  for (const RegionRecord& r : regions_) {
    if (r.removed || r.memory.empty()) continue;
    if (memory.data() < r.memory.data() + r.memory.size() &&
        r.memory.data() < memory.data() + memory.size()) {
      return Status(StatusCode::kInvalidArgument,
                    "region: overlaps a region that was added before");
    }
  }
  regions_.push_back({.memory = memory, .removed = false, .users = 0});
  return static_cast<RegionId>(regions_.size() - 1);
}

Status Core::RemoveRegion(RegionId region, Instant until) {
  HF_RETURN_IF_ERROR(DrainRegion(region, until));
  Section section(*this);
  if (regions_[region].users > 0) {
    return {StatusCode::kDeadlineExceeded, "region: operations on it were submitted meanwhile"};
  }
  regions_[region].removed = true;
  return {};
}

Status Core::DrainRegion(RegionId region, Instant until) {
  if (Forked()) return CheckAlive();
  {
    Section section(*this);
    if (region == 0 || region >= regions_.size() || regions_[region].removed) {
      return {StatusCode::kInvalidArgument, "region " + std::to_string(region) + " is not known"};
    }
  }
  return WaitFor(
      [&] {
        MutexLock lock(mutex_);
        return regions_[region].users == 0;
      },
      until, "region");
}

Result<LayoutId> Core::AddLayout(std::span<const Stripe> stripes) {
  HF_RETURN_IF_ERROR(CheckAlive());
  if (stripes.empty()) {
    return Status(StatusCode::kInvalidArgument, "layout: at least one stripe");
  }
  Section section(*this);
  LayoutRecord layout;
  layout.slots = INT64_MAX;
  for (size_t i = 0; i < stripes.size(); ++i) {
    const Stripe& s = stripes[i];
    const auto bad = [&](const std::string& what) {
      return Status(StatusCode::kInvalidArgument,
                    "layout: stripe " + std::to_string(i) + ": " + what);
    };
    if (s.region == 0 || s.region >= regions_.size() || regions_[s.region].removed) {
      return bad("region " + std::to_string(s.region) + " is not known");
    }
    const uint64_t size = regions_[s.region].memory.size();
    if (s.bytes == 0 || s.offset > size || s.bytes > size - s.offset) {
      return bad("offset " + std::to_string(s.offset) + " + bytes " + std::to_string(s.bytes) +
                 " is outside its region of " + std::to_string(size) + " bytes");
    }
    if (s.stride < s.bytes) {
      return bad("stride " + std::to_string(s.stride) + " is below bytes " +
                 std::to_string(s.bytes) + ": slots would overlap");
    }
    const auto fit = static_cast<int64_t>((size - s.offset - s.bytes) / s.stride + 1);
    layout.slots = std::min(layout.slots, fit);
    layout.stripes.push_back(s);
  }
  layouts_.push_back(std::move(layout));
  return static_cast<LayoutId>(layouts_.size() - 1);
}

}  // namespace holdfast::internal
