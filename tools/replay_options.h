// ReplayOptions: what the command line of `holdfast replay` says, parsed and checked one by one.
// What they mean together for a store is replay_plan.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kvstore/clock.h"
#include "kvstore/io_engine.h"
#include "tools/units.h"
#include "trace/reader.h"

namespace holdfast::tools {

struct HoldChoice {
  enum class Kind : uint8_t { kNone, k5m, k1h, kTtl, kMix };
  Kind kind = Kind::kNone;
  std::string text = "none";  // as given
  Duration ttl{};             // kTtl
};

struct ReplayOptions {
  std::string trace;
  Tail tail = Tail::kDrop;
  uint32_t block_tokens = 512;
  uint64_t requests_max = 0;  // 0: all

  // hbm, ddr, flash, disk
  std::array<Size, 4> capacity = {Size{}, Size{.value = 1ull << 30}, Size{.value = 4ull << 30},
                                  Size{}};
  std::string directory;  // empty: a fresh one, where one is needed
  bool keep_directory = false;
  uint64_t payload_bytes = 2ull << 20;
  bool bytes = true;

  HoldChoice hold;
  bool place_all = false;  // every class goes to flash and disk when it leaves the tier above
  std::string policy = "lru";
  uint64_t write_bytes_per_day = UINT64_MAX;  // UINT64_MAX: no budget
  IoEngineKind io_engine = IoEngineKind::kAuto;
  bool buffered = false;

  bool hold_clock_of_trace = true;
  double speed = 0;  // 0: as fast as it goes
  uint32_t concurrency = 1;
  uint64_t seed = 1;
  bool drain = false;

  bool json = false;   // on stdout, instead of the table
  std::string output;  // a file for the JSON; empty: none
};

}  // namespace holdfast::tools
