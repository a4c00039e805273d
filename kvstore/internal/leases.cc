#include "kvstore/internal/leases.h"

#include "kvstore/internal/core.h"

namespace holdfast::internal {

PinLease::~PinLease() { core_->EndPins(this); }

ViewLease::~ViewLease() {
  for (const View& v : views) {
    if (v.at == kNoFrame) continue;
    if (v.staging_frame_bytes > 0) {
      core_->EndStaging(v.at, v.staging_frame_bytes);
    } else {
      core_->EndView(v.ref);
    }
  }
}

std::span<const std::byte> ViewLease::view(size_t i) const noexcept {
  if (i >= views.size() || views[i].at == kNoFrame) return {};
  return {core_->PayloadAt(views[i].at) + views[i].offset, views[i].bytes};
}

FrameLease::~FrameLease() {
  if (at_ != kNoFrame) core_->EndReserved(at_, FrameBytes(payload_bytes_));
}

std::span<std::byte> FrameLease::writable() noexcept {
  if (at_ == kNoFrame) return {};
  return {core_->MutablePayloadAt(at_), payload_bytes_};
}

}  // namespace holdfast::internal
