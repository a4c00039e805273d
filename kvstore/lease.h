// Lease: pins, and the right to look. It ends when destroyed or when its time is up.
//
// A lease keeps the lowest copy of its blocks from being dropped by choice. It may come from
// FindPrefix (pins), from an arena fetch (views) or from Reserve (one writable frame).
//
// Threading: thread-compatible. Memory: bytes seen through a view or a writable frame stay valid
// until the Lease is destroyed, run out or not, even when the Store is gone by then.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace holdfast {

namespace internal {
class LeaseState {
 public:
  virtual ~LeaseState() = default;
  virtual size_t size() const noexcept = 0;
  virtual bool valid() const noexcept = 0;
  virtual std::span<const std::byte> view(size_t i) const noexcept = 0;
  virtual std::span<std::byte> writable() noexcept = 0;
};
}  // namespace internal

class Lease {
 public:
  Lease() noexcept = default;  // of nothing
  explicit Lease(std::unique_ptr<internal::LeaseState> state) noexcept : state_(std::move(state)) {}

  size_t size() const noexcept { return state_ ? state_->size() : 0; }  // blocks
  // False once run out; a fetch of such a block is an ordinary fetch.
  bool valid() const noexcept { return state_ && state_->valid(); }
  // The payload of block i of a completed arena fetch; empty for a block that was not done.
  std::span<const std::byte> view(size_t i) const noexcept {
    return state_ ? state_->view(i) : std::span<const std::byte>();
  }
  // The frame of Reserve; empty otherwise and once committed.
  std::span<std::byte> writable() noexcept {
    return state_ ? state_->writable() : std::span<std::byte>();
  }
  internal::LeaseState* state() const noexcept { return state_.get(); }

 private:
  std::unique_ptr<internal::LeaseState> state_;
};

}  // namespace holdfast
