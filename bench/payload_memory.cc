#include "bench/payload_memory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace holdfast::bench {
namespace {

constexpr uint64_t kHugePageBytes = 2u << 20;

Result<void*> MapShared(uint64_t bytes) {
  std::string path = "/dev/shm/holdfast-bench-XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, "cannot create a file in /dev/shm");
  ::unlink(path.c_str());
  void* data = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    return Status::FromErrno(error, "cannot map " + std::to_string(bytes) + " bytes of /dev/shm");
  }
  return data;
}

// Aligned to huge pages, so that as many as fit are used.
Result<void*> MapHuge(uint64_t bytes) {
  const uint64_t reserved = bytes + kHugePageBytes;
  void* const range =
      ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) {
    return Status::FromErrno(errno, "no memory for " + std::to_string(bytes) + " bytes");
  }
  auto* const begin = static_cast<std::byte*>(range);
  const uint64_t skip =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  if (skip > 0) ::munmap(begin, skip);
  ::munmap(begin + skip + bytes, reserved - skip - bytes);
  ::madvise(begin + skip, bytes, MADV_HUGEPAGE);  // a hint
  return static_cast<void*>(begin + skip);
}

}  // namespace

Result<std::unique_ptr<PayloadMemory>> PayloadMemory::Create(Kind kind, uint64_t payload_bytes,
                                                             size_t slots) {
  const uint64_t bytes = RoundUp(slots * RoundUp(payload_bytes, kPageBytes), kHugePageBytes);
  HF_ASSIGN_OR_RETURN(void* const data, kind == Kind::kShared ? MapShared(bytes) : MapHuge(bytes));
  std::memset(data, 0, bytes);
  return std::unique_ptr<PayloadMemory>(
      new PayloadMemory({static_cast<std::byte*>(data), bytes}, payload_bytes));
}

PayloadMemory::~PayloadMemory() { ::munmap(memory_.data(), memory_.size()); }

}  // namespace holdfast::bench
