#include "tools/replay.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "kvstore/environment.h"
#include "kvstore/store.h"
#include "tools/replay_clock.h"
#include "tools/replay_worker.h"
#include "tools/units.h"

namespace holdfast::tools {
namespace {

constexpr Duration kDrainMax = std::chrono::minutes(10);
constexpr Duration kDrainSlice = std::chrono::seconds(1);
constexpr Duration kCloseMax = std::chrono::seconds(10);
constexpr Duration kPaceTurn = std::chrono::milliseconds(200);

double SecondsSince(Instant start) {
  return std::chrono::duration<double>(Clock::System().Now() - start).count();
}

// Lines that the store logs, from any thread.
class Warnings {
 public:
  void Add(std::string_view line) {
    const std::lock_guard lock(mutex_);
    if (lines_.size() < kLinesMax) lines_.emplace_back(line);
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::move(lines_);
  }

 private:
  static constexpr size_t kLinesMax = 100;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// The part that is timed: workers take the requests in order until there are none, one fails, a
// byte is wrong or somebody presses Ctrl-C.
class Race {
 public:
  Race(const ReplayWorker::Context& context, const Interrupt& interrupt, TraceClock* hold_clock)
      : context_(context), interrupt_(interrupt), hold_clock_(hold_clock) {}

  Status Run(std::span<const std::unique_ptr<ReplayWorker>> workers) {
    start_ = Clock::System().Now();
    std::vector<std::function<void()>> joins;
    const StartThread start_thread = SystemThreads();
    for (ReplayWorker* const worker : OthersOf(workers)) {
      std::function<void()> join = start_thread("hf-replay", [this, worker] {
        while (!over() && Step(*worker)) {
        }
      });
      if (join) {
        joins.push_back(std::move(join));
      } else {
        Fail(
            Status(StatusCode::kIoError, "the system starts no more threads; lower --concurrency"));
      }
    }
    Front(*workers[0]);
    for (const std::function<void()>& join : joins) join();
    progress_.Clear();
    return std::move(status_);
  }

 private:
  static std::vector<ReplayWorker*> OthersOf(
      std::span<const std::unique_ptr<ReplayWorker>> workers) {
    std::vector<ReplayWorker*> others;
    for (const auto& worker : workers.subspan(1)) others.push_back(worker.get());
    return others;
  }

  bool over() const { return stop_.load(std::memory_order_relaxed) || interrupt_.requested(); }

  void Front(ReplayWorker& worker) {
    while (!over()) {
      if (progress_.Due()) ShowProgress(worker);
      if (!Step(worker)) return;
    }
  }

  // One request. False when there is none left.
  bool Step(ReplayWorker& worker) {
    const size_t request = next_.fetch_add(1, std::memory_order_relaxed);
    if (request >= context_.workload.requests() || !WaitForStart(request)) return false;
    if (hold_clock_ != nullptr) hold_clock_->AdvanceTo(context_.workload.time_ms(request));
    const Result<bool> right = worker.RunRequest(request);
    if (!right.has_value()) Fail(right.error());
    if (!right.has_value() || !*right) stop_.store(true, std::memory_order_relaxed);
    return true;
  }

  bool WaitForStart(size_t request) {
    if (context_.options.speed <= 0) return true;
    const Instant at =
        StartOfRequest(start_, context_.workload.time_ms(request), context_.options.speed);
    while (Clock::System().Now() < at && !over()) {
      static_cast<void>(interrupt_.WaitUntil(std::min(at, Clock::System().Now() + kPaceTurn)));
    }
    return !over();
  }

  void Fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    stop_.store(true, std::memory_order_relaxed);
  }

  void ShowProgress(const ReplayWorker& front) {
    const size_t done = std::min(next_.load(), context_.workload.requests());
    const ReplayCounts& counts = front.counts();
    const double seconds = SecondsSince(start_);
    progress_.Show(FormatCount(done) + " of " + FormatCount(context_.workload.requests()) +
                   " requests, " + FormatShare(Ratio(counts.hits, counts.references)) + " hits, " +
                   FormatDecimal(static_cast<double>(done) / seconds, 0) + " requests/s, " +
                   FormatDecimal(seconds, 0) + " s");
  }

  const ReplayWorker::Context& context_;
  const Interrupt& interrupt_;
  TraceClock* const hold_clock_;
  Instant start_{};
  Progress progress_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  Status status_;  // the first error
};

Result<std::vector<Blocks>> HashAll(const Workload& workload, const KeySpace& space) {
  std::vector<Blocks> all;
  all.reserve(workload.requests());
  std::vector<std::byte> packed;
  for (size_t request = 0; request < workload.requests(); ++request) {
    packed.clear();
    for (const uint64_t id : workload.ids(request)) AppendExternalKey(id, packed);
    HF_ASSIGN_OR_RETURN(Blocks blocks, Blocks::FromKeys(space, packed, {.linked = true}));
    all.push_back(std::move(blocks));
  }
  return all;
}

// Windows of all workers are gone, and with them their regions, before the store is.
Status RunWorkers(const ReplayWorker::Context& context, const Interrupt& interrupt,
                  TraceClock* hold_clock, ReplayResult& result) {
  std::vector<std::unique_ptr<ReplayWorker>> workers;
  for (uint32_t i = 0; i < context.options.concurrency; ++i) {
    HF_ASSIGN_OR_RETURN(workers.emplace_back(), ReplayWorker::Create(context));
  }
  const Instant start = Clock::System().Now();
  Race race(context, interrupt, hold_clock);
  Status status = race.Run(workers);
  result.replay_seconds = SecondsSince(start);
  for (const auto& worker : workers) result.counts.Add(worker->counts());
  return status;
}

// In slices, so that an interrupt ends it soon.
DrainResult DrainStore(Store& store, const Interrupt& interrupt) {
  const Instant start = Clock::System().Now();
  Status status;
  Instant now = start;
  do {
    status =
        store.Drain(interrupt.requested() ? now : std::min(now + kDrainSlice, start + kDrainMax));
    now = Clock::System().Now();
  } while (status.code() == StatusCode::kDeadlineExceeded && now < start + kDrainMax &&
           !interrupt.requested());
  return {.seconds = SecondsSince(start),
          .left = status.ok() ? std::string() : std::string(status.message())};
}

// What the system lacks, with the option that asks for it.
Status NameOption(Status status) {
  switch (status.os_errno()) {
    case ENOMEM:
      return std::move(status).WithContext("--hbm, --ddr: no memory for as much");
    case ENOSPC:
    case EFBIG:
      return std::move(status).WithContext("--flash, --disk: no space for as much");
    default:
      return status;
  }
}

}  // namespace

Result<ReplayResult> Replay(const ReplayOptions& options, const Workload& workload,
                            const ReplayPlan& plan, const Interrupt& interrupt,
                            const std::function<void()>& opened) {
  ReplayResult result;
  Warnings warnings;
  TraceClock trace_clock(Clock::System().WallMicrosSinceEpoch());
  TraceClock* const hold_clock = options.hold_clock_of_trace ? &trace_clock : nullptr;
  Environment environment;
  environment.hold_clock = hold_clock;
  // Without bytes nothing is slow enough to be worth another thread, and one thread repeats
  // exactly.
  environment.driver_thread = options.bytes || options.concurrency > 1;
  environment.random_seed = options.seed;
  environment.log = [&warnings](LogLevel level, std::string_view line) {
    if (level != LogLevel::kInfo) warnings.Add(line);
  };
  Result<std::unique_ptr<Store>> opened_store = Store::Open(plan.store, environment);
  if (!opened_store.has_value()) return NameOption(std::move(opened_store).error());
  const std::unique_ptr<Store> store = *std::move(opened_store);
  opened();
  HF_ASSIGN_OR_RETURN(const SpaceId space_id, store->OpenSpace(plan.space));
  HF_ASSIGN_OR_RETURN(const KeySpace space, store->Space(space_id));
  result.entries_at_open = store->Stats().entries;

  const Instant start = Clock::System().Now();
  HF_ASSIGN_OR_RETURN(const std::vector<Blocks> blocks, HashAll(workload, space));
  result.hash_seconds = SecondsSince(start);

  const ReplayWorker::Context context = {
      .store = *store, .workload = workload, .options = options, .plan = plan, .blocks = blocks};
  HF_RETURN_IF_ERROR(RunWorkers(context, interrupt, hold_clock, result));
  if (options.drain) result.drain = DrainStore(*store, interrupt);
  result.interrupted = interrupt.requested();
  result.stats = store->Stats();
  HF_RETURN_IF_ERROR(store->Close(Clock::System().Now() + kCloseMax));
  result.warnings = warnings.Take();
  return result;
}

}  // namespace holdfast::tools
