// What a replay counts itself, beside the statistics of the store. Each worker has its own.
//
// Threading: thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvstore/store.h"
#include "kvstore/types.h"

namespace holdfast::tools {

inline constexpr size_t kItemKinds = static_cast<size_t>(Item::kFailed) + 1;
inline constexpr size_t kWhereKinds = static_cast<size_t>(Where::kDisk) + 1;

struct WrongByte {
  uint64_t id = 0;  // in the trace
  BlockKey key;
  Where tier = Where::kAbsent;
  uint64_t offset = 0;  // of the first one
  uint64_t count = 0;   // in that block
};

struct HoldCounts {
  uint64_t requests = 0;
  uint64_t references = 0;
  uint64_t hits = 0;
};

struct ReplayCounts {
  uint64_t requests = 0;
  uint64_t references = 0;
  uint64_t hits = 0;
  uint64_t hit_tokens = 0;
  uint64_t verified_blocks = 0;
  std::array<uint64_t, kWhereKinds> verified{};    // by where the block was before its fetch
  std::array<uint64_t, kItemKinds> fetch_items{};  // by Item
  std::array<uint64_t, kItemKinds> put_items{};
  uint64_t puts_left_out = 0;  // after a block that was declined: they would be orphans
  uint64_t fetched_bytes = 0;
  uint64_t put_bytes = 0;
  std::vector<HoldCounts> holds;  // as ReplayPlan::holds
  std::optional<WrongByte> wrong;

  void Add(const ReplayCounts& other) {
    requests += other.requests;
    references += other.references;
    hits += other.hits;
    hit_tokens += other.hit_tokens;
    verified_blocks += other.verified_blocks;
    for (size_t i = 0; i < kWhereKinds; ++i) verified[i] += other.verified[i];
    for (size_t i = 0; i < kItemKinds; ++i) fetch_items[i] += other.fetch_items[i];
    for (size_t i = 0; i < kItemKinds; ++i) put_items[i] += other.put_items[i];
    puts_left_out += other.puts_left_out;
    fetched_bytes += other.fetched_bytes;
    put_bytes += other.put_bytes;
    holds.resize(std::max(holds.size(), other.holds.size()));
    for (size_t i = 0; i < other.holds.size(); ++i) {
      holds[i].requests += other.holds[i].requests;
      holds[i].references += other.holds[i].references;
      holds[i].hits += other.holds[i].hits;
    }
    if (!wrong) wrong = other.wrong;
  }
};

}  // namespace holdfast::tools
