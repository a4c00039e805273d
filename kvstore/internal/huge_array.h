// HugeArray: a fixed number of zeroed trivially copyable elements in their own mapping, advised to
// use huge pages. Pages that were never touched cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <sys/mman.h>

#include "kvstore/types.h"

namespace holdfast::internal {

template <typename T>
class HugeArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  HugeArray() noexcept = default;
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;
  HugeArray(HugeArray&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  HugeArray& operator=(HugeArray&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~HugeArray() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  // False when the system has no address space left.
  bool Allocate(size_t count) noexcept {
    constexpr size_t kHuge = 2u << 20;
    const size_t want = count * sizeof(T);
    const size_t bytes = want >= kHuge ? RoundUp(want, kHuge) : RoundUp(want + 1, kPageBytes);
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    madvise(p, bytes, MADV_DONTDUMP);
    if (want >= kHuge) madvise(p, bytes, MADV_HUGEPAGE);
    data_ = static_cast<T*>(p);
    bytes_ = bytes;
    return true;
  }

  bool empty() const noexcept { return data_ == nullptr; }
  T& operator[](size_t i) noexcept { return data_[i]; }
  const T& operator[](size_t i) const noexcept { return data_[i]; }
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }

 private:
  T* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace holdfast::internal
