// ddr beside memcpy between the same kinds of memory, and views, which copy nothing.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "bench/bench_store.h"
#include "bench/tiers_context.h"

namespace holdfast::bench {
namespace {

constexpr double kWantedRead = 0.9, kWantedWrite = 0.7, kWantedViewMicros = 1.0;
constexpr double kNanosPerMicro = 1e3;

// One payload size: a store, the window of its caller, and as much memory again to copy from.
struct Rig {
  std::unique_ptr<PayloadMemory> window, source;
  std::unique_ptr<BenchStore> store;
  Blocks resident;
  std::vector<Item> items;
};

Result<Rig> MakeRig(const TiersContext& context, uint64_t payload_bytes) {
  Rig rig;
  const size_t count = std::max<size_t>(context.options.size_bytes / FrameBytes(payload_bytes),
                                        WindowSlots(payload_bytes));
  HF_ASSIGN_OR_RETURN(rig.window, PayloadMemory::Create(PayloadMemory::Kind::kHugePages,
                                                        payload_bytes, WindowSlots(payload_bytes)));
  HF_ASSIGN_OR_RETURN(rig.source,
                      PayloadMemory::Create(PayloadMemory::Kind::kHugePages, payload_bytes, count));
  StoreOptions options = BenchStoreOptions({}, payload_bytes);
  // Pages hold whole frames; a few are kept in reserve.
  const uint64_t frames_a_page = options.page_bytes / FrameBytes(payload_bytes);
  options.ddr_bytes = (count / frames_a_page + 4) * options.page_bytes;
  HF_ASSIGN_OR_RETURN(rig.store, BenchStore::Open(options, *rig.window, context.options.seed));
  HF_ASSIGN_OR_RETURN(rig.resident, rig.store->Keys(0, count));
  HF_RETURN_IF_ERROR(rig.store->Fill(rig.resident));
  rig.items.resize(rig.window->slots());
  return rig;
}

// Runs `one` until the time is up; each call moves `bytes`.
template <typename Fn>
Result<Sample> Loop(Duration time, uint64_t bytes, Fn&& one) {
  Sample sample;
  const Meter meter;
  Instant before = Clock::System().Now();
  const Instant end = before + time;
  while (before < end) {
    HF_RETURN_IF_ERROR(one());
    const Instant now = Clock::System().Now();
    sample.latencies.push_back(now - before);
    sample.bytes += bytes;
    before = now;
  }
  meter.Stop(sample);
  return sample;
}

Status AllDone(std::span<const Item> items) {
  for (const Item item : items) {
    if (item != Item::kDone) {
      return {StatusCode::kFailedPrecondition,
              "ddr: a block ended as " + std::string(ToString(item))};
    }
  }
  return {};
}

// Windows of `batch` slots, one after the other.
class Windows {
 public:
  Windows(const PayloadMemory& memory, size_t batch)
      : windows_(memory.slots() / batch), batch_(batch) {}
  size_t Next() noexcept { return (next_++ % windows_) * batch_; }

 private:
  size_t windows_, batch_, next_ = 0;
};

Result<Comparison> CompareReads(const TiersContext& context, Rig& rig, size_t batch) {
  const uint64_t payload_bytes = rig.window->payload_bytes();
  const std::span<Item> items = std::span(rig.items).first(batch);
  const auto order = RandomOrder(rig.resident.size() / batch, context.options.seed);
  Windows windows(*rig.window, batch);
  const MeasureSide store = [&] {
    return Loop(context.options.cell, batch * payload_bytes, [&]() -> Status {
      const Blocks part = rig.resident.Slice(order() * batch, batch);
      const Result<size_t> done = rig.store->store().Fetch(
          part, rig.store->slots(windows.Next(), batch), rig.store->fetch_options(), items);
      if (!done.has_value()) return done.error();
      return AllDone(items);
    });
  };
  const MeasureSide copy = [&] {
    return Loop(context.options.cell, batch * payload_bytes, [&]() -> Status {
      const size_t from = order() * batch, to = windows.Next();
      for (size_t i = 0; i < batch; ++i) {
        std::memcpy(rig.window->slot(to + i).data(), rig.source->slot(from + i).data(),
                    payload_bytes);
      }
      return {};
    });
  };
  HF_ASSIGN_OR_RETURN(Comparison compared, Compare(context.options.rounds, store, copy));
  HF_RETURN_IF_ERROR(rig.store->Verify(rig.resident, Content::kOwn, /*all=*/true));
  return compared;
}

// New keys all the time: each put takes the place of the block that was used longest ago.
Result<Comparison> CompareWrites(const TiersContext& context, Rig& rig, size_t batch) {
  const uint64_t payload_bytes = rig.window->payload_bytes();
  const size_t count = rig.source->slots();
  constexpr size_t kLaps = 4;  // a key comes again long after its block went
  HF_ASSIGN_OR_RETURN(const Blocks fresh,
                      rig.store->Keys((batch + 1) << 32, kLaps * count / batch * batch));
  const std::span<Item> items = std::span(rig.items).first(batch);
  const auto order = InOrder();
  rig.store->FillPattern();
  Windows windows(*rig.window, batch);
  size_t first = 0;
  const MeasureSide store = [&] {
    return Loop(context.options.cell, batch * payload_bytes, [&]() -> Status {
      const size_t slot = windows.Next();
      for (size_t i = 0; i < batch; ++i) rig.store->Stamp(slot + i, first + i);
      const Result<size_t> done = rig.store->store().Put(fresh.Slice(first, batch),
                                                         rig.store->slots(slot, batch), {}, items);
      if (!done.has_value()) return done.error();
      first = (first + batch) % fresh.size();
      return AllDone(items);
    });
  };
  const MeasureSide copy = [&] {
    return Loop(context.options.cell, batch * payload_bytes, [&]() -> Status {
      const size_t from = windows.Next();
      for (size_t i = 0; i < batch; ++i) {
        std::memcpy(rig.source->slot(order() % count).data(), rig.window->slot(from + i).data(),
                    payload_bytes);
      }
      return {};
    });
  };
  HF_ASSIGN_OR_RETURN(Comparison compared, Compare(context.options.rounds, store, copy));
  HF_RETURN_IF_ERROR(rig.store->Verify(fresh, Content::kStamped, /*all=*/false));
  return compared;
}

// Submit, poll, look at the first byte, give back.
Result<std::vector<Duration>> TimeViews(const TiersContext& context, Rig& rig,
                                        CompletionQueue& queue) {
  const auto order = RandomOrder(rig.resident.size(), context.options.seed);
  FetchOptions options = rig.store->fetch_options();
  options.keep = true;
  std::vector<Duration> latencies;
  Item item = Item::kPending;
  const Instant end = Clock::System().Now() + context.options.cell;
  for (Instant before = Clock::System().Now(); before < end;) {
    const Blocks one = rig.resident.Slice(order(), 1);
    before = Clock::System().Now();
    const Result<OpId> op = rig.store->store().SubmitFetch(one, {.kind = Memory::Kind::kArena},
                                                           options, &queue, 0, std::span(&item, 1));
    if (!op.has_value()) return op.error();
    std::array<Completion, 1> done;
    queue.Poll(done, Instant::max());
    const std::span<const std::byte> view = done[0].views.view(0);
    if (item != Item::kDone || view.size() != options.payload_bytes) {
      return Status(StatusCode::kFailedPrecondition, "ddr: a view was not given");
    }
    done[0] = {};
    latencies.push_back(Clock::System().Now() - before);
  }
  return latencies;
}

Status BenchViews(const TiersContext& context, Rig& rig) {
  Row row = {.tier = "ddr", .op = "view", .payload_bytes = rig.window->payload_bytes()};
  HF_RETURN_IF_ERROR(context.Begin(row));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<CompletionQueue> queue, CompletionQueue::Create(4));
  std::vector<double> medians;
  std::vector<Duration> all;
  for (uint32_t round = 0; round < context.options.rounds; ++round) {
    HF_ASSIGN_OR_RETURN(std::vector<Duration> latencies, TimeViews(context, rig, *queue));
    medians.push_back(static_cast<double>(Quantile(latencies, 0.5).count()) / kNanosPerMicro);
    all.insert(all.end(), latencies.begin(), latencies.end());
  }
  const Spread p50 = SpreadOf(medians);
  row.figures = {
      {"latency_p50_us", p50.median},
      {"latency_p50_least_us", p50.least},
      {"latency_p50_most_us", p50.most},
      {"latency_p99_us", static_cast<double>(Quantile(all, 0.99).count()) / kNanosPerMicro}};
  row.wants = {{"view, p50 in us", false, kWantedViewMicros, p50.median}};
  context.Add(std::move(row));
  return {};
}

}  // namespace

Status BenchDdr(const TiersContext& context) {
  for (const uint64_t payload_bytes : context.options.payload_bytes) {
    Result<Rig> made = MakeRig(context, payload_bytes);
    if (!made.has_value()) return std::move(made).error().WithContext("ddr");
    Rig& rig = *made;
    HF_RETURN_IF_ERROR(BenchViews(context, rig));
    for (const bool write : {false, true}) {  // writes push what is read out
      for (const uint32_t batch : context.options.in_flight) {
        Row row = {.tier = "ddr",
                   .op = write ? "write" : "read",
                   .against = "memcpy",
                   .in_flight = batch,
                   .payload_bytes = payload_bytes};
        HF_RETURN_IF_ERROR(context.Begin(row));
        HF_ASSIGN_OR_RETURN(row.compared, write ? CompareWrites(context, rig, batch)
                                                : CompareReads(context, rig, batch));
        if (payload_bytes == kWantedPayloadBytes) {
          row.wants = {{write ? "put with checksum, of memcpy" : "hit, of memcpy", true,
                        write ? kWantedWrite : kWantedRead, row.compared->ratio.median}};
        }
        context.Add(std::move(row));
      }
    }
    context.report.ddr_engine = rig.store->store().Stats().tiers[1].engine;
  }
  return {};
}

}  // namespace holdfast::bench
