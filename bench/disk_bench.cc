// disk beside RocksDB's own Put and Get: with the options of the tier, and as delivered.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "bench/bench_store.h"
#include "bench/plain_rocksdb.h"
#include "bench/tiers_context.h"

namespace holdfast::bench {
namespace {

constexpr double kWantedTuned = 0.8, kWantedDelivered = 5;
constexpr uint32_t kDeliveredRoundsMax = 3;  // at a tenth of the speed

struct Rig {
  std::unique_ptr<PayloadMemory> window, source;
  std::unique_ptr<BenchStore> store;
  std::unique_ptr<PlainRocksDb> tuned, delivered;
  uint32_t disk_threads = 1;
  uint64_t write_bytes = 0;
  Blocks blocks;
  size_t next = 0;
};

Result<Rig> MakeRig(const TiersContext& context, const std::string& directory,
                    uint64_t payload_bytes) {
  const TiersBenchOptions& options = context.options;
  Rig rig;
  rig.write_bytes = std::max<uint64_t>(options.write_bytes / 2, 4 * payload_bytes);
  const auto kind = PayloadMemory::Kind::kHugePages;
  HF_ASSIGN_OR_RETURN(rig.window,
                      PayloadMemory::Create(kind, payload_bytes, WindowSlots(payload_bytes)));
  HF_ASSIGN_OR_RETURN(rig.source,
                      PayloadMemory::Create(kind, payload_bytes, WindowSlots(payload_bytes)));
  StoreOptions store = BenchStoreOptions(directory + "/store", payload_bytes);
  const uint64_t all_bytes =
      (options.rounds + kDeliveredRoundsMax + 1) * options.in_flight.size() * rig.write_bytes;
  store.disk_bytes = 2 * all_bytes + 2 * store.disk_write_buffer_bytes;
  rig.disk_threads = store.disk_threads;
  HF_ASSIGN_OR_RETURN(rig.store, BenchStore::Open(store, *rig.window, options.seed));
  context.report.disk_engine = rig.store->store().Stats().tiers[3].engine;
  HF_ASSIGN_OR_RETURN(
      rig.tuned, PlainRocksDb::Open(directory + "/tuned", true, store.disk_write_buffer_bytes));
  HF_ASSIGN_OR_RETURN(rig.delivered, PlainRocksDb::Open(directory + "/delivered", false, 0));
  HF_ASSIGN_OR_RETURN(rig.blocks, rig.store->Keys(0, 2 * all_bytes / payload_bytes));
  rig.store->FillPattern();
  for (size_t i = 0; i < rig.source->slots(); ++i) {
    std::ranges::copy(rig.window->slot(i), rig.source->slot(i).begin());
    rig.source->slot(i)[0] = static_cast<std::byte>(i);
  }
  return rig;
}

Result<Comparison> CompareWrites(Rig& rig, const Row& row, PlainRocksDb& other, uint32_t rounds) {
  const Drive drive = {.put = true,
                       .in_flight = row.in_flight,
                       .bytes_max = rig.write_bytes,
                       .next = [&rig] { return rig.next++; },
                       .durable = true};
  const RocksRun run = {.memory = *rig.source,
                        .threads = std::min(row.in_flight, rig.disk_threads),
                        .bytes_max = rig.write_bytes};
  HF_ASSIGN_OR_RETURN(Comparison compared,
                      Compare(
                          rounds, [&] { return rig.store->Run(rig.blocks, drive); },
                          [&] { return other.Put(run); }));
  HF_RETURN_IF_ERROR(
      rig.store->Verify(rig.blocks.Slice(0, rig.next), Content::kStamped, /*all=*/true));
  rig.store->FillPattern();
  return compared;
}

Result<Comparison> CompareReads(const TiersContext& context, Rig& rig, const Row& row,
                                PlainRocksDb& other) {
  const TiersBenchOptions& options = context.options;
  const Drive drive = {.in_flight = row.in_flight,
                       .time_max = options.cell,
                       .next = RandomOrder(rig.next, options.seed)};
  const RocksRun run = {.memory = *rig.source,
                        .threads = std::min(row.in_flight, rig.disk_threads),
                        .time_max = options.cell,
                        .seed = options.seed};
  HF_ASSIGN_OR_RETURN(Comparison compared,
                      Compare(
                          options.rounds, [&] { return rig.store->Run(rig.blocks, drive); },
                          [&] {
                            other.DropPageCache();
                            return other.Get(run);
                          }));
  HF_RETURN_IF_ERROR(
      rig.store->Verify(rig.blocks.Slice(0, rig.next), Content::kStamped, /*all=*/true));
  rig.store->FillPattern();
  return compared;
}

Status BenchOne(const TiersContext& context, Rig& rig, Row row, bool delivered) {
  PlainRocksDb& other = delivered ? *rig.delivered : *rig.tuned;
  const bool write = row.op == "write";
  row.against = delivered ? "RocksDB as delivered" : "RocksDB, the tier's options";
  HF_RETURN_IF_ERROR(context.Begin(row));
  const uint32_t rounds =
      delivered ? std::min(context.options.rounds, kDeliveredRoundsMax) : context.options.rounds;
  HF_ASSIGN_OR_RETURN(row.compared, write ? CompareWrites(rig, row, other, rounds)
                                          : CompareReads(context, rig, row, other));
  row.figures = {{"limit_threads", std::min(row.in_flight, rig.disk_threads) * 1.0}};
  if (row.payload_bytes == kWantedPayloadBytes && (write || !delivered)) {
    const std::string verb = write ? "durable put" : "get";
    row.wants = {
        {verb + ", of " + row.against + ", " + std::to_string(row.in_flight) + " in flight", true,
         delivered ? kWantedDelivered : kWantedTuned, row.compared->ratio.median}};
  }
  if (delivered) row.op += "_as_delivered";
  context.Add(std::move(row));
  return {};
}

Status BenchPayload(const TiersContext& context, const std::string& directory,
                    uint64_t payload_bytes) {
  HF_ASSIGN_OR_RETURN(Rig rig, MakeRig(context, directory, payload_bytes));
  for (const char* op : {"write", "read"}) {
    for (const uint32_t in_flight : context.options.in_flight) {
      const Row row = {
          .tier = "disk", .op = op, .in_flight = in_flight, .payload_bytes = payload_bytes};
      for (const bool delivered : {false, true}) {
        HF_RETURN_IF_ERROR(BenchOne(context, rig, row, delivered));
      }
    }
  }
  return {};
}

}  // namespace

Status BenchDisk(const TiersContext& context) {
  const std::string directory = context.Path("disk");
  for (const uint64_t payload_bytes : context.options.payload_bytes) {
    std::error_code ignored;
    std::filesystem::create_directories(directory, ignored);
    HF_RETURN_IF_ERROR(BenchPayload(context, directory, payload_bytes));
    std::filesystem::remove_all(directory, ignored);
  }
  return {};
}

}  // namespace holdfast::bench
