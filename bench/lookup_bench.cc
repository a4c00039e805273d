// Look-ups: FindPrefix under a lease, then Touch, among a million blocks and more; and how long the
// store's lock is held under a mixed load.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/prompts.h"
#include "bench/tiers_context.h"
#include "kvstore/environment.h"

namespace holdfast::bench {
namespace {

constexpr size_t kLargeBlocks = 10'000'000;
constexpr double kWantedNanos = 100, kWantedLargeNanos = 150, kWantedBlockBytes = 128;
constexpr double kWantedLockMicros = 100;
constexpr double kNanosPerMicro = 1e3;

double Nanos(Duration duration) { return static_cast<double>(duration.count()); }

// Runs `work` in that many threads; the first error of any.
Status InThreads(uint32_t threads, const std::function<Status(uint32_t)>& work) {
  std::vector<Status> statuses(threads);
  std::vector<std::function<void()>> joins;
  for (uint32_t i = 0; i < threads; ++i) {
    joins.push_back(SystemThreads()("bench-lookup", [&, i] { statuses[i] = work(i); }));
  }
  for (const auto& join : joins) {
    if (join) join();
  }
  Status first;
  for (Status& status : statuses) {
    if (!status.ok() && first.ok()) first = status;
  }
  return first;
}

// Nanoseconds of one round, by blocks looked up in all threads together.
Result<double> TimeLookUps(const TiersContext& context, const Prompts& prompts, uint32_t threads,
                           uint64_t round) {
  std::atomic<uint64_t> blocks{0};
  const Instant started = Clock::System().Now();
  const Instant end = started + context.options.cell;
  const auto look_up = [&](uint32_t thread) -> Status {
    ChainOrder order(prompts.chains.size(), context.options.seed + round * threads + thread);
    uint64_t own = 0;
    for (uint64_t request = 1; request == 1 || Clock::System().Now() < end; ++request) {
      const Blocks& chain = prompts.chains[order.Next()];
      HF_RETURN_IF_ERROR(
          LookUp(*prompts.store, chain, (round << 40) + (uint64_t{thread} << 32) + request));
      own += chain.size();
    }
    blocks += own;
    return {};
  };
  HF_RETURN_IF_ERROR(InThreads(threads, look_up));
  return Nanos(Clock::System().Now() - started) / static_cast<double>(blocks.load());
}

std::string InMillions(size_t blocks) { return std::to_string(blocks / 1'000'000) + " M"; }

Status BenchCount(const TiersContext& context, size_t blocks) {
  Row row = {.tier = "index", .op = blocks >= kLargeBlocks ? "look_up_large" : "look_up"};
  HF_RETURN_IF_ERROR(context.Begin(row));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<Prompts> prompts,
                      MakePrompts({.blocks = blocks, .seed = context.options.seed}));
  std::vector<double> alone, both;
  for (uint32_t round = 0; round < context.options.rounds; ++round) {
    HF_ASSIGN_OR_RETURN(const double one, TimeLookUps(context, *prompts, 1, round));
    HF_ASSIGN_OR_RETURN(const double two, TimeLookUps(context, *prompts, 2, round + 1000));
    alone.push_back(one);
    both.push_back(two);
  }
  const StoreStats stats = prompts->store->Stats();
  const double resident = static_cast<double>(prompts->blocks());
  const double block_bytes = static_cast<double>(stats.memory_bytes) / resident;
  const Spread one = SpreadOf(alone), two = SpreadOf(both);
  row.figures = {
      {"resident_blocks", resident},
      {"find_and_touch_per_block_ns", one.median},
      {"find_and_touch_per_block_least_ns", one.least},
      {"find_and_touch_per_block_most_ns", one.most},
      {"two_threads_per_block_ns", two.median},
      {"hashing_16_tokens_per_block_ns", Nanos(prompts->hashing) / resident},
      {"bookkeeping_per_block_bytes", block_bytes},
      {"process_growth_per_block_bytes", static_cast<double>(prompts->resident_bytes) / resident},
      {"lock_hold_p9999_us", Nanos(stats.lock_hold.Quantile(0.9999)) / kNanosPerMicro},
      {"lock_hold_max_us", Nanos(stats.lock_hold.max()) / kNanosPerMicro}};
  row.wants = {{"FindPrefix and Touch, ns a block at " + InMillions(blocks), false,
                blocks >= kLargeBlocks ? kWantedLargeNanos : kWantedNanos, one.median},
               {"memory a block at " + InMillions(blocks) + ", bytes", false, kWantedBlockBytes,
                block_bytes}};
  context.Add(std::move(row));
  return {};
}

// One thread looks up, one puts chains that push others out.
Status MixedLoad(const TiersContext& context, const Prompts& prompts,
                 const std::vector<Blocks>& fresh) {
  const Instant end = Clock::System().Now() + context.options.rounds * 2 * context.options.cell;
  return InThreads(2, [&](uint32_t thread) -> Status {
    ChainOrder order(prompts.chains.size(), context.options.seed);
    std::vector<Item> items(Prompts::kChainBlocks);
    for (uint64_t i = 0; Clock::System().Now() < end; ++i) {
      if (thread == 0) {
        HF_RETURN_IF_ERROR(PutWithoutBytes(*prompts.store, fresh[i % fresh.size()]));
        continue;
      }
      const Blocks& chain = prompts.chains[order.Next()];
      const Match match = prompts.store->FindPrefix(chain, 0, std::chrono::seconds(30));
      const Result<size_t> fetched =
          prompts.store->Fetch(chain.Slice(0, match.count), {.kind = Memory::Kind::kExtents},
                               {.request = i + 1}, std::span(items).first(match.count));
      if (!fetched.has_value()) return fetched.error();
    }
    return {};
  });
}

}  // namespace

Status BenchLookups(const TiersContext& context) {
  HF_RETURN_IF_ERROR(BenchCount(context, context.options.lookup_blocks));
  if (context.options.large) HF_RETURN_IF_ERROR(BenchCount(context, kLargeBlocks));
  return {};
}

Status BenchLocks(const TiersContext& context) {
  Row row = {.tier = "index", .op = "lock_hold"};
  HF_RETURN_IF_ERROR(context.Begin(row));
  const size_t blocks = std::min<size_t>(context.options.lookup_blocks, 200'000);
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<Prompts> prompts,
      MakePrompts({.blocks = blocks, .seed = context.options.seed, .driver_thread = true}));
  Duration ignored{};
  HF_ASSIGN_OR_RETURN(const std::vector<Blocks> fresh,
                      HashChains(prompts->space, blocks / Prompts::kChainBlocks,
                                 context.options.seed + 1, ignored));
  HF_RETURN_IF_ERROR(MixedLoad(context, *prompts, fresh));
  const LatencyHistogram held = prompts->store->Stats().lock_hold;
  const auto micros = [&held](double q) { return Nanos(held.Quantile(q)) / kNanosPerMicro; };
  row.figures = {{"sampled_holds", static_cast<double>(held.count())},
                 {"lock_hold_p50_us", micros(0.5)},
                 {"lock_hold_p99_us", micros(0.99)},
                 {"lock_hold_p9999_us", micros(0.9999)},
                 {"lock_hold_max_us", Nanos(held.max()) / kNanosPerMicro}};
  row.wants = {{"lock holds under a mixed load, p99.99 in us of CPU time", false, kWantedLockMicros,
                micros(0.9999)}};
  context.Add(std::move(row));
  return {};
}

}  // namespace holdfast::bench
