#include "tests/unit/store/test_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace holdfast::testing {
namespace {

constexpr Duration kUnixEpoch = std::chrono::hours(24 * 365 * 50);  // where the hold clock starts

uint64_t Word(const BlockKey& key, uint64_t index) {
  uint64_t x = key.lo ^ (key.hi << 1) ^ (index * 0x9e3779b97f4a7c15ull);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 29);
}

std::string TemporaryDirectory() {
  std::string name = (std::filesystem::current_path() / "store_test.XXXXXX").string();
  return mkdtemp(name.data());
}

}  // namespace

std::vector<Item> First(size_t n, Item item, size_t size, Item rest) {
  std::vector<Item> items(size, rest);
  std::fill_n(items.begin(), n, item);
  return items;
}

void FillPayload(const BlockKey& key, uint64_t offset, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size();) {
    const uint64_t at = offset + i;
    const uint64_t word = Word(key, at / 8);
    const size_t skip = at % 8;
    const size_t n = std::min(out.size() - i, 8 - skip);
    std::memcpy(out.data() + i, reinterpret_cast<const std::byte*>(&word) + skip, n);
    i += n;
  }
}

bool PayloadIs(const BlockKey& key, uint64_t offset, std::span<const std::byte> bytes) {
  std::vector<std::byte> right(bytes.size());
  FillPayload(key, offset, right);
  return std::equal(bytes.begin(), bytes.end(), right.begin());
}

Pages::Pages(size_t blocks, uint64_t bytes, uint64_t misalign)
    : bytes_(bytes), stride_(RoundUp(bytes + misalign, kPageBytes)) {
  const size_t all = std::max<size_t>(blocks, 1) * stride_ + kPageBytes;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, all)));
  std::memset(memory_.get(), 0xee, all);
  base_ = memory_.get() + misalign;
  begin_.push_back(0);
  for (size_t i = 0; i < blocks; ++i) {
    extents_.push_back({base_ + i * stride_, bytes});
    begin_.push_back(static_cast<uint32_t>(i + 1));
  }
}

Memory Pages::memory() const {
  Memory memory;
  memory.kind = Memory::Kind::kExtents;
  memory.extents = extents_;
  memory.extent_begin = begin_;
  return memory;
}

void Pages::Fill(const Blocks& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) FillPayload(blocks.key(i), 0, of(i));
}

size_t Fetching::Done() {
  size_t done = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i] != Item::kDone) continue;
    ++done;
    EXPECT_TRUE(pages.Holds(blocks, i)) << "block " << i << " is done with wrong bytes";
  }
  return done;
}

StoreOptions SmallStore() {
  StoreOptions o;
  o.ddr_bytes = 1 << 20;
  o.flash_bytes = 8 << 20;
  o.disk_bytes = 16 << 20;
  o.payload_bytes_max = 256 << 10;
  o.payload_bytes_typical = kPayload;
  o.page_bytes = 1 << 20;
  o.segment_bytes = 512 << 10;
  o.segment_bytes_min = 128 << 10;
  o.disk_write_buffer_bytes = 1 << 20;
  o.write_bytes_per_day = UINT64_MAX;
  o.workers = 1;
  o.io_threads = 1;
  o.io_depth = 16;
  return o;
}

StoreOptions DdrOnly(uint64_t ddr_bytes) {
  StoreOptions o = SmallStore();
  o.ddr_bytes = ddr_bytes;
  o.flash_bytes = o.disk_bytes = 0;
  return o;
}

TestStore::TestStore(StoreOptions options, World world)
    : world_(world), options_(std::move(options)), image_(options_.flash_bytes) {
  hold_.JumpWall(kUnixEpoch);
  if (options_.flash_bytes + options_.disk_bytes > 0 && options_.bytes) {
    options_.directory = TemporaryDirectory();
  }
  queue_ = *CompletionQueue::Create(4096, RunClock());
}

TestStore::~TestStore() {
  if (store_ != nullptr && checks_) CheckQuiet();
  Completions();
  store_.reset();
  std::error_code error;
  if (!options_.directory.empty()) std::filesystem::remove_all(options_.directory, error);
}

Environment TestStore::MakeEnvironment() {
  Environment e;
  e.hold_clock = &hold_;
  if (world_ == World::kReal) return e;
  e.run_clock = &run_;
  e.driver_thread = false;
  e.random_seed = 7;
  e.idle = [this](Instant until) { Idle(until); };
  e.open_io = [this](const IoEngineOptions&, std::string*) -> Result<std::unique_ptr<IoEngine>> {
    auto engine = std::make_unique<SimIoEngine>(run_, image_, SimIoOptions{.seed = seed_++});
    engine_ = engine.get();
    return std::unique_ptr<IoEngine>(std::move(engine));
  };
  e.open_disk = [this](Clock& clock, const std::function<void()>&,
                       const DiskTierOptions& o) -> Result<DiskTier> {
    DiskTier disk =
        OpenSimDisk(clock, {.capacity_bytes = o.capacity_bytes, .flush_age = o.flush_age}, medium_);
    disk_ = disk.tier.get();
    return disk;
  };
  return e;
}

void TestStore::Idle(Instant until) {
  if (engine_ != nullptr) {
    if (const auto due = engine_->next_due(); due && *due < until) until = *due;
  }
  run_.AdvanceTo(until);
}

SpaceSpec TestStore::spec() const {
  SpaceSpec s;
  s.model = "model";
  s.block_tokens = 2;
  return s;
}

Status TestStore::Open() {
  HF_ASSIGN_OR_RETURN(store_, Store::Open(options_, MakeEnvironment()));
  HF_ASSIGN_OR_RETURN(space_, store_->OpenSpace(spec()));
  return {};
}

void TestStore::Close() {
  const Status status = store_->Close(Now() + 2s);
  EXPECT_TRUE(status.ok()) << status.ToString();
  store_.reset();
  engine_ = nullptr;
  disk_ = nullptr;
}

void TestStore::PowerLoss() {
  if (engine_ != nullptr) engine_->Crash();
  medium_->LoseUnflushed();
  store_.reset();
  engine_ = nullptr;
  disk_ = nullptr;
}

Blocks TestStore::Prompt(uint32_t number, size_t blocks) {
  return Branch(number, 0, number, blocks);
}

Blocks TestStore::Branch(uint32_t number, size_t shared, uint32_t branch, size_t blocks) {
  std::vector<uint32_t> tokens;
  for (size_t i = 0; i < blocks; ++i) {
    tokens.push_back(i < shared ? number : branch);
    tokens.push_back(static_cast<uint32_t>(i));
  }
  return *Blocks::FromTokens(*store_, space_, tokens);
}

std::vector<Item> TestStore::Put(const Blocks& blocks, uint64_t bytes, const PutOptions& options) {
  Remember(blocks);
  Pages pages(blocks.size(), bytes);
  pages.Fill(blocks);
  std::vector<Item> items(blocks.size());
  const Result<size_t> kept = store_->Put(blocks, pages.memory(), options, items);
  EXPECT_TRUE(kept.has_value()) << kept.error().ToString();
  return items;
}

std::vector<Item> TestStore::Fetch(const Blocks& blocks, uint64_t bytes,
                                   const FetchOptions& options) {
  Fetching f(blocks, bytes);
  const Result<size_t> good = store_->Fetch(blocks, f.pages.memory(), options, f.items);
  EXPECT_TRUE(good.has_value()) << good.error().ToString();
  f.Done();
  return f.items;
}

std::unique_ptr<Fetching> TestStore::StartFetch(const Blocks& blocks, uint64_t bytes,
                                                const FetchOptions& options, uint64_t tag) {
  auto f = std::make_unique<Fetching>(blocks, bytes);
  const Result<OpId> op =
      store_->SubmitFetch(blocks, f->pages.memory(), options, queue_.get(), tag, f->items);
  EXPECT_TRUE(op.has_value()) << op.error().ToString();
  if (op.has_value()) f->op = *op;
  return f;
}

std::vector<Item> TestStore::Prefetch(const Blocks& blocks, Where to, const FetchOptions& options) {
  std::vector<Item> items(blocks.size());
  const Result<OpId> op = store_->SubmitPrefetch(blocks, to, options, nullptr, 0, items);
  EXPECT_TRUE(op.has_value()) << op.error().ToString();
  EXPECT_TRUE(store_->Wait(*op, Now() + 60s).ok());
  return items;
}

std::vector<Where> TestStore::Find(const Blocks& blocks) {
  std::vector<Where> where(blocks.size());
  store_->Find(blocks, where);
  return where;
}

size_t TestStore::Resident(const Blocks& blocks) {
  const std::vector<Where> where = Find(blocks);
  return static_cast<size_t>(std::count_if(where.begin(), where.end(), [](Where w) {
    return w != Where::kAbsent && w != Where::kArriving;
  }));
}

bool TestStore::SetHold(const Blocks& blocks, Duration ttl) {
  const auto granted = std::make_unique<bool[]>(blocks.size());
  const Status status = store_->SetHold(blocks, {ttl}, {granted.get(), blocks.size()});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::all_of(granted.get(), granted.get() + blocks.size(), [](bool g) { return g; });
}

void TestStore::Pass(Duration time) {
  const Instant end = Now() + time;
  if (world_ == World::kReal) {
    // The store's threads work; this one waits on a queue to which nothing comes.
    const std::unique_ptr<CompletionQueue> nothing = *CompletionQueue::Create(1);
    std::array<Completion, 1> none;
    nothing->Poll(none, end);
    return;
  }
  while (Now() < end) {
    while (store_->Step()) {
    }
    Idle(std::min(end, Now() + 1ms));
  }
  while (store_->Step()) {
  }
}

void TestStore::Settle() {
  for (int quiet = 0; quiet < 3;) {
    const auto sum = [this] {
      const StoreStats s = store_->Stats();
      uint64_t n = s.operations_in_flight + s.meta_undurable;
      for (const TierStats& t : s.tiers) n += t.written_bytes + t.read_bytes + t.copies;
      return n;
    };
    const uint64_t before = sum();
    Pass(20ms);
    quiet = sum() == before ? quiet + 1 : 0;
  }
}

std::vector<Completion> TestStore::Completions() {
  std::vector<Completion> all(4096);
  all.resize(queue_->Poll(all, Instant::min()));
  return all;
}

void TestStore::CheckQuiet() {
  Completions();
  Settle();
  StoreStats s = store_->Stats();
  EXPECT_EQ(s.leases, 0u);
  EXPECT_EQ(s.views, 0u);
  EXPECT_EQ(s.operations_in_flight, 0u);
  EXPECT_EQ(s.staging_bytes, 0u);
  for (const TierStats& t : s.tiers) {
    EXPECT_EQ(t.leased_bytes, 0u) << ToString(t.where);
    EXPECT_LE(t.used_bytes, t.capacity_bytes) << ToString(t.where);
  }
  for (const Blocks& blocks : known_) {
    const Status status = store_->Erase(blocks);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  Settle();
  s = store_->Stats();
  EXPECT_EQ(s.entries, 0u);
  for (const TierStats& t : s.tiers) {
    EXPECT_EQ(t.used_bytes, 0u) << ToString(t.where);
    EXPECT_EQ(t.copies, 0u) << ToString(t.where);
  }
  EXPECT_EQ(DiskTierBytes(), 0u);
  for (const HoldStats& h : s.holds) EXPECT_EQ(h.granted_bytes, 0u) << h.name;
}

}  // namespace holdfast::testing
