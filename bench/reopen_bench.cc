// Reopening: how long Store::Open takes over what an earlier store left on flash or disk.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "bench/bench_store.h"
#include "bench/tiers_context.h"

namespace holdfast::bench {
namespace {

constexpr uint64_t kPayloadBytes = 1u << 20;
constexpr double kWantedDiskSeconds = 1;
constexpr double kBytesPerGiB = 1u << 30;

StoreOptions OptionsFor(const TiersContext& context, bool disk) {
  StoreOptions options = BenchStoreOptions(context.Path("reopen"), kPayloadBytes);
  const uint64_t bytes = context.options.reopen_bytes + context.options.reopen_bytes / 4;
  if (disk) {
    options.disk_bytes = bytes + 2 * options.disk_write_buffer_bytes;
  } else {
    options.flash_bytes = bytes + (256ull << 20);
  }
  return options;
}

Status Bench(const TiersContext& context, bool disk) {
  Row row = {.tier = disk ? "disk" : "flash", .op = "reopen", .payload_bytes = kPayloadBytes};
  HF_RETURN_IF_ERROR(context.Begin(row));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<PayloadMemory> memory,
                      PayloadMemory::Create(PayloadMemory::Kind::kHugePages, kPayloadBytes,
                                            WindowSlots(kPayloadBytes)));
  const StoreOptions options = OptionsFor(context, disk);
  const size_t count = context.options.reopen_bytes / FrameBytes(kPayloadBytes);
  const auto open = [&] { return BenchStore::Open(options, *memory, context.options.seed); };
  uint64_t entries = 0;
  {
    HF_ASSIGN_OR_RETURN(const std::unique_ptr<BenchStore> store, open());
    HF_ASSIGN_OR_RETURN(const Blocks blocks, store->Keys(0, count));
    HF_RETURN_IF_ERROR(store->Fill(blocks));
    HF_RETURN_IF_ERROR(store->Drain());
    entries = store->store().Stats().entries;
  }
  std::vector<double> seconds;
  for (uint32_t round = 0; round < context.options.rounds; ++round) {
    const Instant started = Clock::System().Now();
    HF_ASSIGN_OR_RETURN(const std::unique_ptr<BenchStore> store, open());
    seconds.push_back(std::chrono::duration<double>(Clock::System().Now() - started).count());
    if (store->store().Stats().entries != entries) {
      return {StatusCode::kDataLoss, row.tier + ": reopened with " +
                                         std::to_string(store->store().Stats().entries) +
                                         " blocks of " + std::to_string(entries)};
    }
    if (round > 0) continue;
    HF_ASSIGN_OR_RETURN(const Blocks blocks, store->Keys(0, count));
    HF_RETURN_IF_ERROR(store->Verify(blocks, Content::kOwn, /*all=*/true));
  }
  const Spread took = SpreadOf(seconds);
  const double gibibytes = static_cast<double>(entries * kPayloadBytes) / kBytesPerGiB;
  row.figures = {{"kept_gib", gibibytes},
                 {"reopen_seconds", took.median},
                 {"reopen_least_seconds", took.least},
                 {"reopen_most_seconds", took.most}};
  if (disk) {
    row.wants = {{"reopening " + std::to_string(context.options.reopen_bytes >> 30) +
                      " GiB of disk, seconds",
                  false, kWantedDiskSeconds, took.median}};
  }
  context.Add(std::move(row));
  return {};
}

}  // namespace

Status BenchReopen(const TiersContext& context) {
  for (const bool disk : {true, false}) {
    if (disk ? !context.options.disk : !context.options.flash) continue;
    HF_RETURN_IF_ERROR(Bench(context, disk));
    std::error_code ignored;
    std::filesystem::remove_all(context.Path("reopen"), ignored);
  }
  return {};
}

}  // namespace holdfast::bench
