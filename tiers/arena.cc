#include "kvstore/arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "tiers/populate.h"

namespace holdfast {
namespace {

constexpr uint64_t kHugePageBytes = 2ull << 20;

Status CheckOptions(const ArenaOptions& options) {
  const uint64_t page = options.space.page_bytes;
  const uint64_t range = options.space.range_bytes;
  if (!std::has_single_bit(page) || page < (64u << 10)) {
    return Status(StatusCode::kInvalidArgument, "arena: page_bytes " + std::to_string(page) +
                                                    " must be a power of two and at least 65536");
  }
  if (range == 0 || range % page != 0) {
    return Status(StatusCode::kInvalidArgument, "arena: range_bytes " + std::to_string(range) +
                                                    " must be a positive multiple of page_bytes " +
                                                    std::to_string(page));
  }
  return {};
}

// A private mapping that starts on a huge page.
Result<std::byte*> Reserve(uint64_t bytes, bool backed) {
  const int protection = backed ? PROT_READ | PROT_WRITE : PROT_NONE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (backed ? 0 : MAP_NORESERVE);
  const uint64_t asked = bytes + kHugePageBytes;
  void* mapped = ::mmap(nullptr, asked, protection, flags, -1, 0);
  if (mapped == MAP_FAILED) {
    return Status::FromErrno(errno, "arena: mmap of range_bytes " + std::to_string(bytes));
  }
  auto* start = static_cast<std::byte*>(mapped);
  const uint64_t skip =
      (kHugePageBytes - std::bit_cast<uintptr_t>(start) % kHugePageBytes) % kHugePageBytes;
  if (skip > 0) ::munmap(start, skip);
  ::munmap(start + skip + bytes, kHugePageBytes - skip);
  return start + skip;
}

// Whether the kernel backs the mapping that starts at `base` with a huge page now. Only the
// kernel's own account tells: an accepted MADV_HUGEPAGE promises nothing.
bool HasHugePage(const std::byte* base) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(smaps, line)) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &from, &to) == 2) {
      if (inside) return false;
      const auto at = std::bit_cast<uintptr_t>(base);
      inside = from <= at && at < to;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %zu kB", &kib) == 1) {
      return kib > 0;
    }
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::Create(const ArenaOptions& options) {
  HF_RETURN_IF_ERROR(CheckOptions(options));
  HF_ASSIGN_OR_RETURN(std::byte* const base, Reserve(options.space.range_bytes, options.bytes));
  std::unique_ptr<Arena> arena;
  try {
    arena.reset(new Arena(options));
  } catch (const std::bad_alloc&) {
    ::munmap(base, options.space.range_bytes);
    return Status(StatusCode::kResourceExhausted, "arena: no memory for the pages of range_bytes " +
                                                      std::to_string(options.space.range_bytes) +
                                                      "; make page_bytes larger");
  }
  arena->base_ = base;
  arena->range_bytes_ = options.space.range_bytes;
  // All three are advice: without them the arena works, slower or visible in dumps. A child that
  // forks has no use for it, and copy-on-write would tear memory that a device writes to.
  ::madvise(base, arena->range_bytes_, MADV_DONTDUMP);
  ::madvise(base, arena->range_bytes_, MADV_DONTFORK);
  if (options.bytes) {
    ::madvise(base, arena->range_bytes_, MADV_HUGEPAGE);
    arena->StartPopulating(options);
  }
  return arena;
}

Arena::Arena(const ArenaOptions& options)
    : space_(options.space), populate_(std::make_unique<internal::PopulateState>()) {}

void Arena::StartPopulating(const ArenaOptions& options) {
  using internal::Populate;
  using internal::PopulateWith;
  const std::span<std::byte> range(base_, range_bytes_);
  const auto first = range.first(std::min(range_bytes_, kHugePageBytes));
  Populate(first, PopulateWith::kKernel, *populate_);
  huge_pages_ = HasHugePage(base_);
  if (!options.populate || !options.start_thread) return;
  join_populate_ = options.start_thread(
      "hf-populate", [state = populate_.get(), rest = range.subspan(first.size())] {
        Populate(rest, PopulateWith::kKernel, *state);
      });
}

uint64_t Arena::populated_bytes() const noexcept { return populate_->populated_bytes.load(); }

Arena::~Arena() {
  populate_->stop = true;
  if (join_populate_) join_populate_();
  ::munmap(base_, range_bytes_);
}

}  // namespace holdfast
