#include "kvstore/options.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace holdfast {
namespace {

constexpr uint64_t kCapacityBytesMax = 1ull << 60;  // of a tier; four of them can be added
constexpr uint64_t kPageBytesMin = 64ull << 10;
constexpr uint64_t kPageBytesMax = 1ull << 30;
constexpr uint64_t kFlashSegmentsMin = 4;
constexpr uint64_t kSegmentFramesMin = 2;
constexpr uint64_t kWriteBufferBytesMin = 1ull << 20;
constexpr uint64_t kIndexEntriesMin = 1024;            // derived; asked for, it may be smaller
constexpr uint64_t kIndexEntriesMax = (1u << 26) - 1;  // as the policies
constexpr size_t kHoldClassesMax = 4;
constexpr uint32_t kStagingFramesMin = 8;
constexpr uint32_t kFramesMax = 1u << 16;
constexpr uint32_t kThreadsMax = 256;
constexpr uint32_t kDepthMax = 4096;
constexpr Duration kTtlMin = std::chrono::milliseconds(1);
constexpr Duration kDurationMax = std::chrono::hours(24 * 30);
constexpr size_t kNameBytesMax = 64;

std::string Text(uint64_t value) {
  if (value == 0) return "0";
  for (const auto& [unit, shift] : {std::pair{" GiB", 30}, {" MiB", 20}, {" KiB", 10}}) {
    if (value % (1ull << shift) == 0) return std::to_string(value >> shift) + unit;
  }
  return std::to_string(value);
}

std::string Text(double value) {
  std::string text = std::to_string(value);
  if (std::isfinite(value))
    text.erase(std::max(text.find_last_not_of('0'), text.find('.') + 1) + 1);
  return text;
}

std::string Text(Duration value) {
  if (value % std::chrono::seconds(1) == Duration{}) {
    return std::to_string(value / std::chrono::seconds(1)) + " s";
  }
  return std::to_string(value.count()) + " ns";
}

// Collects what is wrong, so that one message names all of it.
class Faults {
 public:
  // `right` completes "<field>: <value>; ".
  template <typename T>
  void Add(std::string_view field, const T& value, std::string_view right) {
    AddText(field, Text(value), right);
  }
  void AddText(std::string_view field, std::string_view value, std::string_view right) {
    if (!text_.empty()) text_ += ". ";
    text_.append(field).append(": ").append(value).append("; ").append(right);
  }
  template <typename T>
  void Range(std::string_view field, const T& value, const T& least, const T& most) {
    if (!(value >= least && value <= most)) {  // also NaN
      Add(field, value, Text(least) + " to " + Text(most));
    }
  }
  bool any() const noexcept { return !text_.empty(); }
  Status ToStatus() && { return Status(StatusCode::kInvalidArgument, std::move(text_)); }

 private:
  static std::string Text(uint64_t value) { return holdfast::Text(value); }
  static std::string Text(uint32_t value) { return std::to_string(value); }
  static std::string Text(double value) { return holdfast::Text(value); }
  static std::string Text(Duration value) { return holdfast::Text(value); }

  std::string text_;
};

uint64_t RoundDown(uint64_t value, uint64_t multiple) { return value - value % multiple; }

void CheckPayloads(const StoreOptions& o, Faults& faults) {
  faults.Range<uint64_t>("payload_bytes_max", o.payload_bytes_max, 1, kPayloadBytesMax);
  if (o.payload_bytes_typical == 0 || o.payload_bytes_typical > o.payload_bytes_max) {
    faults.Add("payload_bytes_typical", o.payload_bytes_typical,
               "1 to payload_bytes_max, " + Text(o.payload_bytes_max));
  }
  if (!std::has_single_bit(o.page_bytes) || o.page_bytes < kPageBytesMin ||
      o.page_bytes > kPageBytesMax) {
    faults.Add("page_bytes", o.page_bytes, "a power of two from 64 KiB to 1 GiB");
  }
}

void RoundCapacities(StoreOptions& o) {
  o.hbm_bytes = RoundDown(o.hbm_bytes, o.page_bytes);
  o.ddr_bytes = RoundDown(o.ddr_bytes, kPageBytes);
  o.flash_bytes = RoundDown(o.flash_bytes, kPageBytes);
  o.disk_bytes = RoundDown(o.disk_bytes, kPageBytes);
  o.segment_bytes = RoundDown(o.segment_bytes, kPageBytes);
  o.segment_bytes_min = RoundDown(o.segment_bytes_min, kPageBytes);
}

// Payloads and pages are right here, so that nothing below divides by zero or overflows.
void CheckCapacities(const StoreOptions& asked, const StoreOptions& o, Faults& faults) {
  if (asked.hbm_bytes == 0 && asked.ddr_bytes == 0 && asked.flash_bytes == 0 &&
      asked.disk_bytes == 0) {
    faults.AddText("hbm_bytes, ddr_bytes, flash_bytes, disk_bytes", "all 0",
                   "at least one tier is on");
  }
  faults.Range<uint64_t>("hbm_bytes", asked.hbm_bytes, 0, kCapacityBytesMax);
  faults.Range<uint64_t>("ddr_bytes", asked.ddr_bytes, 0, kCapacityBytesMax);
  faults.Range<uint64_t>("flash_bytes", asked.flash_bytes, 0, kCapacityBytesMax);
  faults.Range<uint64_t>("disk_bytes", asked.disk_bytes, 0, kCapacityBytesMax);

  if (asked.hbm_bytes != 0 && o.hbm_bytes == 0) {
    faults.Add("hbm_bytes", asked.hbm_bytes, "0 (off) or at least a page, " + Text(o.page_bytes));
  }
  const uint64_t two_frames = 2 * FrameBytes(o.payload_bytes_max);
  if (asked.ddr_bytes != 0 && o.ddr_bytes < two_frames) {
    faults.Add("ddr_bytes", asked.ddr_bytes,
               "0 (off) or at least " + Text(two_frames) + ", two frames of payload_bytes_max, " +
                   Text(o.payload_bytes_max));
  }
  if (o.bytes && (asked.flash_bytes != 0 || asked.disk_bytes != 0) && o.directory.empty()) {
    faults.AddText("directory", "empty", "required when flash or disk is on and keeps bytes");
  }
}

void CheckFlash(const StoreOptions& asked, const StoreOptions& o, Faults& faults) {
  if (asked.flash_bytes == 0) return;
  const uint64_t least = kPageBytes + kSegmentFramesMin * FrameBytes(o.payload_bytes_typical);
  if (o.segment_bytes_min < least || o.segment_bytes_min > kCapacityBytesMax / kFlashSegmentsMin) {
    faults.Add("segment_bytes_min", asked.segment_bytes_min,
               "at least " + Text(least) + ", a header and two frames of payload_bytes_typical, " +
                   Text(o.payload_bytes_typical) + ", and at most 2^58");
    return;
  }
  if (o.segment_bytes < o.segment_bytes_min || o.segment_bytes > kCapacityBytesMax) {
    faults.Add("segment_bytes", asked.segment_bytes,
               "segment_bytes_min, " + Text(o.segment_bytes_min) + ", to 2^60");
  }
  if (o.flash_bytes < kFlashSegmentsMin * o.segment_bytes_min) {
    faults.Add("flash_bytes", asked.flash_bytes,
               "0 (off) or at least " + Text(kFlashSegmentsMin * o.segment_bytes_min) +
                   ", four of segment_bytes_min");
  }
}

void CheckDisk(const StoreOptions& asked, const StoreOptions& o, Faults& faults) {
  if (asked.disk_bytes == 0) return;
  faults.Range<uint32_t>("disk_threads", o.disk_threads, 1, kThreadsMax);
  if (!o.bytes) {
    const uint64_t frame_bytes = FrameBytes(o.payload_bytes_typical);
    if (o.disk_bytes < frame_bytes) {
      faults.Add("disk_bytes", asked.disk_bytes,
                 "0 (off) or at least a frame of payload_bytes_typical, " + Text(frame_bytes));
    }
    return;
  }
  faults.Range("disk_write_buffer_bytes", o.disk_write_buffer_bytes, kWriteBufferBytesMin,
               kCapacityBytesMax);
  if (o.disk_bytes < o.disk_write_buffer_bytes) {
    faults.Add("disk_bytes", asked.disk_bytes,
               "0 (off) or at least disk_write_buffer_bytes, " + Text(o.disk_write_buffer_bytes));
  }
}

void CheckHolds(const StoreOptions& o, Faults& faults) {
  if (o.hold_classes.size() > kHoldClassesMax) {
    faults.AddText("hold_classes", std::to_string(o.hold_classes.size()) + " classes", "at most 4");
  }
  std::set<std::string_view> names;
  const HoldClass* before = nullptr;
  for (const HoldClass& hold : o.hold_classes) {  // sorted by ttl
    const std::string field = "hold_classes[" + hold.name + "].";
    if (hold.name.empty() || hold.name.size() > kNameBytesMax) {
      faults.AddText(field + "name", std::to_string(hold.name.size()) + " bytes", "1 to 64 bytes");
    } else if (!names.insert(hold.name).second) {
      faults.AddText(field + "name", hold.name, "each class has a name of its own");
    }
    faults.Range(field + "ttl", hold.ttl, kTtlMin, kDurationMax);
    if (before != nullptr && before->ttl == hold.ttl) {
      faults.Add(field + "ttl", hold.ttl,
                 "each class has a ttl of its own; \"" + before->name + "\" has the same");
    }
    faults.Range(field + "budget_share", hold.budget_share, 0.0, 1.0);
    before = &hold;
  }
  faults.Range("hold_share_max", o.hold_share_max, 0.0, 1.0);
}

void CheckRunning(const StoreOptions& o, Faults& faults) {
  if (!(o.lease_share_max > 0 && o.lease_share_max <= 1)) {
    faults.Add("lease_share_max", o.lease_share_max, "above 0, at most 1");
  }
  faults.Range("spill_ahead_share", o.spill_ahead_share, 0.0, 1.0);
  faults.Range("lease_default", o.lease_default, kTtlMin, kDurationMax);
  faults.Range("fetch_quiet", o.fetch_quiet, Duration{}, kDurationMax);
  faults.Range("flush_age", o.flush_age, kTtlMin, kDurationMax);
  faults.Range<uint32_t>("views_max", o.views_max, 1, UINT32_MAX);
  faults.Range<uint32_t>("fetch_window", o.fetch_window, 1, kFramesMax);
  faults.Range("staging_frames", o.staging_frames, kStagingFramesMin, kFramesMax);
  faults.Range<uint32_t>("io_threads", o.io_threads, 1, kThreadsMax);
  faults.Range<uint32_t>("io_depth", o.io_depth, 1, kDepthMax);
  faults.Range<uint32_t>("workers", o.workers, 1, kThreadsMax);
  if (o.spill_bytes_in_flight == 0) {
    faults.Add("spill_bytes_in_flight", o.spill_bytes_in_flight, "at least 1");
  }
}

// Capacities are at most 2^60 each: their sum and 1.25 of it do not overflow.
void Derive(StoreOptions& o, Faults& faults) {
  if (o.write_bytes_per_day == 0) {
    o.write_bytes_per_day = o.flash_bytes != 0 ? o.flash_bytes : o.disk_bytes;
  }
  if (o.index_entries_max != 0) {
    if (o.index_entries_max > kIndexEntriesMax) {
      faults.AddText("index_entries_max", std::to_string(o.index_entries_max),
                     "0 (derived) or at most 67108863");
    }
    return;
  }
  const uint64_t bytes = o.hbm_bytes + o.ddr_bytes + o.flash_bytes + o.disk_bytes;
  const uint64_t blocks = bytes / o.payload_bytes_typical;
  o.index_entries_max = std::max(kIndexEntriesMin, blocks + blocks / 4);
  if (o.index_entries_max > kIndexEntriesMax) {
    faults.AddText("index_entries_max", "0",
                   "give it, at most 67108863, or raise payload_bytes_typical, " +
                       Text(o.payload_bytes_typical) + ": " + std::to_string(o.index_entries_max) +
                       " entries follow from the capacities");
  }
}

}  // namespace

Result<StoreOptions> CheckOptions(StoreOptions options) {
  Faults faults;
  CheckPayloads(options, faults);
  std::stable_sort(options.hold_classes.begin(), options.hold_classes.end(),
                   [](const HoldClass& a, const HoldClass& b) { return a.ttl < b.ttl; });
  CheckHolds(options, faults);
  CheckRunning(options, faults);
  if (faults.any()) return std::move(faults).ToStatus();

  const StoreOptions asked = options;
  RoundCapacities(options);
  CheckCapacities(asked, options, faults);
  CheckFlash(asked, options, faults);
  CheckDisk(asked, options, faults);
  if (faults.any()) return std::move(faults).ToStatus();

  Derive(options, faults);
  if (faults.any()) return std::move(faults).ToStatus();
  return options;
}

}  // namespace holdfast
