#include "kvstore/store.h"

#include <algorithm>
#include <utility>

#include "kvstore/internal/core.h"

namespace holdfast {
namespace {

constexpr Duration kForever = std::chrono::hours(24 * 365);

}  // namespace

std::string_view ToString(Item item) noexcept {
  switch (item) {
    case Item::kPending:
      return "pending";
    case Item::kDone:
      return "done";
    case Item::kPresent:
      return "present";
    case Item::kDowngraded:
      return "downgraded";
    case Item::kSkipped:
      return "skipped";
    case Item::kDeclined:
      return "declined";
    case Item::kMiss:
      return "miss";
    case Item::kLate:
      return "late";
    case Item::kCancelled:
      return "cancelled";
    case Item::kCorrupt:
      return "corrupt";
    case Item::kFailed:
      return "failed";
  }
  return "unknown";
}

Result<Blocks> Blocks::FromTokens(const Store& store, SpaceId space,
                                  std::span<const uint32_t> tokens,
                                  std::span<const BlockExtra> extras) {
  HF_ASSIGN_OR_RETURN(const KeySpace key_space, store.Space(space));
  return FromTokens(key_space, tokens, extras);
}

Result<Blocks> Blocks::FromKeys(const Store& store, SpaceId space,
                                std::span<const std::byte> packed, const Chain& chain) {
  HF_ASSIGN_OR_RETURN(const KeySpace key_space, store.Space(space));
  return FromKeys(key_space, packed, chain);
}

Result<std::unique_ptr<Store>> Store::Open(StoreOptions options, Environment environment) {
  HF_ASSIGN_OR_RETURN(std::shared_ptr<internal::Core> core,
                      internal::Core::Open(std::move(options), std::move(environment)));
  return std::unique_ptr<Store>(new Store(std::move(core)));
}

Store::Store(std::shared_ptr<internal::Core> core) : core_(std::move(core)) {}

Store::~Store() {
  if (core_->Forked()) {
    // The threads are the parent's, and locks may be held for ever: left to the kernel as it is.
    static_cast<void>(new std::shared_ptr<internal::Core>(std::move(core_)));
    return;
  }
  core_->Close(core_->RunNow() + std::chrono::seconds(2)).IgnoreError("a destructor has no answer");
}

Status Store::Drain(Instant until) { return core_->Drain(until); }
Status Store::Drain(RegionId region, Instant until) { return core_->DrainRegion(region, until); }
Status Store::Close(Instant until) { return core_->Close(until); }
Result<SpaceId> Store::OpenSpace(const SpaceSpec& spec) { return core_->OpenSpace(spec); }
Result<KeySpace> Store::Space(SpaceId space) const { return core_->Space(space); }
Status Store::NewEpoch(SpaceId space) { return core_->NewEpoch(space); }
Result<RegionId> Store::AddRegion(std::span<std::byte> memory) { return core_->AddRegion(memory); }
Status Store::RemoveRegion(RegionId region, Instant until) {
  return core_->RemoveRegion(region, until);
}
Result<LayoutId> Store::AddLayout(std::span<const Stripe> stripes) {
  return core_->AddLayout(stripes);
}

void Store::Find(const Blocks& blocks, std::span<Where> out) const { core_->Find(blocks, out); }
Match Store::FindPrefix(const Blocks& blocks, size_t first, Duration lease) {
  return core_->FindPrefix(blocks, first, lease);
}
void Store::Want(const Blocks& blocks, Hold hold, uint64_t request, std::span<bool> out) {
  core_->Want(blocks, hold, request, out);
}

Result<OpId> Store::SubmitFetch(const Blocks& blocks, const Memory& target,
                                const FetchOptions& options, CompletionQueue* queue, uint64_t tag,
                                std::span<Item> results) {
  return core_->SubmitFetch(blocks, target, options, queue, tag, results);
}
Result<OpId> Store::SubmitPut(const Blocks& blocks, const Memory& source, const PutOptions& options,
                              CompletionQueue* queue, uint64_t tag, std::span<Item> results) {
  return core_->SubmitPut(blocks, source, options, queue, tag, results);
}
Result<OpId> Store::SubmitPrefetch(const Blocks& blocks, Where to, const FetchOptions& options,
                                   CompletionQueue* queue, uint64_t tag, std::span<Item> results) {
  return core_->SubmitPrefetch(blocks, to, options, queue, tag, results);
}
Result<Lease> Store::Reserve(uint64_t payload_bytes) { return core_->Reserve(payload_bytes); }
Result<OpId> Store::SubmitCommit(Lease frame, const Blocks& one, const PutOptions& options,
                                 CompletionQueue* queue, uint64_t tag, std::span<Item> results) {
  return core_->SubmitCommit(std::move(frame), one, options, queue, tag, results);
}
void Store::Cancel(OpId op) { core_->Cancel(op); }
Status Store::Wait(OpId op, Instant until) { return core_->Wait(op, until); }

Result<size_t> Store::Fetch(const Blocks& blocks, const Memory& target, const FetchOptions& options,
                            std::span<Item> results) {
  HF_ASSIGN_OR_RETURN(const OpId op, SubmitFetch(blocks, target, options, nullptr, 0, results));
  HF_RETURN_IF_ERROR(Wait(op, core_->RunNow() + kForever));
  const auto bad = std::find_if(results.begin(), results.end(), [](Item item) {
    return item != Item::kDone && item != Item::kSkipped;
  });
  return static_cast<size_t>(bad - results.begin());
}

Result<size_t> Store::Put(const Blocks& blocks, const Memory& source, const PutOptions& options,
                          std::span<Item> results) {
  HF_ASSIGN_OR_RETURN(const OpId op, SubmitPut(blocks, source, options, nullptr, 0, results));
  HF_RETURN_IF_ERROR(Wait(op, core_->RunNow() + kForever));
  const auto bad =
      std::find_if(results.begin(), results.end(), [](Item item) { return item > Item::kSkipped; });
  return static_cast<size_t>(bad - results.begin());
}

void Store::Touch(const Blocks& blocks, uint64_t request) { core_->Touch(blocks, request); }
Status Store::SetHold(const Blocks& blocks, Hold hold, std::span<bool> granted) {
  return core_->SetHold(blocks, hold, granted);
}
Result<OpId> Store::SubmitRelease(const Blocks& blocks, CompletionQueue* queue, uint64_t tag) {
  return core_->SubmitRelease(blocks, queue, tag);
}
Result<OpId> Store::SubmitErase(const Blocks& blocks, CompletionQueue* queue, uint64_t tag) {
  return core_->SubmitErase(blocks, queue, tag);
}
Status Store::Release(const Blocks& blocks) {
  HF_ASSIGN_OR_RETURN(const OpId op, SubmitRelease(blocks, nullptr, 0));
  return Wait(op, core_->RunNow() + kForever);
}
Status Store::Erase(const Blocks& blocks) {
  HF_ASSIGN_OR_RETURN(const OpId op, SubmitErase(blocks, nullptr, 0));
  return Wait(op, core_->RunNow() + kForever);
}

StoreStats Store::Stats() const { return core_->Stats(); }
std::string Store::OpenMetrics() const { return OpenMetricsText(core_->Stats()); }
bool Store::Step() { return core_->Step(); }

}  // namespace holdfast
