// SimDisk: the disk tier and its meta store in memory, without threads: for simulation, with bytes,
// and for replay without. The medium outlives the tier, so that a test can close, kill and open
// again; and it fails where a test says.
//
// Usage:
//   auto medium = std::make_shared<SimDiskMedium>();
//   DiskTier disk = OpenSimDisk(clock, {.capacity_bytes = 64 << 20}, medium);
//   medium->FailOperation(3, EIO);
//   ... destroy it: what was not flushed is lost, as with RocksDB ...
//   disk = OpenSimDisk(clock, {.capacity_bytes = 64 << 20}, medium);
//
// With bytes, a bucket is created by the Step or Poll after the Allocate that wanted it, and a
// dropped one gives its space back at the next Step. Without bytes both happen at once, nothing is
// kept, and every operation succeeds.
//
// Threading: as Tier and MetaStore say; the medium's own functions when nothing runs on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/tiers.h"
#include "tiers/disk_records.h"

namespace holdfast {

class SimDiskMedium {
 public:
  struct Record {
    std::string block_record;
    std::unique_ptr<FrameHeader> header;
    std::vector<std::byte> payload;
    bool durable = false;
  };
  struct Family {
    BucketLine line;
    std::map<uint32_t, Record> records;  // by slot
  };

  // The n-th read or write from now (0: the next) fails with this errno.
  void FailOperation(uint64_t nth, int os_errno) {
    fail_after_ = nth;
    fail_errno_ = os_errno;
  }
  // Flips one bit of the newest record of the block: of its payload, or of what opening reads.
  bool CorruptPayload(const BlockKey& key);
  bool CorruptBlockRecord(const BlockKey& key);
  void LoseUnflushed();  // opening does it, too
  size_t records() const noexcept;

  // For the tier and the meta store over it.
  std::map<GroupId, Family>& families() noexcept { return families_; }
  std::map<std::string, std::string>& meta() noexcept { return meta_; }
  int NextFault() noexcept;  // 0: this operation succeeds

 private:
  Record* Newest(const BlockKey& key);
  std::map<GroupId, Family> families_;
  std::map<std::string, std::string> meta_;
  std::optional<uint64_t> fail_after_;
  int fail_errno_ = 0;
};

struct SimDiskOptions {
  uint64_t capacity_bytes = 0;  // 0: only the meta store
  bool bytes = true;
  uint32_t families_max = 32;
  Duration flush_age = std::chrono::seconds(30);
};
DiskTier OpenSimDisk(Clock& run_clock, const SimDiskOptions& options,
                     std::shared_ptr<SimDiskMedium> medium);

}  // namespace holdfast
