#include "kvstore/internal/leases.h"

#include "kvstore/internal/core.h"

namespace holdfast::internal {

PinLease::~PinLease() { core_->EndPins(this); }

ViewLease::~ViewLease() { core_->EndViews(*this); }

std::span<const std::byte> ViewLease::view(size_t i) const noexcept {
  if (i >= views.size() || views[i].at == kNoFrame) return {};
  return {core_->PayloadAt(views[i].at) + views[i].offset, views[i].bytes};
}

FrameLease::~FrameLease() {
  if (at_ != kNoFrame) core_->EndReserved(at_, FrameBytes(payload_bytes_), held_);
}

std::span<std::byte> FrameLease::writable() noexcept {
  if (at_ == kNoFrame) return {};
  return {core_->MutablePayloadAt(at_), payload_bytes_};
}

}  // namespace holdfast::internal
