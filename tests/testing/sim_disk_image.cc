#include "tests/testing/sim_disk_image.h"

#include <algorithm>

#include "kvstore/check.h"

namespace holdfast::testing {
namespace {

// Copies `source` sector by sector, each only if the coin says so.
void CopyTorn(std::span<const std::byte> source, std::byte* target, std::mt19937_64& random) {
  for (uint64_t at = 0; at < source.size(); at += SimDiskImage::kSectorBytes) {
    const uint64_t bytes = std::min<uint64_t>(SimDiskImage::kSectorBytes, source.size() - at);
    if (random() % 2 == 0) std::copy_n(source.data() + at, bytes, target + at);
  }
}

}  // namespace

void SimDiskImage::Read(uint64_t offset_bytes, std::span<std::byte> target) const {
  HF_CHECK(offset_bytes + target.size() <= visible_.size());
  std::copy_n(visible_.data() + offset_bytes, target.size(), target.data());
}

void SimDiskImage::Write(uint64_t offset_bytes, std::span<const std::byte> source) {
  HF_CHECK(offset_bytes + source.size() <= visible_.size());
  std::copy(source.begin(), source.end(), visible_.data() + offset_bytes);
  unsynced_.push_back({++writes_, offset_bytes, {source.begin(), source.end()}});
}

void SimDiskImage::WriteTorn(uint64_t offset_bytes, std::span<const std::byte> source,
                             std::mt19937_64& random) {
  std::vector<std::byte> mixed(source.size());
  Read(offset_bytes, mixed);
  CopyTorn(source, mixed.data(), random);
  Write(offset_bytes, mixed);
}

void SimDiskImage::Sync(uint64_t writes) {
  for (const UnsyncedWrite& write : unsynced_) {
    if (write.number > writes) break;
    std::copy(write.bytes.begin(), write.bytes.end(), durable_.data() + write.offset_bytes);
  }
  FailSync(writes);
}

void SimDiskImage::FailSync(uint64_t writes) {
  std::erase_if(unsynced_, [writes](const UnsyncedWrite& w) { return w.number <= writes; });
}

void SimDiskImage::FlipBit(uint64_t offset_bytes, int bit) {
  const std::byte mask = std::byte{1} << bit;
  visible_.at(offset_bytes) ^= mask;
  durable_.at(offset_bytes) ^= mask;
  for (UnsyncedWrite& write : unsynced_) {
    if (offset_bytes < write.offset_bytes) continue;
    const uint64_t at = offset_bytes - write.offset_bytes;
    if (at < write.bytes.size()) write.bytes[at] ^= mask;
  }
}

void SimDiskImage::Crash(std::mt19937_64& random) {
  for (const UnsyncedWrite& write : unsynced_) {
    std::byte* target = durable_.data() + write.offset_bytes;
    switch (random() % 3) {
      case 0:
        break;
      case 1:
        std::copy(write.bytes.begin(), write.bytes.end(), target);
        break;
      default:
        CopyTorn(write.bytes, target, random);
    }
  }
  unsynced_.clear();
  visible_ = durable_;
}

}  // namespace holdfast::testing
