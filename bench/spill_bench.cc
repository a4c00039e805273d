// Reads of flash beside a running spill, one at a time: what a prompt that hits pays while others
// are written down, with the durable rate of the spill beside it.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "bench/bench_store.h"
#include "bench/tiers_context.h"
#include "kvstore/environment.h"

namespace holdfast::bench {
namespace {

constexpr double kGiga = 1e9;
constexpr uint64_t kDdrBytes = 256ull << 20;
constexpr Duration kSettle = std::chrono::seconds(1);
constexpr Hold kHold = {.ttl = std::chrono::hours(1)};  // keeps what is read out of the log's way

// Puts without end from a thread of its own, so that ddr always has something to spill.
class Writer {
 public:
  Writer(BenchStore& store, const PayloadMemory& source) : store_(store), source_(source) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { Stop(); }

  Status Start(const Blocks& blocks, size_t* next) {
    stop_ = false;
    join_ = SystemThreads()("bench-writer", [this, blocks, next] { Loop(blocks, next); });
    return join_ ? Status() : Status(StatusCode::kResourceExhausted, "no thread for the writer");
  }
  void Stop() {
    stop_ = true;
    if (join_) std::exchange(join_, nullptr)();
  }
  uint64_t declined() const noexcept { return declined_; }

 private:
  void Loop(const Blocks& blocks, size_t* next) {
    for (; !stop_; ++*next) {
      const size_t slot = *next % source_.slots();
      const Extent piece = {source_.slot(slot).data(), source_.payload_bytes()};
      constexpr std::array<uint32_t, 2> kBegin = {0, 1};
      Item item = Item::kPending;
      const Result<size_t> put = store_.store().Put(
          blocks.Slice(*next % blocks.size(), 1),
          {.kind = Memory::Kind::kExtents, .extents = {&piece, 1}, .extent_begin = kBegin}, {},
          std::span(&item, 1));
      if (!put.has_value()) return;
      if (item == Item::kDeclined) ++declined_;
    }
  }

  BenchStore& store_;
  const PayloadMemory& source_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> declined_{0};
  std::function<void()> join_;
};

struct Rig {
  std::unique_ptr<PayloadMemory> window, source;
  std::unique_ptr<BenchStore> store;
  Blocks cold, fresh;
  size_t next_fresh = 0;
};

StoreOptions SpillOptions(const TiersContext& context, uint64_t payload_bytes, bool pause) {
  StoreOptions options = BenchStoreOptions(context.Path("flash-spill"), payload_bytes);
  options.ddr_bytes =
      std::min(kDdrBytes, std::max<uint64_t>(context.options.size_bytes / 2, 128u << 20));
  options.flash_bytes = 4 * context.options.size_bytes + (256ull << 20);
  options.pause_spills_for_fetches = pause;
  return options;
}

Result<Rig> MakeRig(const TiersContext& context, uint64_t payload_bytes, bool pause) {
  Rig rig;
  const StoreOptions options = SpillOptions(context, payload_bytes, pause);
  const auto kind = PayloadMemory::Kind::kHugePages;
  HF_ASSIGN_OR_RETURN(rig.window,
                      PayloadMemory::Create(kind, payload_bytes, WindowSlots(payload_bytes)));
  HF_ASSIGN_OR_RETURN(rig.source,
                      PayloadMemory::Create(kind, payload_bytes, WindowSlots(payload_bytes)));
  HF_ASSIGN_OR_RETURN(rig.store, BenchStore::Open(options, *rig.window, context.options.seed));
  // A quarter of flash, under its hold's budget; then enough on top that ddr holds none of it.
  HF_ASSIGN_OR_RETURN(rig.cold,
                      rig.store->Keys(0, context.options.size_bytes / FrameBytes(payload_bytes)));
  HF_RETURN_IF_ERROR(rig.store->Fill(rig.cold, kHold));
  HF_RETURN_IF_ERROR(rig.store->Drain());
  HF_ASSIGN_OR_RETURN(rig.fresh, rig.store->Keys(1ull << 40, 1u << 20));
  const size_t flood = 2 * options.ddr_bytes / FrameBytes(payload_bytes);
  HF_RETURN_IF_ERROR(rig.store->Fill(rig.fresh.Slice(0, flood)));
  rig.next_fresh = flood;
  std::vector<Where> where(rig.cold.size());
  rig.store->store().Find(rig.cold, where);
  if (std::any_of(where.begin(), where.end(), [](Where w) { return w != Where::kFlash; })) {
    return Status(StatusCode::kFailedPrecondition, "flash: a block to read is not cold");
  }
  return rig;
}

uint64_t DurableBytes(BenchStore& store) {
  const TierStats stats = store.store().Stats().tiers[2];
  return stats.written_bytes - std::min(stats.undurable_bytes, stats.written_bytes);
}

Status BenchPause(const TiersContext& context, uint64_t payload_bytes, bool pause) {
  Row row = {.tier = "flash",
             .op = pause ? "read_beside_paused_spill" : "read_beside_spill",
             .against = "the same reads alone",
             .payload_bytes = payload_bytes};
  HF_RETURN_IF_ERROR(context.Begin(row));
  HF_ASSIGN_OR_RETURN(Rig rig, MakeRig(context, payload_bytes, pause));
  const TiersBenchOptions& options = context.options;
  const Duration time = 4 * options.cell;  // a spill needs some to reach its stride
  const Drive drive = {.time_max = time, .next = RandomOrder(rig.cold.size(), options.seed)};
  std::vector<double> spill_rates;
  Writer writer(*rig.store, *rig.source);
  const MeasureSide beside = [&]() -> Result<Sample> {
    HF_RETURN_IF_ERROR(writer.Start(rig.fresh, &rig.next_fresh));
    const uint64_t before = DurableBytes(*rig.store);
    Result<Sample> sample = rig.store->Run(rig.cold, drive);
    const uint64_t after = DurableBytes(*rig.store);
    writer.Stop();
    if (sample.has_value()) {
      const double seconds = std::chrono::duration<double>(sample->took).count();
      spill_rates.push_back(static_cast<double>(after - before) / seconds / kGiga);
    }
    // What is left over would run into the reads alone. Spills that end after the flush was asked
    // for become durable in their own time: that is not waited for.
    rig.store->store()
        .Drain(Clock::System().Now() + kSettle)
        .IgnoreError("what is still undurable disturbs no read");
    return sample;
  };
  HF_ASSIGN_OR_RETURN(row.compared, Compare(options.rounds, beside,
                                            [&] { return rig.store->Run(rig.cold, drive); }));
  HF_RETURN_IF_ERROR(rig.store->Verify(rig.cold, Content::kOwn, /*all=*/true));
  const double slower = static_cast<double>(row.compared->store.p50.count()) /
                        static_cast<double>(row.compared->limit.p50.count());
  row.figures = {{"latency_p50_ratio", slower},
                 {"spill_durable_gigabytes_per_second", SpreadOf(spill_rates).median},
                 {"puts_declined", static_cast<double>(writer.declined())}};
  if (payload_bytes == kWantedPayloadBytes) {
    const std::string what = pause ? "read beside a paused spill" : "read beside a spill";
    row.wants = {
        {what + ", p50 of alone", false, pause ? 1.3 : 1.6, slower},
        {what + ", throughput of alone", true, pause ? 0.6 : 0.3, row.compared->ratio.median}};
  }
  context.Add(std::move(row));
  return {};
}

}  // namespace

Status BenchBesideSpill(const TiersContext& context) {
  for (const uint64_t payload_bytes : context.options.payload_bytes) {
    for (const bool pause : {false, true}) {
      HF_RETURN_IF_ERROR(BenchPause(context, payload_bytes, pause));
      std::error_code ignored;
      std::filesystem::remove_all(context.Path("flash-spill"), ignored);
    }
  }
  return {};
}

}  // namespace holdfast::bench
