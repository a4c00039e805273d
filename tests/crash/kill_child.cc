// The program that kill_test kills: opens a store, checks everything in it against the records of
// the programs before it, and works on it until it is killed.
//
//   kill_child WORK SEED ROUND ORIGIN_NS work|verify
//
// WORK/store is the store, WORK/log the records, WORK/shared what the test reads. Exit code 0 only
// from verify; 1 with one line on stderr when the store broke a promise.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/mutex.h"
#include "kvstore/store.h"
#include "tests/crash/expectation.h"
#include "tests/crash/kill_shared.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kKeys = 340;
constexpr uint32_t kSecondSpace = 272;  // keys from here on; no batch of verification holds both
constexpr uint32_t kKeyBytes = 16;
constexpr std::array<uint64_t, 3> kPayloadBytes = {16'000, 61'440, 200'000};
constexpr uint64_t kBufferBytes = 200'704;
constexpr size_t kBatchMax = 4;
constexpr size_t kBatchesInFlight = 6;
constexpr uint64_t kErasureTag = 100;  // of completions; those of puts are their batch
constexpr std::array<int64_t, 3> kTtls = {0, 300'000, 3'600'000};
static_assert(kSecondSpace % kBatchMax == 0);

uint64_t PayloadBytes(uint32_t key) { return kPayloadBytes[key % kPayloadBytes.size()]; }

// The first word is the version, the rest follows from key and version.
void FillPayload(uint32_t key, uint64_t version, std::byte* out) {
  uint64_t state = version * 0x9e3779b97f4a7c15u + key;
  for (uint64_t at = 0; at < PayloadBytes(key); at += sizeof state) {
    const uint64_t word = at == 0 ? version : state;
    std::memcpy(out + at, &word, sizeof word);
    state = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9u + 1;
  }
}

// Hold time a hundred times as fast as the machine's: an hour is 36 s. Every process of a test
// reads the same time. It stands while a store opens, so that the store's hold time is this one.
class FastClock final : public Clock {
 public:
  explicit FastClock(Instant origin) : origin_(origin) { Freeze(); }
  Instant Now() noexcept override {
    const int64_t frozen = frozen_.load();
    return Instant(Duration(frozen != 0 ? frozen : Fast()));
  }
  int64_t WallMicrosSinceEpoch() noexcept override {
    return kWallAtOrigin + Now().time_since_epoch().count() / 1000;
  }
  HoldMillis Millis() noexcept { return WallMicrosSinceEpoch() / 1000; }
  void Freeze() { frozen_ = Fast(); }
  void Thaw() { frozen_ = 0; }

 private:
  static constexpr int64_t kSpeed = 100;
  static constexpr int64_t kWallAtOrigin = 1'800'000'000'000'000;
  int64_t Fast() const { return (Clock::System().Now() - origin_).count() * kSpeed + 1; }

  const Instant origin_;
  std::atomic<int64_t> frozen_{0};
};

struct Arguments {
  std::string work;
  uint64_t seed = 0;
  uint64_t round = 0;
  Instant origin;
  bool verify = false;
};

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::byte, FreeMemory>;
Buffer NewBuffer() {
  return Buffer(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kBufferBytes)));
}

// Some keys of one space with memory for their payloads.
struct Batch {
  Batch() {
    for (Buffer& buffer : buffers) buffer = NewBuffer();
  }
  Memory memory() {
    extents.clear();
    begin.assign(1, 0);
    for (size_t i = 0; i < keys.size(); ++i) {
      extents.push_back({buffers[i].get(), PayloadBytes(keys[i])});
      begin.push_back(static_cast<uint32_t>(i + 1));
    }
    items.assign(keys.size(), Item::kPending);
    return {.kind = Memory::Kind::kExtents, .extents = extents, .extent_begin = begin};
  }
  bool busy = false;
  uint64_t op = 0;
  int64_t ttl_ms = 0;
  std::vector<uint32_t> keys;
  std::vector<uint64_t> versions;
  std::array<Buffer, kBatchMax> buffers;
  std::vector<Extent> extents;
  std::vector<uint32_t> begin;
  std::vector<Item> items;
};

class Program {
 public:
  explicit Program(Arguments arguments)
      : arguments_(std::move(arguments)),
        clock_(arguments_.origin),
        random_(arguments_.seed * 1'000'003 + arguments_.round) {}

  int Run();

 private:
  [[noreturn]] void Fail(const std::string& what);
  void Check(const Status& status, const char* what);
  void MapShared();
  void ReplayLog();
  void Log(Record record);
  void OpenStore();
  void OpenSpaces();
  void Watch();
  void TellBroken();

  void VerifyAll();
  void Work();
  void StartPut();
  void FetchSome();
  void Fetch(Batch& batch);
  void CheckFetched(uint32_t key, const std::byte* bytes, Item item, HoldMillis before);
  void CheckLost(uint32_t key, HoldMillis after, const char* verb);
  void HoldOne();
  void ReleaseOne();
  void EraseOne();
  void NewEpoch();
  void DrainAll();
  void PutOver(Batch& batch);
  void ErasureOver(Record& erasure, bool good);
  size_t PollQueue(Instant until);

  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  bool InFlight(uint32_t key) const { return in_flight_[key]; }
  uint32_t QuietKey();
  void PickKeys(Batch& batch, bool quiet);
  Blocks BlocksOf(const std::vector<uint32_t>& keys);
  Hold RandomHold(int64_t* ttl_ms);

  const Arguments arguments_;
  FastClock clock_;
  std::mt19937_64 random_;
  KillShared* shared_ = nullptr;
  int log_fd_ = -1;
  Expectation expectation_{kSecondSpace};
  std::unique_ptr<CompletionQueue> queue_;
  std::array<Batch, kBatchesInFlight> puts_;
  std::array<Record, 8> erasures_{};  // op 0: none
  std::array<bool, kKeys> in_flight_{};
  Batch fetch_;
  std::unique_ptr<Store> store_;
  std::array<KeySpace, 2> spaces_;
  Mutex watch_mutex_;
  CondVar watch_changed_;
  bool watch_stop_ HF_GUARDED_BY(watch_mutex_) = false;
};

void Program::Fail(const std::string& what) {
  std::fprintf(stderr, "kill_child: seed %lu, round %lu: %s\n", arguments_.seed, arguments_.round,
               what.c_str());
  std::fflush(stderr);
  _exit(1);
}

void Program::Check(const Status& status, const char* what) {
  if (!status.ok()) Fail(std::string(what) + ": " + status.ToString());
}

void Program::MapShared() {
  const int fd = open((arguments_.work + "/shared").c_str(), O_RDWR | O_CLOEXEC);
  void* page =
      fd < 0 ? MAP_FAILED : mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) Fail("cannot map the shared page");
  close(fd);
  shared_ = static_cast<KillShared*>(page);
}

void Program::ReplayLog() {
  log_fd_ = open((arguments_.work + "/log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (log_fd_ < 0) Fail("cannot open the log");
  std::array<Record, 1024> records;
  off_t whole = 0;
  for (;;) {
    const ssize_t n = pread(log_fd_, records.data(), sizeof records, whole);
    const size_t count = n < 0 ? 0 : static_cast<size_t>(n) / sizeof(Record);
    if (count == 0) break;
    for (size_t i = 0; i < count; ++i) expectation_.Apply(records[i]);
    whole += static_cast<off_t>(count * sizeof(Record));
  }
  // A record that was cut off was not acted upon.
  if (ftruncate(log_fd_, whole) != 0 || lseek(log_fd_, whole, SEEK_SET) != whole) {
    Fail("cannot go on with the log");
  }
}

void Program::Log(Record record) {
  record.now = clock_.Millis();
  if (write(log_fd_, &record, sizeof record) != sizeof record) Fail("cannot write the log");
  expectation_.Apply(record);
}

void Program::OpenStore() {
  StoreOptions options;
  options.directory = arguments_.work + "/store";
  options.page_bytes = 1 << 20;
  options.ddr_bytes = 8 << 20;
  options.flash_bytes = 128 << 20;
  options.segment_bytes = 2 << 20;
  options.segment_bytes_min = 1 << 20;
  options.disk_bytes = 64 << 20;
  options.disk_write_buffer_bytes = 4 << 20;
  options.payload_bytes_max = 256 << 10;
  options.payload_bytes_typical = 61'440;
  options.write_bytes_per_day = UINT64_MAX;
  options.unheld_flash = PlacementRow::kOnLeave;
  options.flush_age = arguments_.round % 4 == 1 ? Duration(300ms) : Duration(10s);
  options.hold_classes[0].budget_share = 0.35;
  options.hold_classes[1].budget_share = 0.35;
  if (arguments_.round % 3 == 2) {  // 1h goes to disk at once
    options.hold_classes[1].flash = PlacementRow::kNever;
    options.hold_classes[1].disk = PlacementRow::kAtPut;
  }
  options.io_engine = arguments_.round % 2 == 0 ? IoEngineKind::kAuto : IoEngineKind::kPread;
  Environment environment;
  environment.hold_clock = &clock_;
  environment.random_seed = arguments_.seed;
  auto store = Store::Open(options, environment);
  if (!store) Fail("opening: " + store.error().ToString());
  store_ = *std::move(store);
  clock_.Thaw();
  shared_->uring = store_->Stats().tiers[2].engine == "uring" ? 1 : 0;
}

void Program::OpenSpaces() {
  for (const bool second : {false, true}) {
    const auto id = store_->OpenSpace(
        {.model = second ? "second" : "first", .dtype = "test", .key_bytes = kKeyBytes});
    if (!id) Fail("space: " + id.error().ToString());
    spaces_[second ? 1 : 0] = *store_->Space(*id);
    const uint32_t epoch = spaces_[second ? 1 : 0].epoch;
    if (epoch < expectation_.epochs(second) || epoch > expectation_.epochs_begun(second)) {
      Fail("epoch " + std::to_string(epoch) + ", acknowledged " +
           std::to_string(expectation_.epochs(second)));
    }
  }
}

// Tells the test what is in flight.
void Program::Watch() {
  for (;;) {
    const StoreStats stats = store_->Stats();
    uint64_t undurable = 0;
    uint64_t broken = 0;
    for (const TierStats& tier : stats.tiers) undurable += tier.undurable_bytes;
    for (const HoldStats& hold : stats.holds) broken += hold.broken;
    shared_->undurable = undurable + stats.meta_undurable;
    shared_->broken = broken;
    MutexLock lock(watch_mutex_);
    if (watch_stop_) return;
    watch_changed_.WaitFor(watch_mutex_, 3ms);
  }
}

void Program::TellBroken() {
  uint64_t broken = 0;
  for (const HoldStats& hold : store_->Stats().holds) broken += hold.broken;
  if (broken == shared_->broken_logged) return;
  Log({.kind = RecordKind::kBroken});
  shared_->broken_logged = broken;
}

Blocks Program::BlocksOf(const std::vector<uint32_t>& keys) {
  std::vector<std::byte> packed(keys.size() * kKeyBytes);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::memcpy(packed.data() + i * kKeyBytes, &keys[i], sizeof keys[i]);
  }
  return *Blocks::FromKeys(spaces_[keys[0] >= kSecondSpace ? 1 : 0], packed);
}

// ---------------------------------------------------------------- fetches and their check

void Program::CheckLost(uint32_t key, HoldMillis after, const char* verb) {
  if (expectation_.Missed(key, after).empty()) return;
  TellBroken();  // the store may have said so
  const std::string wrong = expectation_.Missed(key, after);
  if (!wrong.empty()) Fail("key " + std::to_string(key) + ", " + verb + ": " + wrong);
}

void Program::CheckFetched(uint32_t key, const std::byte* bytes, Item item, HoldMillis before) {
  if (item != Item::kDone) {
    if (item == Item::kCorrupt) ++shared_->corrupt;
    CheckLost(key, clock_.Millis(), "fetch");
    return;
  }
  uint64_t version = 0;
  std::memcpy(&version, bytes, sizeof version);
  const std::string wrong = expectation_.Served(key, version, before);
  if (!wrong.empty()) Fail("key " + std::to_string(key) + ": " + wrong);
  static const Buffer expected = NewBuffer();
  FillPayload(key, version, expected.get());
  if (std::memcmp(expected.get(), bytes, PayloadBytes(key)) != 0) {
    Fail("key " + std::to_string(key) + ": wrong bytes");
  }
}

void Program::Fetch(Batch& batch) {
  const uint64_t op = expectation_.next_op();
  for (const uint32_t key : batch.keys) {
    Log({.kind = RecordKind::kMayFetch, .key = key, .op = op});
  }
  const HoldMillis before = clock_.Millis();
  const Memory memory = batch.memory();
  const auto done =
      store_->Fetch(BlocksOf(batch.keys), memory, {.prefix = false}, std::span(batch.items));
  if (!done) Fail("fetch: " + done.error().ToString());
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    CheckFetched(batch.keys[i], batch.buffers[i].get(), batch.items[i], before);
    Log({.kind = RecordKind::kDidFetch, .outcome = batch.items[i], .key = batch.keys[i], .op = op});
  }
}

void Program::VerifyAll() {
  for (uint32_t first = 0; first < kKeys; first += kBatchMax) {
    fetch_.keys.clear();
    for (uint32_t key = first; key < std::min<uint32_t>(first + kBatchMax, kKeys); ++key) {
      fetch_.keys.push_back(key);
      if (expectation_.Required(key, clock_.Millis())) ++shared_->required;
    }
    Fetch(fetch_);
    for (const Item item : fetch_.items) {
      if (item == Item::kDone) ++shared_->served;
    }
  }
}

// ---------------------------------------------------------------- the work

uint32_t Program::QuietKey() {
  uint32_t key = Random(kKeys);
  while (InFlight(key)) key = (key + 1) % kKeys;
  return key;
}

void Program::PickKeys(Batch& batch, bool quiet) {
  batch.keys.clear();
  const bool second = Random(4) == 0;
  const uint32_t first = second ? kSecondSpace : 0;
  const uint32_t size = second ? kKeys - kSecondSpace : kSecondSpace;
  const size_t wanted = 1 + Random(kBatchMax);
  for (size_t tries = 0; tries < 4 * wanted && batch.keys.size() < wanted; ++tries) {
    const uint32_t key = first + Random(size);
    if (quiet && InFlight(key)) continue;
    if (std::find(batch.keys.begin(), batch.keys.end(), key) != batch.keys.end()) continue;
    batch.keys.push_back(key);
  }
}

Hold Program::RandomHold(int64_t* ttl_ms) {
  *ttl_ms = kTtls[Random(kTtls.size())];
  return {.ttl = std::chrono::milliseconds(*ttl_ms)};
}

void Program::StartPut() {
  Batch* batch = nullptr;
  for (Batch& b : puts_) {
    if (!b.busy) batch = &b;
  }
  if (batch == nullptr) {
    PollQueue(Clock::System().Now() + 10s);
    return;
  }
  PickKeys(*batch, /*quiet=*/true);
  if (batch->keys.empty()) return;
  const Hold hold = RandomHold(&batch->ttl_ms);
  batch->op = expectation_.next_op();
  batch->versions.clear();
  for (size_t i = 0; i < batch->keys.size(); ++i) {
    const uint64_t version = expectation_.next_version();
    batch->versions.push_back(version);
    FillPayload(batch->keys[i], version, batch->buffers[i].get());
    Log({.kind = RecordKind::kMayPut,
         .key = batch->keys[i],
         .op = batch->op,
         .version = version,
         .ttl_ms = batch->ttl_ms});
    in_flight_[batch->keys[i]] = true;
  }
  batch->busy = true;
  ++shared_->writes_in_flight;
  const Memory memory = batch->memory();
  const auto op = store_->SubmitPut(BlocksOf(batch->keys), memory, {.hold = hold}, queue_.get(),
                                    static_cast<uint64_t>(batch - puts_.data()), batch->items);
  if (!op) Fail("put: " + op.error().ToString());
}

void Program::PutOver(Batch& batch) {
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    const uint32_t key = batch.keys[i];
    if (batch.items[i] == Item::kDone) CheckLost(key, clock_.Millis(), "put anew");
    Log({.kind = RecordKind::kDidPut,
         .outcome = batch.items[i],
         .key = key,
         .op = batch.op,
         .version = batch.versions[i],
         .ttl_ms = batch.ttl_ms});
    in_flight_[key] = false;
  }
  batch.busy = false;
}

void Program::ErasureOver(Record& erasure, bool good) {
  erasure.kind = RecordKind::kDidErase;
  if (good) Log(erasure);
  erasure.op = 0;
}

size_t Program::PollQueue(Instant until) {
  std::array<Completion, 16> done;
  const size_t n = queue_->Poll(done, until);
  for (size_t i = 0; i < n; ++i) {
    if (done[i].tag >= kErasureTag) {
      ErasureOver(erasures_[done[i].tag - kErasureTag], done[i].done == 1);
    } else {
      PutOver(puts_[done[i].tag]);
    }
    --shared_->writes_in_flight;
  }
  return n;
}

void Program::FetchSome() {
  PickKeys(fetch_, /*quiet=*/false);
  if (!fetch_.keys.empty()) Fetch(fetch_);
}

void Program::HoldOne() {
  Record record{.kind = RecordKind::kMayHold, .key = QuietKey(), .op = expectation_.next_op()};
  record.ttl_ms = kTtls[1 + Random(kTtls.size() - 1)];
  Log(record);
  bool granted = false;
  Check(store_->SetHold(BlocksOf({record.key}), {.ttl = std::chrono::milliseconds(record.ttl_ms)},
                        {&granted, 1}),
        "hold");
  record.kind = RecordKind::kDidHold;
  record.outcome = granted ? Item::kDone : Item::kDowngraded;
  Log(record);
}

void Program::ReleaseOne() {
  Record record{.kind = RecordKind::kMayRelease, .key = QuietKey(), .op = expectation_.next_op()};
  const Blocks blocks = BlocksOf({record.key});
  Where where = Where::kAbsent;
  store_->Find(blocks, {&where, 1});
  if (where == Where::kAbsent) return;
  Log(record);
  ++shared_->writes_in_flight;
  Check(store_->Release(blocks), "release");
  --shared_->writes_in_flight;
  record.kind = RecordKind::kDidRelease;
  Log(record);
}

void Program::EraseOne() {
  const auto erasure =
      std::find_if(erasures_.begin(), erasures_.end(), [](const Record& r) { return r.op == 0; });
  if (erasure == erasures_.end()) {
    PollQueue(Clock::System().Now() + 10s);
    return;
  }
  *erasure = {.kind = RecordKind::kMayErase, .key = Random(kKeys), .op = expectation_.next_op()};
  Log(*erasure);
  ++shared_->writes_in_flight;
  const auto op =
      store_->SubmitErase(BlocksOf({erasure->key}), queue_.get(),
                          kErasureTag + static_cast<uint64_t>(erasure - erasures_.begin()));
  if (!op) Fail("erase: " + op.error().ToString());
}

void Program::NewEpoch() {
  Record record{.kind = RecordKind::kMayEpoch, .key = kSecondSpace, .op = expectation_.next_op()};
  Log(record);
  ++shared_->writes_in_flight;
  Check(store_->NewEpoch(spaces_[1].id), "epoch");
  --shared_->writes_in_flight;
  record.kind = RecordKind::kDidEpoch;
  Log(record);
  spaces_[1] = *store_->Space(spaces_[1].id);
}

void Program::DrainAll() {
  const Instant until = Clock::System().Now() + 10s;
  while (shared_->writes_in_flight > 0) {
    if (PollQueue(until) == 0) Fail("writes that do not end");
  }
  const Status drained = store_->Drain(until);
  TellBroken();
  if (drained.ok()) Log({.kind = RecordKind::kDidDrain});
}

void Program::Work() {
  struct Verb {
    uint32_t share;  // of a thousand
    char letter;
    void (Program::*run)();
  };
  constexpr Verb kVerbs[] = {
      {520, 'p', &Program::StartPut}, {180, 'f', &Program::FetchSome},
      {60, 'h', &Program::HoldOne},   {40, 'r', &Program::ReleaseOne},
      {194, 'e', &Program::EraseOne}, {3, 'n', &Program::NewEpoch},
      {3, 'd', &Program::DrainAll},
  };
  for (;;) {
    uint32_t dice = Random(1000);
    const Verb* verb = kVerbs;
    while (dice >= verb->share) dice -= (verb++)->share;
    shared_->verb = static_cast<uint64_t>(verb->letter);
    ++shared_->verbs;
    (this->*verb->run)();
    PollQueue(Instant::min());
  }
}

int Program::Run() {
  MapShared();
  ReplayLog();
  if (shared_->broken > shared_->broken_logged) Log({.kind = RecordKind::kBroken});
  shared_->broken = 0;
  shared_->broken_logged = 0;
  OpenStore();
  Log({.kind = RecordKind::kOpened});
  OpenSpaces();
  queue_ = *CompletionQueue::Create(64);
  const auto join = SystemThreads()("watch", [this] { Watch(); });
  shared_->phase = static_cast<uint64_t>(KillPhase::kVerifying);
  VerifyAll();
  if (!arguments_.verify) {
    shared_->phase = static_cast<uint64_t>(KillPhase::kWorking);
    Work();
  }
  {
    MutexLock lock(watch_mutex_);
    watch_stop_ = true;
  }
  watch_changed_.NotifyAll();
  join();
  Check(store_->Close(Clock::System().Now() + 5s), "close");
  shared_->phase = static_cast<uint64_t>(KillPhase::kOver);
  return 0;
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "kill_child WORK SEED ROUND ORIGIN_NS work|verify\n");
    return 2;
  }
  holdfast::testing::Arguments arguments;
  arguments.work = argv[1];
  arguments.seed = std::strtoull(argv[2], nullptr, 10);
  arguments.round = std::strtoull(argv[3], nullptr, 10);
  arguments.origin = holdfast::Instant(holdfast::Duration(std::strtoll(argv[4], nullptr, 10)));
  arguments.verify = std::string(argv[5]) == "verify";
  return holdfast::testing::Program(std::move(arguments)).Run();
}
