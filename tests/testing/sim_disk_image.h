// SimDiskImage: the bytes of a simulated disk. It outlives engines, so that a test can crash one
// and open the next on what is left.
//
// Two states are kept: what reads see, and what would survive a power loss. A write that completed
// is in the first; only a later sync carries it into the second.
//
// Threading: thread-confined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace holdfast::testing {

class SimDiskImage {
 public:
  static constexpr uint64_t kSectorBytes = 512;  // never torn inside

  explicit SimDiskImage(uint64_t capacity_bytes)
      : visible_(capacity_bytes), durable_(capacity_bytes) {}

  uint64_t capacity_bytes() const noexcept { return visible_.size(); }
  std::span<const std::byte> bytes() const noexcept { return visible_; }  // what reads see
  std::span<const std::byte> durable_bytes() const noexcept { return durable_; }
  uint64_t writes() const noexcept { return writes_; }  // completed so far

  void Read(uint64_t offset_bytes, std::span<std::byte> target) const;
  void Write(uint64_t offset_bytes, std::span<const std::byte> source);
  // Of the write's sectors some reach the disk, chosen by the random numbers.
  void WriteTorn(uint64_t offset_bytes, std::span<const std::byte> source, std::mt19937_64& random);
  // Makes the first `writes` writes durable.
  void Sync(uint64_t writes);
  // A sync that failed: the system forgets what it had not written, and still shows it.
  void FailSync(uint64_t writes);
  // Damage at rest, durable; reads see it until the place is written again.
  void FlipBit(uint64_t offset_bytes, int bit);
  // Power loss. Each write that was not synced is kept, lost or torn, chosen by the random numbers.
  void Crash(std::mt19937_64& random);

 private:
  struct UnsyncedWrite {
    uint64_t number;
    uint64_t offset_bytes;
    std::vector<std::byte> bytes;
  };

  std::vector<std::byte> visible_;
  std::vector<std::byte> durable_;
  std::vector<UnsyncedWrite> unsynced_;  // in the order of completion
  uint64_t writes_ = 0;
};

}  // namespace holdfast::testing
