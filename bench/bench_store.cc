#include "bench/bench_store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <numeric>
#include <string>
#include <utility>

#include "bench/payload.h"

namespace holdfast::bench {
namespace {

constexpr uint32_t kKeyBytes = 16;
constexpr size_t kSlotsMin = 16, kSlotsMax = 256;
constexpr uint64_t kWindowBytes = 64ull << 20;
constexpr Duration kPatience = std::chrono::minutes(2);
constexpr BlockKey kPattern = {.hi = 0x686f6c6466617374, .lo = 1};

Instant Patience() { return Clock::System().Now() + kPatience; }

uint64_t Mix(uint64_t x) {  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Status WrongByte(uint64_t block, uint64_t offset) {
  return {StatusCode::kDataLoss, "a wrong byte in block " + std::to_string(block) + " at offset " +
                                     std::to_string(offset)};
}

Status NotDone(std::string_view verb, Item item) {
  return {StatusCode::kFailedPrecondition,
          "a block to " + std::string(verb) + " ended as " + std::string(ToString(item))};
}

}  // namespace

StoreOptions BenchStoreOptions(std::string directory, uint64_t payload_bytes) {
  StoreOptions options;
  options.directory = std::move(directory);
  options.ddr_bytes = 0;
  options.payload_bytes_max = payload_bytes;
  options.payload_bytes_typical = payload_bytes;
  options.write_bytes_per_day = UINT64_MAX;
  options.unheld_flash = PlacementRow::kOnLeave;
  return options;
}

std::function<size_t()> RandomOrder(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[Mix(seed + i * 0x9e3779b97f4a7c15u) % i]);
  }
  return
      [order = std::move(order), at = size_t{0}]() mutable { return order[at++ % order.size()]; };
}

std::function<size_t()> InOrder(size_t first) {
  return [next = first]() mutable { return next++; };
}

size_t WindowSlots(uint64_t payload_bytes) {
  return std::clamp<size_t>(kWindowBytes / RoundUp(payload_bytes, kPageBytes), kSlotsMin,
                            kSlotsMax);
}

BenchStore::BenchStore(PayloadMemory& memory, uint64_t seed)
    : memory_(memory),
      seed_(seed),
      numbers_(memory.slots()),
      items_(memory.slots()),
      started_(memory.slots()) {
  std::iota(numbers_.begin(), numbers_.end(), 0);
}

Result<std::unique_ptr<BenchStore>> BenchStore::Open(const StoreOptions& options,
                                                     PayloadMemory& memory, uint64_t seed) {
  std::unique_ptr<BenchStore> bench(new BenchStore(memory, seed));
  HF_ASSIGN_OR_RETURN(bench->queue_, CompletionQueue::Create(memory.slots() + 1));
  HF_ASSIGN_OR_RETURN(bench->store_, Store::Open(options));
  HF_ASSIGN_OR_RETURN(const SpaceId space,
                      bench->store_->OpenSpace({.model = "bench",
                                                .layout = std::to_string(memory.payload_bytes()),
                                                .key_bytes = kKeyBytes}));
  HF_ASSIGN_OR_RETURN(bench->space_, bench->store_->Space(space));
  HF_ASSIGN_OR_RETURN(bench->region_, bench->store_->AddRegion(memory.bytes()));
  const std::array stripes = {Stripe{.region = bench->region_,
                                     .offset = 0,
                                     .stride = memory.stride(),
                                     .bytes = memory.payload_bytes()}};
  HF_ASSIGN_OR_RETURN(bench->layout_, bench->store_->AddLayout(stripes));
  return bench;
}

BenchStore::~BenchStore() {
  if (store_ == nullptr) return;
  // After an error operations may be under way; Close waits for their devices.
  store_->Close(Patience()).IgnoreError("the store goes away with its directory");
}

Result<Blocks> BenchStore::Keys(uint64_t first, size_t count) const {
  std::vector<std::byte> packed(count * kKeyBytes);
  for (size_t i = 0; i < count; ++i) {
    const std::array<uint64_t, 2> key = {Mix(seed_), first + i};
    std::memcpy(packed.data() + i * kKeyBytes, key.data(), kKeyBytes);
  }
  return Blocks::FromKeys(space_, packed);
}

Memory BenchStore::slots(size_t first, size_t count) const noexcept {
  return {.kind = Memory::Kind::kSlots,
          .layout = layout_,
          .slots = std::span(numbers_).subspan(first, count)};
}

FetchOptions BenchStore::fetch_options() const noexcept {
  return {.prefix = false, .payload_bytes = memory_.payload_bytes()};
}

Status BenchStore::Fill(const Blocks& blocks, Hold hold) {
  for (size_t done = 0; done < blocks.size();) {
    const Blocks part = blocks.Slice(done, memory_.slots());
    for (size_t i = 0; i < part.size(); ++i) FillPayload(part.key(i), memory_.slot(i));
    HF_ASSIGN_OR_RETURN(const size_t kept, store_->Put(part, slots(0, part.size()),
                                                       {.hold = hold, .wait_max = kPatience},
                                                       std::span(items_).first(part.size())));
    if (kept < part.size()) return NotDone("put", items_[kept]);
    done += part.size();
  }
  return {};
}

void BenchStore::FillPattern() {
  for (size_t i = 0; i < memory_.slots(); ++i) FillPayload(kPattern, memory_.slot(i));
}

void BenchStore::Stamp(size_t slot, uint64_t block) noexcept {
  std::memcpy(memory_.slot(slot).data(), &block, sizeof block);
}

Status BenchStore::Submit(const Blocks& blocks, const Drive& drive, size_t slot) {
  const size_t block = drive.next() % blocks.size();
  const Blocks one = blocks.Slice(block, 1);
  const std::span<Item> item = std::span(items_).subspan(slot, 1);
  if (drive.put) Stamp(slot, block);
  started_[slot] = Clock::System().Now();
  Result<OpId> op = drive.put ? store_->SubmitPut(one, slots(slot, 1), {.wait_max = kPatience},
                                                  queue_.get(), slot, item)
                              : store_->SubmitFetch(one, slots(slot, 1), fetch_options(),
                                                    queue_.get(), slot, item);
  return op.has_value() ? Status() : std::move(op).error();
}

Status BenchStore::CheckDone(size_t slot, const Drive& drive) const {
  if (items_[slot] == Item::kDone) return {};
  return NotDone(drive.put ? "put" : "fetch", items_[slot]);
}

Result<Sample> BenchStore::Run(const Blocks& blocks, const Drive& drive) {
  std::deque<size_t> idle(memory_.slots());
  std::iota(idle.begin(), idle.end(), size_t{0});
  const uint64_t payload_bytes = memory_.payload_bytes();
  Sample sample;
  uint64_t submitted_bytes = 0;
  uint32_t running = 0;
  Status failed;
  std::array<Completion, 16> done;
  const Meter meter;
  for (;;) {
    while (failed.ok() && running < drive.in_flight && submitted_bytes < drive.bytes_max &&
           meter.elapsed() < drive.time_max) {
      failed = Submit(blocks, drive, idle.front());
      if (!failed.ok()) break;
      idle.pop_front();
      ++running;
      submitted_bytes += payload_bytes;
    }
    if (running == 0) break;
    const size_t n = queue_->Poll(done, Instant::max());
    const Instant now = Clock::System().Now();
    for (size_t i = 0; i < n; ++i) {
      const size_t slot = done[i].tag;
      if (failed.ok()) failed = CheckDone(slot, drive);
      sample.latencies.push_back(now - started_[slot]);
      idle.push_back(slot);
      sample.bytes += payload_bytes;
      --running;
    }
  }
  HF_RETURN_IF_ERROR(std::move(failed));
  if (drive.durable) HF_RETURN_IF_ERROR(Drain());
  meter.Stop(sample);
  return sample;
}

Status BenchStore::CheckContent(const Blocks& part, size_t first, Content content, size_t slot) {
  const std::span<std::byte> payload = memory_.slot(slot);
  BlockKey key = part.key(slot);
  if (content == Content::kStamped) {
    uint64_t stamp = 0;
    std::memcpy(&stamp, payload.data(), sizeof stamp);
    if (stamp != first + slot) return WrongByte(first + slot, 0);
    std::array<std::byte, sizeof stamp> head{};
    FillPayload(kPattern, head);
    std::memcpy(payload.data(), head.data(), sizeof stamp);
    key = kPattern;
  }
  const std::optional<uint64_t> wrong = FirstWrongByte(key, payload);
  return wrong ? WrongByte(first + slot, *wrong) : Status();
}

Status BenchStore::Verify(const Blocks& blocks, Content content, bool all) {
  size_t right = 0;
  for (size_t first = 0; first < blocks.size(); first += memory_.slots()) {
    const Blocks part = blocks.Slice(first, memory_.slots());
    const std::span<Item> items = std::span(items_).first(part.size());
    for (size_t i = 0; i < part.size(); ++i) SpoilPayload(memory_.slot(i));
    const Result<size_t> fetched =
        store_->Fetch(part, slots(0, part.size()), fetch_options(), items);
    if (!fetched.has_value()) return fetched.error();
    for (size_t i = 0; i < part.size(); ++i) {
      if (items[i] == Item::kDone) {
        HF_RETURN_IF_ERROR(CheckContent(part, first, content, i));
        ++right;
      } else if (all || items[i] != Item::kMiss) {
        return NotDone("verify", items[i]);
      }
    }
  }
  if (right == 0) return {StatusCode::kFailedPrecondition, "no block is left to verify"};
  return {};
}

Status BenchStore::Drain() { return store_->Drain(Patience()); }

}  // namespace holdfast::bench
