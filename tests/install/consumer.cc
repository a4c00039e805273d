// Somebody else's program: what it includes and links comes from the package alone.
#include <cstdio>
#include <vector>

#include <kvstore/store.h>

namespace {

using namespace holdfast;  // NOLINT: a consumer may

int Fail(const char* what, const Status& why) {
  std::fprintf(stderr, "consumer: %s: %s\n", what, why.ToString().c_str());
  return 1;
}

int Run() {
  constexpr size_t kBytes = 300'000;
  auto store = Store::Open({.ddr_bytes = 64 << 20,
                            .payload_bytes_max = 1 << 20,
                            .payload_bytes_typical = 1 << 20,
                            .page_bytes = 4 << 20});
  if (!store) return Fail("open", store.error());
  auto space = (*store)->OpenSpace({.model = "m", .block_tokens = 4});
  if (!space) return Fail("space", space.error());
  auto blocks = Blocks::FromTokens(**store, *space, std::vector<uint32_t>{1, 2, 3, 4});
  if (!blocks) return Fail("blocks", blocks.error());

  std::vector<std::byte> put(kBytes, std::byte{42}), got(kBytes);
  const uint32_t begin[] = {0, 1};
  const Extent from[] = {{put.data(), kBytes}}, to[] = {{got.data(), kBytes}};
  Item item{};
  const auto kept = (*store)->Put(
      *blocks, {.kind = Memory::Kind::kExtents, .extents = from, .extent_begin = begin}, {},
      {&item, 1});
  if (!kept) return Fail("put", kept.error());
  const auto done = (*store)->Fetch(
      *blocks, {.kind = Memory::Kind::kExtents, .extents = to, .extent_begin = begin}, {},
      {&item, 1});
  if (!done) return Fail("fetch", done.error());
  return *kept == 1 && *done == 1 && got == put ? 0 : 2;
}

}  // namespace

int main() { return Run(); }
