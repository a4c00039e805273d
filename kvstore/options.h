// StoreOptions: everything that can be chosen when a store is opened. Bytes are bytes, shares are
// parts of one. CheckOptions refuses what does not fit together, naming the field and what would be
// right.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/io_engine.h"
#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast {

// What a tier does with the blocks of a hold class.
enum class PlacementRow : uint8_t {
  kNever,     // the tier does not take them from above
  kAdmitted,  // when they leave the tier above, while the write budget has credit or they are
              // remembered
  kOnLeave,   // when they leave the tier above
  kAtPut,     // written at put
};

struct HoldClass {
  std::string name;         // "5m"; metrics label, 1 to 64 bytes, each its own
  Duration ttl{};           // 1 ms to 30 days, each its own
  double budget_share = 0;  // of the budget base that may be granted, 0..1
  PlacementRow flash = PlacementRow::kOnLeave;
  PlacementRow disk = PlacementRow::kNever;
};

struct StoreOptions {
  // Owned by one process (flock). Required when flash or disk is on and keeps bytes.
  std::string directory;

  // Capacities of frames; 0: the tier is off. hbm is rounded down to pages, the others to 4,096.
  uint64_t hbm_bytes = 0;
  // 0: no ddr tier; the arena then holds staging frames only. Else at least two frames of the
  // longest payload. The arena reserves more: what pages waste, and the staging frames.
  uint64_t ddr_bytes = 1ull << 30;
  uint64_t flash_bytes = 0;  // at least four of segment_bytes_min
  uint64_t disk_bytes = 0;   // at least disk_write_buffer_bytes, where it keeps bytes
  std::string flash_path;    // file or block device; empty: directory/flash
  bool bytes = true;         // off: tiers that keep no bytes (replay --bytes none)

  uint64_t payload_bytes_max = 64ull << 20;     // a put of a longer one is an invalid argument
  uint64_t payload_bytes_typical = 2ull << 20;  // sizes segments and the index
  // 1 to 2^26 - 1; 0: 1.25 of the capacities over the typical payload.
  uint64_t index_entries_max = 0;
  uint64_t page_bytes = 64ull << 20;         // of the arena: a power of two, 64 KiB to 1 GiB
  uint64_t segment_bytes = 256ull << 20;     // of flash; see FlashTierOptions
  uint64_t segment_bytes_min = 16ull << 20;  // at least two frames of the typical payload

  // At most 4; CheckOptions sorts them by ttl.
  std::vector<HoldClass> hold_classes = {
      {"5m", std::chrono::minutes(5), 0.25, PlacementRow::kOnLeave, PlacementRow::kNever},
      {"1h", std::chrono::hours(1), 0.50, PlacementRow::kAtPut, PlacementRow::kOnLeave}};
  double hold_share_max = 0.75;  // granted by all classes together
  bool refresh_on_touch = true;  // a touch moves a deadline to now + ttl
  PlacementRow unheld_flash = PlacementRow::kAdmitted;
  PlacementRow unheld_disk = PlacementRow::kNever;

  std::string policy = "lru";    // of ddr and hbm; eviction/policy.h
  double lease_share_max = 0.5;  // of a tier's bytes that leases may pin
  Duration lease_default = std::chrono::seconds(30);
  uint32_t views_max = 1024;     // arena frames pinned by views and reservations, in all
  uint32_t fetch_window = 16;    // frames through which one fetch streams
  uint32_t staging_frames = 16;  // kept out of ddr's reach; at least 8

  // Written to flash and disk in a day, by choice rather than under a paid hold.
  // 0: one flash capacity, of disk where flash is off; UINT64_MAX: no budget.
  uint64_t write_bytes_per_day = 0;
  uint64_t spill_bytes_in_flight = 4ull << 20;  // and at most two frames
  // While a fetch runs, and this long after, one spill at a time; or, paused, one each 10 ms.
  Duration fetch_quiet = std::chrono::milliseconds(50);
  bool pause_spills_for_fetches = false;
  double spill_ahead_share = 0.02;  // of ddr kept clean at its cold end

  IoEngineKind io_engine = IoEngineKind::kAuto;
  bool flash_buffered = false;  // named mode without O_DIRECT
  uint32_t io_threads = 2;
  uint32_t io_depth = 64;
  uint32_t disk_threads = 2;
  uint64_t disk_write_buffer_bytes = 256ull << 20;
  uint32_t workers = 2;  // threads that copy what the driver may not
  Duration flush_age = std::chrono::seconds(30);
  bool verify_ddr = false;  // also verify copies served from host memory
  bool keep_secret = true;  // off: keys are the same in every store
};

// The options as the store runs them: capacities rounded, hold classes sorted, what is derived (0
// fields) filled in. kInvalidArgument names every field that does not fit, its value, and what
// would be right. The policy's name is not checked here.
Result<StoreOptions> CheckOptions(StoreOptions options);

}  // namespace holdfast
