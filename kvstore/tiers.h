// Factories of the tiers. The classes live in tiers/ and gpu/.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kvstore/device.h"
#include "kvstore/io_engine.h"
#include "kvstore/meta_store.h"
#include "kvstore/threads.h"
#include "kvstore/tier.h"

namespace holdfast {

struct HbmTierOptions {
  uint64_t capacity_bytes = 0;  // multiple of page_bytes
  uint64_t page_bytes = 64ull << 20;
  bool verify = true;  // checksums of what comes up
  bool bytes = true;   // off: keeps nothing, every operation succeeds, headers stay as they are
  // For a device whose copies end later: threads that verify (hf-worker-N), started at its first
  // such copy. Null or 0: Poll verifies.
  StartThread start_thread = {};
  uint32_t workers = 2;
  // Called when an operation has finished, from Submit, Poll or a worker. The end of a device's
  // copies makes no call: poll while in_flight() > 0.
  std::function<void()> wake = {};
};
// `device` and `run_clock` outlive the tier. Extents of reads are memory of the host; those of
// writes may be the device's. kInvalidArgument: an option, by name; else the device's error.
Result<std::unique_ptr<Tier>> CreateHbmTier(Device& device, Clock& run_clock,
                                            HbmTierOptions options);

struct FlashTierOptions {
  uint64_t segment_bytes =
      256ull << 20;  // aim; see architecture: multiple of the frame that wastes under 2 %
  uint64_t segment_bytes_min = 16ull << 20;
  uint32_t segments_min = 16;  // smaller segments where flash would hold fewer
  uint32_t open_segments_max = 16;
  Duration flush_age = std::chrono::seconds(30);
  uint64_t payload_bytes_typical = 2ull << 20;  // for the capacity check at open
  BlockKey store_id;                            // in the superblock: directory identity
  bool bytes = true;                            // off: no medium; `io` may be null
  uint64_t capacity_bytes = 0;                  // with bytes off; else the engine's
  std::string path;                             // of the file, for messages
  // Bit c: no tier below takes granted copies of hold class c; their segments go last.
  uint32_t classes_last = 0;
  // Called while Create or Recover waits for an engine without threads: lets its time pass. Empty:
  // they block until the engine's threads are done.
  std::function<void()> idle;
};
// Fails with kDataLoss on a corrupt superblock, kFailedPrecondition on a newer format version, each
// naming options.path. Writes the superblock, so it waits for the medium. `wake` is called from
// ring threads when something finished.
Result<std::unique_ptr<GroupedTier>> CreateFlashTier(std::unique_ptr<IoEngine> io, Clock& run_clock,
                                                     std::function<void()> wake,
                                                     const FlashTierOptions& options);

struct DiskTierOptions {
  std::string directory;        // RocksDB's own
  uint64_t capacity_bytes = 0;  // declines before it; 0: no payload families, only the meta store
  uint32_t threads = 2;         // hf-disk-N
  Duration flush_age = std::chrono::seconds(30);
  uint64_t write_buffer_bytes = 256ull << 20;  // db_write_buffer_size; resident is about 3x of it
  uint32_t families_max = 32;
  StartThread start_thread;
};
struct DiskTier {  // tier is null when capacity_bytes is 0
  std::unique_ptr<GroupedTier> tier;
  std::unique_ptr<MetaStore> meta;
};
Result<DiskTier> OpenDiskTier(Clock& run_clock, std::function<void()> wake,
                              DiskTierOptions options);

// The same two without RocksDB: in memory, for simulation (bytes) and for replay without bytes.
DiskTier CreateSimDisk(Clock& run_clock, uint64_t capacity_bytes, bool bytes);

}  // namespace holdfast
