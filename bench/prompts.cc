#include "bench/prompts.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include <unistd.h>

namespace holdfast::bench {
namespace {

constexpr uint64_t kPayloadBytes = 2u << 20;
constexpr Duration kLease = std::chrono::seconds(30);

uint64_t Mix(uint64_t x) {  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// 0 where the kernel does not say.
uint64_t ResidentBytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0, resident = 0;
  const int fields = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return fields == 2 ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

StoreOptions OptionsFor(size_t blocks) {
  StoreOptions options;
  options.bytes = false;
  options.payload_bytes_max = kPayloadBytes;
  options.payload_bytes_typical = kPayloadBytes;
  const uint64_t frames_a_page = options.page_bytes / FrameBytes(kPayloadBytes);
  options.ddr_bytes = (blocks / frames_a_page + 4) * options.page_bytes;
  options.index_entries_max = blocks;
  options.lease_share_max = 1;
  return options;
}

}  // namespace

Result<std::vector<Blocks>> HashChains(const KeySpace& space, size_t chains, uint64_t seed,
                                       Duration& took) {
  std::vector<Blocks> hashed;
  hashed.reserve(chains);
  std::vector<uint32_t> tokens(Prompts::kChainBlocks * Prompts::kBlockTokens);
  took = {};
  for (size_t chain = 0; chain < chains; ++chain) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<uint32_t>(Mix(Mix(seed) + chain * tokens.size() + i));
    }
    const Instant started = Clock::System().Now();
    HF_ASSIGN_OR_RETURN(Blocks blocks, Blocks::FromTokens(space, tokens));
    took += Clock::System().Now() - started;
    hashed.push_back(std::move(blocks));
  }
  return hashed;
}

Status PutWithoutBytes(Store& store, const Blocks& chain) {
  std::vector<Item> items(chain.size());
  HF_ASSIGN_OR_RETURN(const size_t kept, store.Put(chain, {.kind = Memory::Kind::kExtents},
                                                   {.payload_bytes = kPayloadBytes}, items));
  if (kept == chain.size()) return {};
  return {StatusCode::kResourceExhausted,
          "look-ups: a block was not kept: " + std::string(ToString(items[kept]))};
}

Status LookUp(Store& store, const Blocks& chain, uint64_t request) {
  const Match match = store.FindPrefix(chain, 0, kLease);
  store.Touch(chain, request);
  if (match.count == chain.size()) return {};
  return {StatusCode::kInternal, "look-ups: only " + std::to_string(match.count) + " of " +
                                     std::to_string(chain.size()) + " blocks were found"};
}

size_t ChainOrder::Next() noexcept {
  state_ += 0x9e3779b97f4a7c15u;
  return Mix(state_) % chains_;
}

Result<std::unique_ptr<Prompts>> MakePrompts(const PromptsOptions& options) {
  auto prompts = std::make_unique<Prompts>();
  const size_t chains = options.blocks / Prompts::kChainBlocks;
  SpaceSpec spec;
  spec.model = "bench";
  spec.block_tokens = Prompts::kBlockTokens;
  const StoreOptions store = OptionsFor(options.blocks + options.spare);
  const uint64_t resident_before = ResidentBytes();
  Environment environment;
  environment.driver_thread = options.driver_thread;
  HF_ASSIGN_OR_RETURN(prompts->store, Store::Open(store, environment));
  HF_ASSIGN_OR_RETURN(const SpaceId id, prompts->store->OpenSpace(spec));
  HF_ASSIGN_OR_RETURN(prompts->space, prompts->store->Space(id));
  HF_ASSIGN_OR_RETURN(prompts->chains,
                      HashChains(prompts->space, chains, options.seed, prompts->hashing));
  for (const Blocks& chain : prompts->chains) {
    HF_RETURN_IF_ERROR(PutWithoutBytes(*prompts->store, chain));
  }
  const uint64_t resident = ResidentBytes();
  const uint64_t keys_bytes = prompts->blocks() * sizeof(BlockKey);
  prompts->resident_bytes =
      resident > resident_before + keys_bytes ? resident - resident_before - keys_bytes : 0;
  return prompts;
}

}  // namespace holdfast::bench
