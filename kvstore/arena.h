// Arena: the store's host memory, one reserved range on huge pages, populated in the background,
// excluded from core dumps and from fork. The ddr tier and every staging frame live in it.
//
// Threading: data() is thread-safe; the rest thread-compatible (the store's lock).
// Memory: reserves options.range_bytes of address space; with `bytes` off nothing backs it.
// Errors: Create says which option or which system call.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "kvstore/frame_space.h"
#include "kvstore/status.h"

namespace holdfast {

struct ArenaOptions {
  FrameSpaceOptions space;
  bool bytes = true;     // off: frames have no memory (replay --bytes none)
  bool populate = true;  // touch the pages ahead of use, on a thread
  std::function<std::function<void()>(std::string name, std::function<void()> body)> start_thread;
};

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> Create(const ArenaOptions& options);
  ~Arena();

  FrameSpace& space() noexcept { return space_; }
  const FrameSpace& space() const noexcept { return space_; }
  std::byte* data(uint64_t offset) const noexcept { return base_ + offset; }
  bool huge_pages() const noexcept { return huge_pages_; }
  uint64_t range_bytes() const noexcept { return range_bytes_; }

 private:
  explicit Arena(const ArenaOptions& options) : space_(options.space) {}
  FrameSpace space_;
  std::byte* base_ = nullptr;
  uint64_t range_bytes_ = 0;
  bool huge_pages_ = false;
  std::atomic<bool> stop_{false};
  std::function<void()> join_populate_;
};

}  // namespace holdfast
