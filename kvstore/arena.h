// Arena: the store's host memory, one reserved range on huge pages, populated in the background,
// excluded from core dumps and from fork. The ddr tier and every staging frame live in it.
//
// Usage:
//   auto arena = Arena::Create({.space = {.range_bytes = 8ull << 30}, .start_thread = threads});
//   if (auto offset = (*arena)->space().Allocate(bytes)) Use((*arena)->data(*offset));
//
// Threading: data() and the const functions are thread-safe; space() is the store's lock's.
// Memory: reserves options.space.range_bytes of address space; with `bytes` off nothing backs it,
// and data() must not be read or written.
// Errors: Create says which option or which system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kvstore/frame_space.h"
#include "kvstore/status.h"

namespace holdfast {

namespace internal {
struct PopulateState;
}  // namespace internal

struct ArenaOptions {
  FrameSpaceOptions space;
  bool bytes = true;     // off: frames have no memory (replay --bytes none)
  bool populate = true;  // touch the pages ahead of use, on a thread
  // Answers the thread's join. Null: nothing is populated ahead.
  std::function<std::function<void()>(std::string name, std::function<void()> body)> start_thread =
      {};
};

class Arena {
 public:
  // kInvalidArgument: an option, by name. kIoError: the kernel refuses the range, with errno.
  // kResourceExhausted: no memory for what keeps account of it.
  static Result<std::unique_ptr<Arena>> Create(const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  FrameSpace& space() noexcept { return space_; }
  const FrameSpace& space() const noexcept { return space_; }
  std::byte* data(uint64_t offset) const noexcept { return base_ + offset; }
  // The kernel gave a huge page for the start of the range, at creation. False: memory bandwidth
  // will be lower; see /sys/kernel/mm/transparent_hugepage/enabled.
  bool huge_pages() const noexcept { return huge_pages_; }
  uint64_t range_bytes() const noexcept { return range_bytes_; }
  // Memory that was populated ahead so far.
  uint64_t populated_bytes() const noexcept;

 private:
  explicit Arena(const ArenaOptions& options);
  void StartPopulating(const ArenaOptions& options);

  FrameSpace space_;
  std::byte* base_ = nullptr;
  uint64_t range_bytes_ = 0;
  bool huge_pages_ = false;
  std::unique_ptr<internal::PopulateState> populate_;
  std::function<void()> join_populate_;
};

}  // namespace holdfast
