// flash beside a plain io_uring loop: the same file or one like it, the same memory, sizes and
// depths, O_DIRECT on both sides.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "bench/bench_store.h"
#include "bench/plain_io.h"
#include "bench/tiers_context.h"

namespace holdfast::bench {
namespace {

constexpr uint64_t kSegmentBytesMin = 16ull << 20;
constexpr double kWantedRatio = 0.9, kWantedCpu = 0.1, kWantedSharedCpu = 0.15;

void RemoveTree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// A store whose only tier is flash.
StoreOptions FlashOptions(const std::string& directory, uint64_t payload_bytes,
                          uint64_t flash_bytes) {
  StoreOptions options = BenchStoreOptions(directory, payload_bytes);
  options.flash_bytes = flash_bytes;
  options.segment_bytes_min =
      std::max(kSegmentBytesMin, RoundUp(kPageBytes + 2 * FrameBytes(payload_bytes), kPageBytes));
  options.segment_bytes = std::max(options.segment_bytes, options.segment_bytes_min);
  return options;
}

// With what is reserved and what an open segment wastes.
uint64_t CapacityFor(uint64_t bytes) {
  return RoundUp(bytes + bytes / 4, 64u << 20) + (256u << 20);
}

std::vector<Want> ReadWants(const Row& row, bool shared) {
  if (row.payload_bytes != kWantedPayloadBytes) return {};
  const std::string what = shared ? "region in /dev/shm" : "verified read";
  const std::string depth = ", " + std::to_string(row.in_flight) + " in flight";
  return {{what + ", of the plain loop" + depth, true, kWantedRatio, row.compared->ratio.median},
          {what + ", CPU s/GB" + depth, false, shared ? kWantedSharedCpu : kWantedCpu,
           row.compared->store.cpu_seconds_per_gigabyte}};
}

// Cold blocks into memory of one kind, at every depth.
Status BenchReads(const TiersContext& context, const std::string& directory, bool shared,
                  uint64_t payload_bytes) {
  const TiersBenchOptions& options = context.options;
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<PayloadMemory> memory,
      PayloadMemory::Create(shared ? PayloadMemory::Kind::kShared : PayloadMemory::Kind::kHugePages,
                            payload_bytes, WindowSlots(payload_bytes)));
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchStore> store,
      BenchStore::Open(FlashOptions(directory, payload_bytes, CapacityFor(options.size_bytes)),
                       *memory, options.seed));
  context.report.flash_engine = store->store().Stats().tiers[2].engine;
  const size_t count = std::max<size_t>(options.size_bytes / FrameBytes(payload_bytes), 16);
  HF_ASSIGN_OR_RETURN(const Blocks blocks, store->Keys(0, count));
  if (store->store().Stats().entries == 0) {  // else the pass over the other memory filled it
    HF_RETURN_IF_ERROR(store->Fill(blocks));
    HF_RETURN_IF_ERROR(store->Drain());
  }
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<PlainIo> plain,
                      PlainIo::Open(directory + "/flash", options.size_bytes, /*create=*/false));
  for (const uint32_t in_flight : options.in_flight) {
    Row row = {.tier = "flash",
               .op = shared ? "read_shared" : "read",
               .against = shared ? "plain io_uring, header page and row" : "plain io_uring",
               .in_flight = in_flight,
               .payload_bytes = payload_bytes};
    HF_RETURN_IF_ERROR(context.Begin(row));
    const Drive drive = {
        .in_flight = in_flight, .time_max = options.cell, .next = RandomOrder(count, options.seed)};
    HF_ASSIGN_OR_RETURN(row.compared, Compare(
                                          options.rounds, [&] { return store->Run(blocks, drive); },
                                          [&] {
                                            return plain->Read({.memory = *memory,
                                                                .in_flight = in_flight,
                                                                .time_max = options.cell,
                                                                .seed = options.seed,
                                                                .header = shared});
                                          }));
    HF_RETURN_IF_ERROR(store->Verify(blocks, Content::kOwn, /*all=*/true));
    row.figures = {{"bounced", static_cast<double>(store->store().Stats().bounced)}};
    row.wants = ReadWants(row, shared);
    context.Add(std::move(row));
  }
  return {};
}

Status BenchWrites(const TiersContext& context, const std::string& directory,
                   uint64_t payload_bytes) {
  const TiersBenchOptions& options = context.options;
  // Segments as large as the plain loop's stretch between two fdatasyncs.
  const uint64_t flash_bytes = std::max<uint64_t>(8 * options.write_bytes, 256ull << 20);
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<PayloadMemory> memory,
                      PayloadMemory::Create(PayloadMemory::Kind::kHugePages, payload_bytes,
                                            WindowSlots(payload_bytes)));
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchStore> store,
      BenchStore::Open(FlashOptions(directory, payload_bytes, flash_bytes), *memory, options.seed));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<PlainIo> plain,
                      PlainIo::Open(directory + "/plain", flash_bytes, /*create=*/true));
  const uint64_t rounds_bytes = options.rounds * options.in_flight.size() * options.write_bytes;
  HF_ASSIGN_OR_RETURN(const Blocks blocks,
                      store->Keys(0, 2 * (rounds_bytes + flash_bytes) / payload_bytes));
  store->FillPattern();
  const std::function<size_t()> next = InOrder();  // each block once, over all depths
  for (const uint32_t in_flight : options.in_flight) {
    Row row = {.tier = "flash",
               .op = "write",
               .against = "plain io_uring, fdatasync each 256 MiB",
               .in_flight = in_flight,
               .payload_bytes = payload_bytes};
    HF_RETURN_IF_ERROR(context.Begin(row));
    const Drive drive = {.put = true,
                         .in_flight = in_flight,
                         .bytes_max = options.write_bytes,
                         .next = [&next] { return next(); },
                         .durable = true};
    HF_ASSIGN_OR_RETURN(row.compared, Compare(
                                          options.rounds, [&] { return store->Run(blocks, drive); },
                                          [&] {
                                            return plain->Write({.memory = *memory,
                                                                 .in_flight = in_flight,
                                                                 .bytes_max = options.write_bytes});
                                          }));
    HF_RETURN_IF_ERROR(store->Verify(blocks, Content::kStamped, /*all=*/false));
    store->FillPattern();
    if (payload_bytes == kWantedPayloadBytes) {
      row.wants = {{"durable write, of the plain loop, " + std::to_string(in_flight) + " in flight",
                    true, kWantedRatio, row.compared->ratio.median},
                   {"durable write, CPU s/GB, " + std::to_string(in_flight) + " in flight", false,
                    kWantedCpu, row.compared->store.cpu_seconds_per_gigabyte}};
    }
    context.Add(std::move(row));
  }
  return {};
}

}  // namespace

Status BenchFlashReads(const TiersContext& context) {
  for (const uint64_t payload_bytes : context.options.payload_bytes) {
    const std::string directory = context.Path("flash-read");
    for (const bool shared : {false, true}) {
      HF_RETURN_IF_ERROR(BenchReads(context, directory, shared, payload_bytes));
    }
    RemoveTree(directory);
  }
  return {};
}

Status BenchFlashWrites(const TiersContext& context) {
  for (const uint64_t payload_bytes : context.options.payload_bytes) {
    const std::string directory = context.Path("flash-write");
    HF_RETURN_IF_ERROR(BenchWrites(context, directory, payload_bytes));
    RemoveTree(directory);
  }
  return {};
}

}  // namespace holdfast::bench
