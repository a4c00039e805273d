// Keeps the KV blocks of a prompt for five minutes and finds them again: the example of README.md.
#include <cstdio>
#include <vector>

#include <kvstore/store.h>

using namespace holdfast;  // NOLINT: short to read
using namespace std::chrono_literals;

// One request: load what is here, compute the rest, keep it. The number of blocks loaded.
static size_t Serve(Store& store, SpaceId space, std::span<const uint32_t> prompt, LayoutId layout,
                    std::span<const int64_t> pages) {
  const Blocks blocks = *Blocks::FromTokens(store, space, prompt);  // hashed once
  const Match match = store.FindPrefix(blocks, 0, 30s);  // the longest resident run, leased
  const auto slots = Memory::Kind::kSlots;
  std::vector<Item> items(blocks.size());
  const size_t loaded =
      *store.Fetch(blocks.Slice(0, match.count),
                   {.kind = slots, .layout = layout, .slots = pages.first(match.count)}, {},
                   std::span(items).first(match.count));
  // Here the model computes what was not loaded into pages[loaded...].
  const Blocks rest = blocks.Slice(loaded, blocks.size() - loaded);
  const size_t kept =
      *store.Put(rest, {.kind = slots, .layout = layout, .slots = pages.subspan(loaded)},
                 {.hold = {5min}}, std::span(items).first(rest.size()));
  std::printf("%zu blocks loaded, %zu kept\n", loaded, kept);
  return loaded;
}

int main() {
  auto store = Store::Open({.ddr_bytes = 1ull << 30});
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().ToString().c_str());
    return 1;
  }
  const SpaceId space = *(*store)->OpenSpace({.model = "llama-3.1-8b", .block_tokens = 64});

  // The pages of the inference server, one after the other.
  constexpr uint64_t kSlotBytes = 2ull << 20;
  std::vector<std::byte> cache(4 * kSlotBytes);
  const Stripe stripe{
      .region = *(*store)->AddRegion(cache), .stride = kSlotBytes, .bytes = kSlotBytes};
  const LayoutId layout = *(*store)->AddLayout({&stripe, 1});
  const int64_t pages[] = {0, 1, 2, 3};
  const std::vector<uint32_t> prompt(256, 7);  // four blocks

  const size_t cold = Serve(**store, space, prompt, layout, pages);
  const size_t warm = Serve(**store, space, prompt, layout, pages);
  return cold == 0 && warm == 4 ? 0 : 1;
}
