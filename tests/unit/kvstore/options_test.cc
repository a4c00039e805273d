#include "kvstore/options.h"

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// All tiers on, everything else as delivered.
StoreOptions Everything() {
  StoreOptions o;
  o.directory = "/data";
  o.hbm_bytes = 256 * kMiB;
  o.ddr_bytes = kGiB;
  o.flash_bytes = 4 * kGiB;
  o.disk_bytes = 8 * kGiB;
  return o;
}

using Change = std::function<void(StoreOptions&)>;

struct Rule {
  std::string_view name;
  Change refused;
  std::string_view message;  // its first part: field, value, and what would be right
  Change accepted;           // the nearest value that is right
};

std::ostream& operator<<(std::ostream& out, const Rule& rule) { return out << rule.name; }

class OptionsRule : public ::testing::TestWithParam<Rule> {};

TEST_P(OptionsRule, NamesFieldValueAndWhatWouldBeRight) {
  StoreOptions refused = Everything();
  GetParam().refused(refused);
  const auto wrong = CheckOptions(refused);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(wrong.error().message().starts_with(GetParam().message)) << wrong.error().message();
}

TEST_P(OptionsRule, TakesTheNearestRightValue) {
  StoreOptions accepted = Everything();
  GetParam().accepted(accepted);
  const auto right = CheckOptions(accepted);
  EXPECT_TRUE(right.has_value()) << right.error().ToString();
}

HoldClass Class(std::string name, Duration ttl, double share = 0.1) {
  return {std::move(name), ttl, share, PlacementRow::kOnLeave, PlacementRow::kNever};
}

using O = StoreOptions;

const Rule kCapacityRules[] = {
    {"NothingOn", [](O& o) { o.hbm_bytes = o.ddr_bytes = o.flash_bytes = o.disk_bytes = 0; },
     "hbm_bytes, ddr_bytes, flash_bytes, disk_bytes: all 0; at least one tier is on",
     [](O& o) { o.hbm_bytes = o.flash_bytes = o.disk_bytes = 0; }},
    {"DirectoryForFlash",
     [](O& o) {
       o.directory.clear();
       o.disk_bytes = 0;
     },
     "directory: empty; required when flash or disk is on and keeps bytes",
     [](O& o) {
       o.directory.clear();
       o.disk_bytes = o.flash_bytes = 0;
     }},
    {"DirectoryForDisk",
     [](O& o) {
       o.directory.clear();
       o.flash_bytes = 0;
     },
     "directory: empty",
     [](O& o) {
       o.directory.clear();
       o.bytes = false;
     }},
    {"HbmBelowAPage", [](O& o) { o.hbm_bytes = 64 * kMiB - 1; },
     "hbm_bytes: 67108863; 0 (off) or at least a page, 64 MiB",
     [](O& o) { o.hbm_bytes = 64 * kMiB; }},
    {"DdrWithoutTwoLongFrames", [](O& o) { o.ddr_bytes = 128 * kMiB; },
     "ddr_bytes: 128 MiB; 0 (off) or at least 131080 KiB, two frames of payload_bytes_max, 64 MiB",
     [](O& o) { o.ddr_bytes = 128 * kMiB + 2 * 4096; }},
    {"DdrAboveAll", [](O& o) { o.ddr_bytes = (1ull << 60) + 1; },
     "ddr_bytes: 1152921504606846977; 0 to",
     [](O& o) {
       o.ddr_bytes = 1ull << 60;
       o.index_entries_max = 1;
     }},
    {"DiskAboveAll", [](O& o) { o.disk_bytes = UINT64_MAX; },
     "disk_bytes: 18446744073709551615; 0 to",
     [](O& o) {
       o.disk_bytes = 1ull << 60;
       o.index_entries_max = 1;
     }},
    {"FlashBelowFourSegments", [](O& o) { o.flash_bytes = 64 * kMiB - 1; },
     "flash_bytes: 67108863; 0 (off) or at least 64 MiB, four of segment_bytes_min",
     [](O& o) { o.flash_bytes = 64 * kMiB; }},
    {"SegmentWithoutTwoFrames", [](O& o) { o.segment_bytes_min = 4 * kMiB + 8192; },
     "segment_bytes_min: 4104 KiB; at least 4108 KiB, a header and two frames of "
     "payload_bytes_typical, 2 MiB",
     [](O& o) { o.segment_bytes_min = 4 * kMiB + 3 * 4096; }},
    {"SegmentMinimumAboveAll", [](O& o) { o.segment_bytes_min = UINT64_MAX - 4095; },
     "segment_bytes_min: 18014398509481980 KiB; at least",
     [](O& o) {
       o.segment_bytes_min = kGiB;
       o.segment_bytes = kGiB;
     }},
    {"SegmentBelowItsMinimum", [](O& o) { o.segment_bytes = 8 * kMiB; },
     "segment_bytes: 8 MiB; segment_bytes_min, 16 MiB, to 2^60",
     [](O& o) { o.segment_bytes = 16 * kMiB; }},
    {"DiskBelowItsWriteBuffer", [](O& o) { o.disk_bytes = 256 * kMiB - 1; },
     "disk_bytes: 268435455; 0 (off) or at least disk_write_buffer_bytes, 256 MiB",
     [](O& o) { o.disk_bytes = 256 * kMiB; }},
    {"DiskWithoutBytesBelowAFrame",
     [](O& o) {
       o.bytes = false;
       o.disk_bytes = 2 * kMiB;
     },
     "disk_bytes: 2 MiB; 0 (off) or at least a frame of payload_bytes_typical, 2052 KiB",
     [](O& o) {
       o.bytes = false;
       o.disk_bytes = 2 * kMiB + 4096;
     }},
    {"WriteBufferTooSmall", [](O& o) { o.disk_write_buffer_bytes = kMiB - 1; },
     "disk_write_buffer_bytes: 1048575; 1 MiB to", [](O& o) { o.disk_write_buffer_bytes = kMiB; }},
    {"IndexTooLarge", [](O& o) { o.index_entries_max = 1u << 26; },
     "index_entries_max: 67108864; 0 (derived) or at most 67108863",
     [](O& o) { o.index_entries_max = (1u << 26) - 1; }},
    {"DerivedIndexTooLarge", [](O& o) { o.ddr_bytes = 1ull << 60; },
     "index_entries_max: 0; give it, at most 67108863, or raise payload_bytes_typical, 2 MiB",
     [](O& o) {
       o.ddr_bytes = 1ull << 60;
       o.index_entries_max = (1u << 26) - 1;
     }},
};

const Rule kPayloadRules[] = {
    {"NoPayload", [](O& o) { o.payload_bytes_max = 0; }, "payload_bytes_max: 0; 1 to 256 MiB",
     [](O& o) {
       o.payload_bytes_max = 1;
       o.payload_bytes_typical = 1;
       o.index_entries_max = 1;
     }},
    {"PayloadTooLong", [](O& o) { o.payload_bytes_max = 256 * kMiB + 1; },
     "payload_bytes_max: 268435457; 1 to 256 MiB", [](O& o) { o.payload_bytes_max = 256 * kMiB; }},
    {"TypicalAboveMaximum", [](O& o) { o.payload_bytes_max = 2 * kMiB - 1; },
     "payload_bytes_typical: 2 MiB; 1 to payload_bytes_max, 2097151",
     [](O& o) { o.payload_bytes_max = 2 * kMiB; }},
    {"NoTypicalPayload", [](O& o) { o.payload_bytes_typical = 0; },
     "payload_bytes_typical: 0; 1 to payload_bytes_max, 64 MiB",
     [](O& o) { o.payload_bytes_typical = 1024; }},
    {"PageNotAPowerOfTwo", [](O& o) { o.page_bytes = 48 * kMiB; },
     "page_bytes: 48 MiB; a power of two from 64 KiB to 1 GiB",
     [](O& o) { o.page_bytes = 32 * kMiB; }},
    {"PageTooSmall", [](O& o) { o.page_bytes = 32 << 10; }, "page_bytes: 32 KiB",
     [](O& o) { o.page_bytes = 64 << 10; }},
    {"NoPage", [](O& o) { o.page_bytes = 0; }, "page_bytes: 0",
     [](O& o) { o.page_bytes = 64 << 10; }},
    {"PageTooLarge", [](O& o) { o.page_bytes = 2 * kGiB; }, "page_bytes: 2 GiB",
     [](O& o) {
       o.page_bytes = kGiB;
       o.hbm_bytes = kGiB;
       o.ddr_bytes = 2 * kGiB;
     }},
};

const Rule kHoldRules[] = {
    {"FiveClasses",
     [](O& o) {
       o.hold_classes = {Class("1", 1min), Class("2", 2min), Class("3", 3min), Class("4", 4min),
                         Class("5", 5min)};
     },
     "hold_classes: 5 classes; at most 4",
     [](O& o) {
       o.hold_classes = {Class("1", 1min), Class("2", 2min), Class("3", 3min), Class("4", 4min)};
     }},
    {"TtlTwice",
     [](O& o) {
       o.hold_classes = {Class("a", 1h), Class("b", 60min)};
     },
     "hold_classes[b].ttl: 3600 s; each class has a ttl of its own; \"a\" has the same",
     [](O& o) {
       o.hold_classes = {Class("a", 1h), Class("b", 61min)};
     }},
    {"TtlTooShort", [](O& o) { o.hold_classes = {Class("a", 1ms - Duration(1))}; },
     "hold_classes[a].ttl: 999999 ns; 1000000 ns to 2592000 s",
     [](O& o) { o.hold_classes = {Class("a", 1ms)}; }},
    {"TtlNegative", [](O& o) { o.hold_classes = {Class("a", -1h)}; },
     "hold_classes[a].ttl: -3600 s", [](O& o) { o.hold_classes.clear(); }},
    {"TtlTooLong", [](O& o) { o.hold_classes = {Class("a", 721h)}; },
     "hold_classes[a].ttl: 2595600 s; 1000000 ns to 2592000 s",
     [](O& o) { o.hold_classes = {Class("a", 720h)}; }},
    {"ClassWithoutName", [](O& o) { o.hold_classes = {Class("", 1h)}; },
     "hold_classes[].name: 0 bytes", [](O& o) { o.hold_classes = {Class("h", 1h)}; }},
    {"ClassNameTooLong", [](O& o) { o.hold_classes = {Class(std::string(65, 'x'), 1h)}; },
     "hold_classes[xxx", [](O& o) { o.hold_classes = {Class(std::string(64, 'x'), 1h)}; }},
    {"NameTwice",
     [](O& o) {
       o.hold_classes = {Class("a", 1h), Class("a", 2h)};
     },
     "hold_classes[a].name: a; each class has a name of its own",
     [](O& o) {
       o.hold_classes = {Class("a", 1h), Class("A", 2h)};
     }},
    {"ShareAboveOne", [](O& o) { o.hold_classes = {Class("a", 1h, 1.01)}; },
     "hold_classes[a].budget_share: 1.01; 0.0 to 1.0",
     [](O& o) { o.hold_classes = {Class("a", 1h, 1.0)}; }},
    {"ShareNegative", [](O& o) { o.hold_classes = {Class("a", 1h, -0.01)}; },
     "hold_classes[a].budget_share: -0.01", [](O& o) { o.hold_classes = {Class("a", 1h, 0.0)}; }},
    {"ShareNotANumber", [](O& o) { o.hold_classes = {Class("a", 1h, kNaN)}; },
     "hold_classes[a].budget_share: nan", [](O& o) { o.hold_classes = {Class("a", 1h, 0.5)}; }},
    {"HoldShareAboveOne", [](O& o) { o.hold_share_max = 1.5; }, "hold_share_max: 1.5; 0.0 to 1.0",
     [](O& o) { o.hold_share_max = 1; }},
    {"HoldShareNegative", [](O& o) { o.hold_share_max = -1; }, "hold_share_max: -1.0",
     [](O& o) { o.hold_share_max = 0; }},
};

const Rule kRunningRules[] = {
    {"NoLeaseShare", [](O& o) { o.lease_share_max = 0; },
     "lease_share_max: 0.0; above 0, at most 1", [](O& o) { o.lease_share_max = 0.01; }},
    {"LeaseShareAboveOne", [](O& o) { o.lease_share_max = 1.01; }, "lease_share_max: 1.01",
     [](O& o) { o.lease_share_max = 1; }},
    {"LeaseShareNotANumber", [](O& o) { o.lease_share_max = kNaN; }, "lease_share_max: nan",
     [](O& o) { o.lease_share_max = 0.5; }},
    {"SpillAheadAboveOne", [](O& o) { o.spill_ahead_share = 1.01; },
     "spill_ahead_share: 1.01; 0.0 to 1.0", [](O& o) { o.spill_ahead_share = 0; }},
    {"NoLeaseTime", [](O& o) { o.lease_default = Duration{}; }, "lease_default: 0 s; 1000000 ns to",
     [](O& o) { o.lease_default = 1ms; }},
    {"LeaseTimeTooLong", [](O& o) { o.lease_default = Duration::max(); },
     "lease_default: ", [](O& o) { o.lease_default = 720h; }},
    {"QuietNegative", [](O& o) { o.fetch_quiet = -1ms; }, "fetch_quiet: -1000000 ns; 0 s to",
     [](O& o) { o.fetch_quiet = Duration{}; }},
    {"NoFlushAge", [](O& o) { o.flush_age = Duration{}; }, "flush_age: 0 s",
     [](O& o) { o.flush_age = 1s; }},
    {"NoViews", [](O& o) { o.views_max = 0; }, "views_max: 0; 1 to", [](O& o) { o.views_max = 1; }},
    {"NoFetchWindow", [](O& o) { o.fetch_window = 0; }, "fetch_window: 0; 1 to 65536",
     [](O& o) { o.fetch_window = 1; }},
    {"FewStagingFrames", [](O& o) { o.staging_frames = 7; }, "staging_frames: 7; 8 to 65536",
     [](O& o) { o.staging_frames = 8; }},
    {"StagingFramesAboveAll", [](O& o) { o.staging_frames = UINT32_MAX; },
     "staging_frames: 4294967295", [](O& o) { o.staging_frames = 65536; }},
    {"NoIoThreads", [](O& o) { o.io_threads = 0; }, "io_threads: 0; 1 to 256",
     [](O& o) { o.io_threads = 1; }},
    {"NoDepth", [](O& o) { o.io_depth = 0; }, "io_depth: 0; 1 to 4096",
     [](O& o) { o.io_depth = 1; }},
    {"NoWorkers", [](O& o) { o.workers = 0; }, "workers: 0; 1 to 256", [](O& o) { o.workers = 1; }},
    {"NoDiskThreads", [](O& o) { o.disk_threads = 0; }, "disk_threads: 0; 1 to 256",
     [](O& o) {
       o.disk_threads = 0;
       o.disk_bytes = 0;
     }},
    {"NoSpillInFlight", [](O& o) { o.spill_bytes_in_flight = 0; },
     "spill_bytes_in_flight: 0; at least 1", [](O& o) { o.spill_bytes_in_flight = 1; }},
};

const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Capacities, OptionsRule, ::testing::ValuesIn(kCapacityRules), kName);
INSTANTIATE_TEST_SUITE_P(Payloads, OptionsRule, ::testing::ValuesIn(kPayloadRules), kName);
INSTANTIATE_TEST_SUITE_P(Holds, OptionsRule, ::testing::ValuesIn(kHoldRules), kName);
INSTANTIATE_TEST_SUITE_P(Running, OptionsRule, ::testing::ValuesIn(kRunningRules), kName);

StoreOptions Checked(const StoreOptions& options) {
  auto checked = CheckOptions(options);
  EXPECT_TRUE(checked.has_value()) << checked.error().ToString();
  return checked.has_value() ? *std::move(checked) : StoreOptions{};
}

TEST(OptionsTest, DefaultsNeedNothing) { EXPECT_TRUE(CheckOptions({}).has_value()); }

TEST(OptionsTest, CapacitiesAreRoundedDown) {
  StoreOptions o = Everything();
  o.hbm_bytes += 64 * kMiB - 1;
  o.ddr_bytes += 4095;
  o.flash_bytes += 4095;
  o.disk_bytes += 4095;
  o.segment_bytes += 4095;
  o.segment_bytes_min += 4095;
  const StoreOptions checked = Checked(o);
  EXPECT_EQ(checked.hbm_bytes, 256 * kMiB);
  EXPECT_EQ(checked.ddr_bytes, kGiB);
  EXPECT_EQ(checked.flash_bytes, 4 * kGiB);
  EXPECT_EQ(checked.disk_bytes, 8 * kGiB);
  EXPECT_EQ(checked.segment_bytes, 256 * kMiB);
  EXPECT_EQ(checked.segment_bytes_min, 16 * kMiB);
}

TEST(OptionsTest, IndexHoldsTheTypicalBlocksAndAQuarterMore) {
  EXPECT_EQ(Checked(Everything()).index_entries_max, (128 + 512 + 2048 + 4096) * 5 / 4);
  StoreOptions small;
  small.payload_bytes_max = kMiB;
  small.payload_bytes_typical = kMiB;
  small.ddr_bytes = 64 * kMiB;
  EXPECT_EQ(Checked(small).index_entries_max, 1024u);
  small.index_entries_max = 3;
  EXPECT_EQ(Checked(small).index_entries_max, 3u);
}

TEST(OptionsTest, WriteBudgetIsACapacityADay) {
  StoreOptions o = Everything();
  EXPECT_EQ(Checked(o).write_bytes_per_day, 4 * kGiB);
  o.flash_bytes = 0;
  EXPECT_EQ(Checked(o).write_bytes_per_day, 8 * kGiB);
  o.write_bytes_per_day = UINT64_MAX;
  EXPECT_EQ(Checked(o).write_bytes_per_day, UINT64_MAX);
}

TEST(OptionsTest, ClassesAreSortedByTtl) {
  StoreOptions o;
  o.hold_classes = {Class("day", 24h), Class("minute", 1min), Class("hour", 1h)};
  const auto classes = Checked(o).hold_classes;
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0].name, "minute");
  EXPECT_EQ(classes[1].name, "hour");
  EXPECT_EQ(classes[2].name, "day");
}

TEST(OptionsTest, OneMessageNamesAllThatIsWrong) {
  StoreOptions o = Everything();
  o.flash_bytes = 1;
  o.disk_bytes = 1;
  o.directory.clear();
  const auto wrong = CheckOptions(o);
  ASSERT_FALSE(wrong.has_value());
  for (const std::string_view field : {"flash_bytes: 1;", "disk_bytes: 1;", "directory: empty;"}) {
    EXPECT_NE(wrong.error().message().find(field), std::string_view::npos)
        << wrong.error().message();
  }
}

TEST(OptionsTest, CheckedOptionsStayAsTheyAre) {
  const StoreOptions once = Checked(Everything());
  const StoreOptions twice = Checked(once);
  EXPECT_EQ(twice.ddr_bytes, once.ddr_bytes);
  EXPECT_EQ(twice.index_entries_max, once.index_entries_max);
  EXPECT_EQ(twice.write_bytes_per_day, once.write_bytes_per_day);
}

// What is accepted keeps its promises, whatever the combination; nothing overflows (ubsan, asan).
TEST(OptionsTest, NoCombinationIsAcceptedThatCannotWork) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto any = [&](uint64_t usual) -> uint64_t {
    switch (random() % 8) {
      case 0:
        return 0;
      case 1:
        return UINT64_MAX - random() % 3;
      case 2:
        return 1ull << (random() % 64);
      case 3:
        return random() >> (random() % 64);
      default:
        return usual;
    }
  };
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    StoreOptions o = Everything();
    o.hbm_bytes = any(o.hbm_bytes);
    o.ddr_bytes = any(o.ddr_bytes);
    o.flash_bytes = any(o.flash_bytes);
    o.disk_bytes = any(o.disk_bytes);
    o.payload_bytes_max = any(o.payload_bytes_max);
    o.payload_bytes_typical = any(o.payload_bytes_typical);
    o.index_entries_max = any(o.index_entries_max);
    o.page_bytes = any(o.page_bytes);
    o.segment_bytes = any(o.segment_bytes);
    o.segment_bytes_min = any(o.segment_bytes_min);
    o.disk_write_buffer_bytes = any(o.disk_write_buffer_bytes);
    const auto checked = CheckOptions(o);
    if (!checked.has_value()) continue;
    ++accepted;
    const uint64_t typical = FrameBytes(checked->payload_bytes_typical);
    EXPECT_EQ(checked->ddr_bytes % kPageBytes, 0u);
    EXPECT_TRUE(checked->ddr_bytes == 0 ||
                checked->ddr_bytes >= 2 * FrameBytes(checked->payload_bytes_max));
    EXPECT_TRUE(checked->flash_bytes == 0 ||
                (checked->flash_bytes / checked->segment_bytes_min >= 4 &&
                 checked->segment_bytes_min / typical >= 2));
    EXPECT_GE(checked->index_entries_max, 1u);
    EXPECT_LE(checked->index_entries_max, (1u << 26) - 1);
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace holdfast
