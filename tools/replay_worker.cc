#include "tools/replay_worker.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "bench/payload.h"

namespace holdfast::tools {
namespace {

constexpr Duration kLease = std::chrono::seconds(30);

}  // namespace

ReplayWorker::ReplayWorker(const Context& context)
    : context_(context), payload_bytes_(context.options.payload_bytes) {
  counts_.holds.resize(context.plan.holds.size());
}

Result<std::unique_ptr<ReplayWorker>> ReplayWorker::Create(const Context& context) {
  std::unique_ptr<ReplayWorker> worker(new ReplayWorker(context));
  if (context.options.bytes) {
    HF_ASSIGN_OR_RETURN(worker->fetched_,
                        TransferBuffer::Create(context.store, worker->payload_bytes_));
    HF_ASSIGN_OR_RETURN(worker->computed_,
                        TransferBuffer::Create(context.store, worker->payload_bytes_));
    worker->window_ = worker->fetched_->slots();
  } else {
    worker->window_ = 1;
    for (const Blocks& blocks : context.blocks) {
      worker->window_ = std::max(worker->window_, blocks.size());
    }
  }
  worker->items_.resize(worker->window_);
  return worker;
}

Result<bool> ReplayWorker::RunRequest(size_t request) {
  const Blocks& blocks = context_.blocks[request];
  size_t hits = 0;
  {
    const Match match = context_.store.FindPrefix(blocks, 0, kLease);
    HF_ASSIGN_OR_RETURN(hits, FetchAll(blocks.Slice(0, match.count), request));
  }
  const uint64_t hit_tokens = hits * context_.workload.block_tokens();
  ++counts_.requests;
  counts_.references += blocks.size();
  counts_.hits += hits;
  counts_.hit_tokens += std::min(hit_tokens, context_.workload.tokens(request));
  HoldCounts& hold =
      counts_.holds[HoldOfRequest(counts_.holds.size(), context_.options.seed, request)];
  ++hold.requests;
  hold.references += blocks.size();
  hold.hits += hits;
  if (counts_.wrong) return false;
  HF_RETURN_IF_ERROR(PutAll(blocks.Slice(hits, blocks.size() - hits), request));
  return true;
}

Result<size_t> ReplayWorker::FetchAll(const Blocks& match, size_t request) {
  const FetchOptions options = {
      .request = request + 1, .keep = true, .payload_bytes = payload_bytes_};
  size_t done = 0;
  while (done < match.size()) {
    const Blocks part = match.Slice(done, window_);
    const std::span<Item> items = std::span(items_).first(part.size());
    Memory target = {.kind = Memory::Kind::kExtents};
    if (fetched_) {
      target = fetched_->memory(part.size());
      context_.store.Find(part, std::span(where_).first(part.size()));
      for (size_t i = 0; i < part.size(); ++i) SpoilPayload(fetched_->payload(i));
    }
    HF_ASSIGN_OR_RETURN(const size_t served, context_.store.Fetch(part, target, options, items));
    for (const Item item : items) ++counts_.fetch_items[static_cast<size_t>(item)];
    if (fetched_ && !Verify(part, request, done)) return done;
    done += served;
    if (served < part.size()) break;
  }
  if (fetched_) counts_.fetched_bytes += done * payload_bytes_;
  return done;
}

bool ReplayWorker::Verify(const Blocks& part, size_t request, size_t first) {
  for (size_t i = 0; i < part.size(); ++i) {
    if (items_[i] != Item::kDone) continue;
    const std::span<const std::byte> payload = fetched_->payload(i);
    const std::optional<uint64_t> offset = FirstWrongByte(part.key(i), payload);
    if (offset) {
      counts_.wrong = {.id = context_.workload.ids(request)[first + i],
                       .key = part.key(i),
                       .tier = where_[i],
                       .offset = *offset,
                       .count = CountWrongBytes(part.key(i), payload)};
      return false;
    }
    ++counts_.verified_blocks;
    ++counts_.verified[static_cast<size_t>(where_[i])];
  }
  return true;
}

Status ReplayWorker::PutAll(const Blocks& rest, size_t request) {
  const std::vector<PlannedHold>& holds = context_.plan.holds;
  const PutOptions options = {
      .hold = holds[HoldOfRequest(holds.size(), context_.options.seed, request)].hold,
      .payload_bytes = payload_bytes_,
      .request = request + 1};
  size_t done = 0;
  while (done < rest.size()) {
    const Blocks part = rest.Slice(done, window_);
    const std::span<Item> items = std::span(items_).first(part.size());
    Memory source = {.kind = Memory::Kind::kExtents};
    if (computed_) {
      source = computed_->memory(part.size());
      for (size_t i = 0; i < part.size(); ++i) FillPayload(part.key(i), computed_->payload(i));
      counts_.put_bytes += part.size() * payload_bytes_;
    }
    HF_ASSIGN_OR_RETURN(const size_t kept, context_.store.Put(part, source, options, items));
    for (const Item item : items) ++counts_.put_items[static_cast<size_t>(item)];
    done += part.size();
    if (kept < part.size()) break;
  }
  counts_.puts_left_out += rest.size() - done;
  return {};
}

}  // namespace holdfast::tools
