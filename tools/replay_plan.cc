#include "tools/replay_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "eviction/policy.h"

namespace holdfast::tools {
namespace {

constexpr size_t kHbm = 0, kDdr = 1, kFlash = 2, kDisk = 3;
constexpr std::array<std::string_view, 4> kTierOptions = {"--hbm", "--ddr", "--flash", "--disk"};
constexpr std::array<std::string_view, 4> kTierNames = {"hbm", "ddr", "flash", "disk"};
constexpr uint32_t kExternalKeyBytes = 16;
constexpr uint64_t kBlocksMax = 1ull << 31;
constexpr uint64_t kIndexEntriesMin = 1024;
constexpr uint64_t kMemoryBytesMax = 8ull << 40;  // what pages waste, and staging, come on top
constexpr uint64_t kExternalKeyTag = 0x79616c7065722d66;  // "f-replay"

Result<uint64_t> CapacityBytes(const ReplayOptions& options, size_t tier, uint64_t distinct,
                               uint64_t page_bytes) {
  const Size& size = options.capacity[tier];
  if (size.kind == Size::Kind::kBytes) return size.value;
  if (size.kind == Size::Kind::kUnlimited && options.bytes) {
    return Status(StatusCode::kInvalidArgument, std::string(kTierOptions[tier]) +
                                                    ": 'unlimited' needs --bytes none; with bytes "
                                                    "give a size such as 8GiB");
  }
  const uint64_t frames = size.kind == Size::Kind::kUnlimited ? distinct : size.value;
  if (frames > kBlocksMax) {
    return BadValue(kTierOptions[tier], std::to_string(frames) + " blocks", "at most 2^31 blocks");
  }
  if (tier == kHbm) {  // whole pages of frames
    const uint64_t per_page = std::max<uint64_t>(page_bytes / FrameBytes(options.payload_bytes), 1);
    return (frames + per_page - 1) / per_page * page_bytes;
  }
  return frames * FrameBytes(options.payload_bytes);
}

// Pages of 64 MiB are for arenas of gigabytes; one of at least 16 frames wastes little.
uint64_t ChoosePageBytes(const ReplayOptions& options, uint64_t page_bytes) {
  constexpr uint64_t kPageBytesMin = 64ull << 10;
  const uint64_t frame_bytes = FrameBytes(options.payload_bytes);
  if (!options.bytes) return page_bytes;
  uint64_t aim = page_bytes;
  for (const size_t tier : {kHbm, kDdr}) {
    const Size& size = options.capacity[tier];
    const uint64_t bytes = size.value * (size.kind == Size::Kind::kBlocks ? frame_bytes : 1);
    if (size.on()) aim = std::min(aim, std::bit_floor(bytes / 16));
  }
  return std::clamp(std::max(aim, std::bit_ceil(16 * frame_bytes)), kPageBytesMin, page_bytes);
}

// Segments and write buffers are for tiers of gigabytes; small ones get smaller parts of them.
// Flash wants dozens of segments: each class of holds fills one of its own.
void SizeForSmallTiers(uint64_t frame_bytes, StoreOptions& store) {
  constexpr uint64_t kSegmentsAim = 64;
  constexpr uint64_t kWriteBufferBytesMin = 4ull << 20;
  if (store.flash_bytes > 0) {
    const uint64_t aim = RoundUp(store.flash_bytes / kSegmentsAim, kPageBytes);
    store.segment_bytes_min =
        std::max(std::min(store.segment_bytes_min, aim), kPageBytes + 4 * frame_bytes);
    store.segment_bytes = std::max(store.segment_bytes, store.segment_bytes_min);
  }
  if (store.disk_bytes > 0) {
    const uint64_t aim = std::max({store.disk_bytes / 4, 4 * frame_bytes, kWriteBufferBytesMin});
    store.disk_write_buffer_bytes = std::min(store.disk_write_buffer_bytes, aim);
  }
}

// As ParseSize reads it, exactly.
std::string ExactBytes(uint64_t bytes) {
  for (const auto& [unit, shift] :
       {std::pair{"EiB", 60}, {"PiB", 50}, {"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}) {
    if (bytes != 0 && bytes % (1ull << shift) == 0) return std::to_string(bytes >> shift) + unit;
  }
  return std::to_string(bytes);
}

std::string ShownSize(const Size& size) {
  return size.kind == Size::Kind::kBlocks ? std::to_string(size.value) + 'b'
                                          : ExactBytes(size.value);
}

// The least that a tier may have when it is on.
uint64_t LeastBytes(const StoreOptions& store, size_t tier) {
  constexpr uint64_t kFramesMin = 2, kSegmentsMin = 4;
  const uint64_t frame_bytes = FrameBytes(store.payload_bytes_max);
  switch (tier) {
    case kHbm:
      return store.page_bytes;
    case kDdr:
      return kFramesMin * frame_bytes;
    case kFlash:
      return kSegmentsMin * store.segment_bytes_min;
    default:
      return store.bytes ? store.disk_write_buffer_bytes : frame_bytes;
  }
}

// In the words of the command line what CheckOptions says of fields.
Status CheckCapacities(const ReplayOptions& options, const StoreOptions& store) {
  const std::array<uint64_t, 4> bytes = {store.hbm_bytes, store.ddr_bytes, store.flash_bytes,
                                         store.disk_bytes};
  const std::string payload = ExactBytes(options.payload_bytes);
  for (size_t tier = 0; tier < bytes.size(); ++tier) {
    const std::string shown = ShownSize(options.capacity[tier]);
    const uint64_t least = LeastBytes(store, tier);
    if (bytes[tier] != 0 && bytes[tier] < least) {
      return BadValue(kTierOptions[tier], shown,
                      "0 (off) or at least " + ExactBytes(least) + " at --payload " + payload);
    }
    if (tier <= kDdr && store.bytes && bytes[tier] > kMemoryBytesMax) {
      return BadValue(kTierOptions[tier], shown,
                      "at most " + ExactBytes(kMemoryBytesMax) + "; more needs --bytes none");
    }
  }
  if (store.index_entries_max <= eviction::kEntriesMax) return {};
  const std::string most = FormatCount(uint64_t{eviction::kEntriesMax} / 5 * 4) + " blocks";
  if (!store.bytes) return BadValue("TRACE", options.trace, "of at most " + most);
  return BadValue("--payload", payload,
                  "large enough: tiers of " +
                      FormatBytes(bytes[0] + bytes[1] + bytes[2] + bytes[3]) + " are more than " +
                      most);
}

// The class that `hold` asks for, and those of the store.
void PlanHolds(const HoldChoice& hold, ReplayPlan& plan) {
  std::vector<HoldClass>& classes = plan.store.hold_classes;
  const HoldClass five_minutes = classes[0];
  const HoldClass one_hour = classes[1];
  const auto planned = [](const HoldClass& hold_class) {
    return PlannedHold{.name = hold_class.name, .hold = {.ttl = hold_class.ttl}};
  };
  const PlannedHold none = {.name = "none", .hold = {}};
  switch (hold.kind) {
    case HoldChoice::Kind::kNone:
      plan.holds = {none};
      break;
    case HoldChoice::Kind::k5m:
      plan.holds = {planned(five_minutes)};
      break;
    case HoldChoice::Kind::k1h:
      plan.holds = {planned(one_hour)};
      break;
    case HoldChoice::Kind::kTtl: {
      HoldClass own = hold.ttl <= five_minutes.ttl ? five_minutes : one_hour;
      own.name = hold.text;
      own.ttl = hold.ttl;
      classes = {own};
      plan.holds = {planned(own)};
      break;
    }
    case HoldChoice::Kind::kMix:
      plan.holds = {none, planned(five_minutes), planned(one_hour)};
      break;
  }
}

// What the tiers hold, and a quarter more for blocks on their way. A directory may hold blocks of
// other traces; without bytes there are none but those of this one.
uint64_t IndexEntries(const StoreOptions& store, uint64_t distinct) {
  const uint64_t bytes = store.hbm_bytes + store.ddr_bytes + store.flash_bytes + store.disk_bytes;
  const uint64_t held = bytes / FrameBytes(store.payload_bytes_max);
  const uint64_t blocks = store.bytes ? held : std::min(held, distinct);
  return std::max(kIndexEntriesMin, blocks + blocks / 4);
}

// Nothing that the trace could want is refused.
void LiftLimits(uint64_t distinct, StoreOptions& store) {
  for (HoldClass& hold_class : store.hold_classes) hold_class.budget_share = 1;
  store.hold_share_max = 1;
  store.lease_share_max = 1;
  store.index_entries_max = std::max(store.index_entries_max, distinct);
}

void PlaceAll(StoreOptions& store) {
  store.unheld_flash = PlacementRow::kOnLeave;
  store.unheld_disk = PlacementRow::kOnLeave;
  for (HoldClass& hold_class : store.hold_classes) {
    hold_class.flash = PlacementRow::kOnLeave;
    hold_class.disk = PlacementRow::kOnLeave;
  }
}

// Whether blocks of one of the holds asked for may come to flash or disk. A tier that is off is
// skipped: the next lower one that is on takes its row.
bool CanReceive(const ReplayPlan& plan, size_t tier) {
  const StoreOptions& store = plan.store;
  const bool memory_on = store.hbm_bytes > 0 || store.ddr_bytes > 0;
  if (!memory_on && (tier == kFlash || store.flash_bytes == 0)) return true;  // takes what is put
  const bool row_of_flash = tier == kFlash || store.flash_bytes == 0;
  return std::any_of(plan.holds.begin(), plan.holds.end(), [&](const PlannedHold& planned) {
    const auto found = std::find_if(store.hold_classes.begin(), store.hold_classes.end(),
                                    [&](const HoldClass& c) { return c.ttl == planned.hold.ttl; });
    const bool held = found != store.hold_classes.end();
    const PlacementRow flash = held ? found->flash : store.unheld_flash;
    const PlacementRow disk = held ? found->disk : store.unheld_disk;
    return (row_of_flash ? flash : disk) != PlacementRow::kNever;
  });
}

void AddNotes(const ReplayOptions& options, ReplayPlan& plan) {
  for (const size_t tier : {kFlash, kDisk}) {
    const uint64_t bytes = tier == kFlash ? plan.store.flash_bytes : plan.store.disk_bytes;
    if (bytes == 0 || CanReceive(plan, tier)) continue;
    plan.notes.push_back(std::string(kTierNames[tier]) + " can receive nothing under --hold " +
                         options.hold.text + "; choose another hold, or --placement all");
  }
  if (!options.directory.empty() && !plan.needs_directory) {
    plan.notes.emplace_back("--dir is not used: no tier here keeps bytes in files");
  }
}

std::string SpaceName(const std::string& trace) {
  std::filesystem::path name = std::filesystem::path(trace).filename();
  if (name.extension() == ".gz") name = name.stem();
  return name.string();
}

Status CheckPolicy(const std::string& policy) {
  const std::span<const std::string_view> names = eviction::PolicyNames();
  if (std::find(names.begin(), names.end(), policy) != names.end()) return {};
  std::string known;
  for (const std::string_view name : names) (known += known.empty() ? "" : ", ") += name;
  return BadValue("--policy", policy, "a policy; there are: " + known);
}

}  // namespace

Result<ReplayPlan> PlanReplay(const ReplayOptions& options, const Workload& workload) {
  HF_RETURN_IF_ERROR(CheckPolicy(options.policy));
  if (std::none_of(options.capacity.begin(), options.capacity.end(),
                   [](const Size& size) { return size.on(); })) {
    return Status(StatusCode::kInvalidArgument,
                  "--hbm, --ddr, --flash, --disk: all 0; at least one tier is on");
  }
  if (options.payload_bytes == 0 || options.payload_bytes > kPayloadBytesMax) {
    return BadValue("--payload", std::to_string(options.payload_bytes), "from 1 byte to 256MiB");
  }
  ReplayPlan plan;
  StoreOptions& store = plan.store;
  const std::array<uint64_t*, 4> capacities = {&store.hbm_bytes, &store.ddr_bytes,
                                               &store.flash_bytes, &store.disk_bytes};
  store.page_bytes = ChoosePageBytes(options, store.page_bytes);
  bool unlimited = false;
  for (size_t tier = 0; tier < capacities.size(); ++tier) {
    HF_ASSIGN_OR_RETURN(*capacities[tier],
                        CapacityBytes(options, tier, workload.distinct(), store.page_bytes));
    unlimited |= options.capacity[tier].kind == Size::Kind::kUnlimited;
  }
  store.bytes = options.bytes;
  store.payload_bytes_max = options.payload_bytes;
  store.payload_bytes_typical = options.payload_bytes;
  SizeForSmallTiers(FrameBytes(options.payload_bytes), store);
  store.policy = options.policy;
  store.write_bytes_per_day = options.write_bytes_per_day;
  store.io_engine = options.io_engine;
  store.flash_buffered = options.buffered;
  store.keep_secret = options.bytes;
  store.index_entries_max = IndexEntries(store, workload.distinct());
  HF_RETURN_IF_ERROR(CheckCapacities(options, store));
  PlanHolds(options.hold, plan);
  if (unlimited) LiftLimits(workload.distinct(), store);
  if (options.place_all) PlaceAll(store);
  plan.space = {.model = "replay",
                .layout = std::to_string(options.payload_bytes),
                .block_tokens = options.block_tokens,
                .key_bytes = kExternalKeyBytes,
                .extra = {{"trace", SpaceName(options.trace)}}};
  plan.needs_directory = options.bytes && (store.flash_bytes > 0 || store.disk_bytes > 0);
  AddNotes(options, plan);
  return plan;
}

size_t HoldOfRequest(size_t holds, uint64_t seed, uint64_t request) {
  if (holds == 1) return 0;
  uint64_t x = (seed ^ 0x9e3779b97f4a7c15u) + request * 0x9e3779b97f4a7c15u;  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) % holds;
}

void AppendExternalKey(uint64_t id, std::vector<std::byte>& packed) {
  const std::array<uint64_t, 2> words = {id, kExternalKeyTag};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(words));
  packed.insert(packed.end(), bytes.begin(), bytes.end());
}

}  // namespace holdfast::tools
