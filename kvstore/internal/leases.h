// The states behind Lease: pins of FindPrefix, views of an arena fetch, a writable frame of
// Reserve.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "kvstore/internal/ledger.h"
#include "kvstore/lease.h"

namespace holdfast::internal {

class Core;

// Frames that one lease of views, or of a reserved frame, holds.
struct HeldFrames {
  Instant since{};
  size_t frames = 0;
};
using HeldList = std::list<HeldFrames>;  // the oldest first; of the store, under its lock

class PinLease final : public LeaseState {
 public:
  struct Pin {
    EntryId id = kNoEntry;
    uint32_t generation = 0;
  };
  explicit PinLease(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  PinLease(const PinLease&) = delete;
  PinLease& operator=(const PinLease&) = delete;
  ~PinLease() override;
  size_t size() const noexcept override { return pins.size(); }
  bool valid() const noexcept override { return !ended.load(std::memory_order_relaxed); }
  std::span<const std::byte> view(size_t) const noexcept override { return {}; }
  std::span<std::byte> writable() noexcept override { return {}; }

  std::vector<Pin> pins;  // guarded by the store's lock once listed
  Instant until{};
  std::atomic<bool> ended{false};
  std::list<PinLease*>::iterator at;

 private:
  std::shared_ptr<Core> core_;
};

// Frames that a caller looks at. Each is a ddr frame under a reference, or a staging frame of its
// own.
class ViewLease final : public LeaseState {
 public:
  struct View {
    FrameAt at = kNoFrame;
    uint64_t offset = 0, bytes = 0;    // of the payload, that may be seen
    FrameRef ref;                      // of a ddr frame
    uint64_t staging_frame_bytes = 0;  // else
  };
  ViewLease(std::shared_ptr<Core> core, size_t blocks) : views(blocks), core_(std::move(core)) {}
  ViewLease(const ViewLease&) = delete;
  ViewLease& operator=(const ViewLease&) = delete;
  ~ViewLease() override;
  size_t size() const noexcept override { return views.size(); }
  bool valid() const noexcept override { return true; }
  std::span<const std::byte> view(size_t i) const noexcept override;
  std::span<std::byte> writable() noexcept override { return {}; }

  std::vector<View> views;  // filled under the store's lock before the completion shows
  std::optional<HeldList::iterator> held;

 private:
  std::shared_ptr<Core> core_;
};

class FrameLease final : public LeaseState {
 public:
  FrameLease(std::shared_ptr<Core> core, FrameAt at, uint64_t payload_bytes,
             HeldList::iterator held)
      : core_(std::move(core)), at_(at), payload_bytes_(payload_bytes), held_(held) {}
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  ~FrameLease() override;
  size_t size() const noexcept override { return 1; }
  bool valid() const noexcept override { return at_ != kNoFrame; }
  std::span<const std::byte> view(size_t) const noexcept override { return {}; }
  std::span<std::byte> writable() noexcept override;

  const Core* core() const noexcept { return core_.get(); }
  uint64_t payload_bytes() const noexcept { return payload_bytes_; }
  HeldList::iterator held() const noexcept { return held_; }
  FrameAt Take() noexcept { return std::exchange(at_, kNoFrame); }  // it is somebody else's now

 private:
  std::shared_ptr<Core> core_;
  FrameAt at_;
  uint64_t payload_bytes_;
  HeldList::iterator held_;
};

}  // namespace holdfast::internal
