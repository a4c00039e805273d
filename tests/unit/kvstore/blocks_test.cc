#include "kvstore/blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kvstore/sha256.h"

namespace holdfast {
namespace {

using Bytes = std::span<const std::byte>;

Bytes Of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::byte> Counting(size_t first, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

// The 16 bytes as they lie.
std::string Hex(const BlockKey& key) {
  std::array<unsigned char, sizeof(key)> bytes{};
  std::memcpy(bytes.data(), &key, sizeof(key));
  std::string text;
  for (const unsigned char b : bytes) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

SpaceSpec FullSpec() {
  SpaceSpec spec;
  spec.model = "llama-3.1-8b";
  spec.weights_digest = "sha256:00ff";
  spec.dtype = "bf16";
  spec.layout = "nhd";
  spec.shard = "tp0/8";
  spec.adapter = "lora-1";
  spec.tenant = "acme";
  spec.salt = "pepper";
  spec.block_tokens = 4;
  spec.key_bytes = 32;
  spec.extra = {{"rope", "x"}, {"group", "0"}};
  return spec;
}

KeySpace SpaceOf(const SpaceSpec& spec, uint32_t epoch = 3) {
  KeySpace space;
  space.id = 7;
  space.epoch = epoch;
  space.block_tokens = spec.block_tokens;
  space.key_bytes = spec.key_bytes;
  space.root = SpaceRoot(spec, Counting(0, 32), epoch);
  return space;
}

Blocks Tokens(const KeySpace& space, std::span<const uint32_t> tokens,
              std::span<const BlockExtra> extras = {}) {
  auto blocks = Blocks::FromTokens(space, tokens, extras);
  EXPECT_TRUE(blocks.has_value()) << blocks.error().ToString();
  return blocks.has_value() ? *std::move(blocks) : Blocks();
}

Blocks Keys(const KeySpace& space, Bytes packed, const Chain& chain = {}) {
  auto blocks = Blocks::FromKeys(space, packed, chain);
  EXPECT_TRUE(blocks.has_value()) << blocks.error().ToString();
  return blocks.has_value() ? *std::move(blocks) : Blocks();
}

std::vector<std::string> HexOf(const Blocks& blocks) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < blocks.size(); ++i) keys.push_back(Hex(blocks.key(i)));
  return keys;
}

template <typename T>
void ExpectInvalid(const Result<T>& result, std::string_view field) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(result.error().message().starts_with(field)) << result.error().message();
}

void ExpectInvalid(const Status& status, std::string_view field) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(status.message().starts_with(field)) << status.message();
}

TEST(Sha256Test, AgreesWithThePublishedVectors) {
  // FIPS 180-2, appendix B: "abc", the empty string, and 56 bytes, which need a second chunk.
  EXPECT_EQ(Hex(internal::Sha256Prefix({Of("abc")})), "ba7816bf8f01cfea414140de5dae2223");
  EXPECT_EQ(Hex(internal::Sha256Prefix({})), "e3b0c44298fc1c149afbf4c8996fb924");
  const std::string_view long_text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  EXPECT_EQ(Hex(internal::Sha256Prefix({Of(long_text)})), "248d6a61d20638b8e5c026930c3e6039");
}

TEST(Sha256Test, PiecesAreOneString) {
  EXPECT_EQ(internal::Sha256Prefix({Of("a"), Of(""), Of("bc")}),
            internal::Sha256Prefix({Of("abc")}));
}

// Computed by another program (Python's hashlib) from the byte strings of docs/format.md. They are
// on media and between stores that share keys: they never change.
TEST(BlocksTest, KeysAreTheSameInEveryProcess) {
  const SpaceSpec spec = FullSpec();
  EXPECT_EQ(Hex(SpaceIdentity(spec, Counting(0, 32))), "ca40334fded9d710c86041382bf0e6cd");
  EXPECT_EQ(Hex(SpaceRoot(spec, Counting(0, 32), 3)), "228d9d7009438be74230f13bb3e888e3");
  SpaceSpec bare;
  bare.block_tokens = 4;
  EXPECT_EQ(Hex(SpaceRoot(bare, {}, 0)), "55f07dfbf9dab6368d70916253c6774f");

  const std::vector<uint32_t> tokens = {0, 1, 2, 3, 4, 5, 6, 0xffffffff, 7, 8, 9, 10};
  const BlockExtra extras[] = {{2, Of("image")}, {2, Of("")}};
  EXPECT_EQ(HexOf(Tokens(SpaceOf(spec), tokens, extras)),
            (std::vector<std::string>{"71a204fca9a66f9b445d44048a239a37",
                                      "99c889b0a373e28495d695a5a4a8f5c6",
                                      "a21bee41c3d52b250c56fd1493e38bb6"}));
  EXPECT_EQ(Hex(Keys(SpaceOf(spec), Counting(100, 32)).key(0)), "2927a739c464c1ebd1306ab7a10f4812");
}

// Every spec that differs from FullSpec in one place.
std::vector<SpaceSpec> SpecsThatDiffer() {
  std::vector<SpaceSpec> specs;
  for (std::string SpaceSpec::*field :
       {&SpaceSpec::model, &SpaceSpec::weights_digest, &SpaceSpec::dtype, &SpaceSpec::layout,
        &SpaceSpec::shard, &SpaceSpec::adapter, &SpaceSpec::tenant, &SpaceSpec::salt}) {
    const std::string before = FullSpec().*field;
    for (const std::string& value :
         {std::string(), before + '\0', before + "x", before.substr(1), "X" + before.substr(1)}) {
      specs.push_back(FullSpec());
      specs.back().*field = value;
    }
  }
  for (uint32_t SpaceSpec::*field : {&SpaceSpec::block_tokens, &SpaceSpec::key_bytes}) {
    for (int bit = 0; bit < 32; ++bit) {
      specs.push_back(FullSpec());
      specs.back().*field ^= 1u << bit;
    }
  }
  const std::vector<decltype(SpaceSpec::extra)> extras = {
      {},
      {{"rope", "x"}},
      {{"group", "0"}},
      {{"rope", "0"}, {"group", "x"}},
      {{"rope", "x0"}, {"group", ""}},
      {{"rop", "ex"}, {"group", "0"}},
      {{"x", "rope"}, {"0", "group"}},
      {{"rope", "x"}, {"group", "0"}, {"", ""}},
  };
  for (const auto& extra : extras) {
    specs.push_back(FullSpec());
    specs.back().extra = extra;
  }
  return specs;
}

TEST(SpaceTest, EachFieldCounts) {
  const auto secret = Counting(0, 32);
  std::set<std::string> identities = {Hex(SpaceIdentity(FullSpec(), secret))};
  std::set<std::string> roots = {Hex(SpaceRoot(FullSpec(), secret, 3))};
  for (const SpaceSpec& spec : SpecsThatDiffer()) {
    EXPECT_TRUE(identities.insert(Hex(SpaceIdentity(spec, secret))).second);
    EXPECT_TRUE(roots.insert(Hex(SpaceRoot(spec, secret, 3))).second);
  }
  EXPECT_GT(roots.size(), 100u);
}

TEST(SpaceTest, ValuesThatSwapFieldsGiveAnotherRoot) {
  std::set<std::string> roots;
  const std::vector<std::string SpaceSpec::*> fields = {
      &SpaceSpec::model, &SpaceSpec::weights_digest, &SpaceSpec::dtype,  &SpaceSpec::layout,
      &SpaceSpec::shard, &SpaceSpec::adapter,        &SpaceSpec::tenant, &SpaceSpec::salt};
  for (const auto field : fields) {
    SpaceSpec spec;
    spec.block_tokens = 4;
    spec.*field = "same";
    roots.insert(Hex(SpaceRoot(spec, {}, 0)));
  }
  EXPECT_EQ(roots.size(), fields.size());
}

TEST(SpaceTest, EachBitOfTheSecretAndOfTheEpochCounts) {
  auto secret = Counting(0, 32);
  std::set<std::string> roots = {Hex(SpaceRoot(FullSpec(), secret, 3)),
                                 Hex(SpaceRoot(FullSpec(), {}, 3))};
  std::set<std::string> identities = {Hex(SpaceIdentity(FullSpec(), secret)),
                                      Hex(SpaceIdentity(FullSpec(), {}))};
  EXPECT_EQ(roots.size() + identities.size(), 4u);
  for (size_t bit = 0; bit < 256; ++bit) {
    secret[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(roots.insert(Hex(SpaceRoot(FullSpec(), secret, 3))).second) << bit;
    EXPECT_TRUE(identities.insert(Hex(SpaceIdentity(FullSpec(), secret))).second) << bit;
    secret[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_TRUE(roots.insert(Hex(SpaceRoot(FullSpec(), secret, 3u ^ (1u << bit)))).second) << bit;
  }
}

// Failure kind 11.
TEST(SpaceTest, NamespacesDoNotAlias) {
  using std::string_literals::operator""s;
  const std::vector<std::string> values = {
      "",    "a",     "b",   "ab",   "/",         "a/",    "/a",   "a/b",
      ":",   "a:b",   "\0"s, "a\0"s, "\0a"s,      "a\0b"s, "\n",   ",",
      "a,b", "\x01"s, "|",   " ",    "\x07\x01"s, "\xff",  "none", "a\0\0\0\0\0\0\0\0b"s};
  std::set<std::string> roots;
  size_t triples = 0;
  for (const std::string& tenant : values) {
    for (const std::string& salt : values) {
      for (const std::string& adapter : values) {
        SpaceSpec spec;
        spec.block_tokens = 16;
        spec.tenant = tenant;
        spec.salt = salt;
        spec.adapter = adapter;
        roots.insert(Hex(SpaceRoot(spec, {}, 0)));
        ++triples;
      }
    }
  }
  EXPECT_EQ(roots.size(), triples);
}

TEST(SpaceTest, OrderOfExtraFactsDoesNotMatter) {
  SpaceSpec turned = FullSpec();
  std::reverse(turned.extra.begin(), turned.extra.end());
  EXPECT_EQ(SpaceIdentity(turned, {}), SpaceIdentity(FullSpec(), {}));
  EXPECT_EQ(SpaceRoot(turned, {}, 1), SpaceRoot(FullSpec(), {}, 1));
}

TEST(SpaceTest, SpecsThatCannotWorkAreRefusedByName) {
  EXPECT_TRUE(CheckSpaceSpec(FullSpec()).ok());
  SpaceSpec spec = FullSpec();
  spec.block_tokens = spec.key_bytes = 0;
  ExpectInvalid(CheckSpaceSpec(spec), "block_tokens, key_bytes");
  for (const uint32_t key_bytes : {1u, 15u, 65u, UINT32_MAX}) {
    spec = FullSpec();
    spec.key_bytes = key_bytes;
    ExpectInvalid(CheckSpaceSpec(spec), "key_bytes");
  }
  for (const uint32_t key_bytes : {0u, 16u, 64u}) {
    spec = FullSpec();
    spec.key_bytes = key_bytes;
    EXPECT_TRUE(CheckSpaceSpec(spec).ok()) << key_bytes;
  }
  const std::vector<std::pair<std::string_view, std::string SpaceSpec::*>> fields = {
      {"model", &SpaceSpec::model},   {"weights_digest", &SpaceSpec::weights_digest},
      {"dtype", &SpaceSpec::dtype},   {"layout", &SpaceSpec::layout},
      {"shard", &SpaceSpec::shard},   {"adapter", &SpaceSpec::adapter},
      {"tenant", &SpaceSpec::tenant}, {"salt", &SpaceSpec::salt}};
  for (const auto& [name, field] : fields) {
    spec = FullSpec();
    spec.*field = std::string(4096, 'x');
    EXPECT_TRUE(CheckSpaceSpec(spec).ok()) << name;
    spec.*field += 'x';
    ExpectInvalid(CheckSpaceSpec(spec), name);
  }
  spec = FullSpec();
  spec.extra = {{std::string(4097, 'x'), ""}};
  ExpectInvalid(CheckSpaceSpec(spec), "extra name");
  spec.extra = {{"rope", std::string(4097, 'x')}};
  ExpectInvalid(CheckSpaceSpec(spec), "extra \"rope\"");
  spec.extra = {{"rope", "1"}, {"group", "1"}, {"rope", "2"}};
  ExpectInvalid(CheckSpaceSpec(spec), "extra: \"rope\"");
}

// Failure kind 12: each position, the last one of a block too, and all after it.
TEST(BlocksTest, EachTokenCountsForItsBlockAndAllAfterIt) {
  const KeySpace space = SpaceOf(FullSpec());
  std::vector<uint32_t> tokens(20);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint32_t>(1000 + i);
  const auto before = HexOf(Tokens(space, tokens));
  ASSERT_EQ(before.size(), 5u);
  std::set<std::string> all(before.begin(), before.end());
  EXPECT_EQ(all.size(), 5u);
  for (size_t position = 0; position < tokens.size(); ++position) {
    for (const uint32_t bit : {0u, 7u, 8u, 15u, 16u, 24u, 31u}) {
      tokens[position] ^= 1u << bit;
      const auto after = HexOf(Tokens(space, tokens));
      for (size_t i = 0; i < 5; ++i) {
        if (i < position / 4) {
          EXPECT_EQ(after[i], before[i]);
        } else {
          EXPECT_TRUE(all.insert(after[i]).second) << position << " " << bit << " " << i;
        }
      }
      tokens[position] ^= 1u << bit;
    }
  }
}

TEST(BlocksTest, TokensThatChangePlacesGiveOtherKeys) {
  const KeySpace space = SpaceOf(FullSpec());
  std::vector<uint32_t> tokens = {1, 2, 3, 4};
  std::set<std::string> keys;
  size_t orders = 0;
  do {
    keys.insert(Hex(Tokens(space, tokens).key(0)));
    ++orders;
  } while (std::next_permutation(tokens.begin(), tokens.end()));
  EXPECT_EQ(keys.size(), orders);
}

TEST(BlocksTest, RootAndBlockLengthCount) {
  const std::vector<uint32_t> tokens(8, 5);
  std::set<std::string> keys;
  KeySpace space = SpaceOf(FullSpec());
  keys.insert(Hex(Tokens(space, tokens).key(0)));
  for (size_t bit = 0; bit < 128; ++bit) {
    KeySpace other = space;
    (bit < 64 ? other.root.hi : other.root.lo) ^= 1ull << (bit % 64);
    EXPECT_TRUE(keys.insert(Hex(Tokens(other, tokens).key(0))).second) << bit;
  }
  for (const uint32_t block_tokens : {1u, 2u, 8u}) {
    space.block_tokens = block_tokens;
    EXPECT_TRUE(keys.insert(Hex(Tokens(space, tokens).key(0))).second) << block_tokens;
  }
}

TEST(BlocksTest, ExtrasCountForTheirBlockAndAllAfterIt) {
  const KeySpace space = SpaceOf(FullSpec());
  const std::vector<uint32_t> tokens(16, 9);
  const auto plain = HexOf(Tokens(space, tokens));
  std::set<std::string> all(plain.begin(), plain.end());
  const auto expect_new = [&](std::span<const BlockExtra> extras, size_t first) {
    const auto keys = HexOf(Tokens(space, tokens, extras));
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i < first) {
        EXPECT_EQ(keys[i], plain[i]);
      } else {
        EXPECT_TRUE(all.insert(keys[i]).second) << first << " " << i;
      }
    }
  };
  for (uint32_t block = 0; block < 4; ++block) {
    const BlockExtra empty[] = {{block, {}}};
    expect_new(empty, block);
    auto digest = Counting(0, 32);
    const BlockExtra one[] = {{block, digest}};
    expect_new(one, block);
    for (size_t bit = 0; bit < 256; ++bit) {
      digest[bit / 8] ^= std::byte{1} << (bit % 8);
      expect_new(one, block);
      digest[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    const BlockExtra ab_c[] = {{block, Of("ab")}, {block, Of("c")}};
    const BlockExtra a_bc[] = {{block, Of("a")}, {block, Of("bc")}};
    const BlockExtra c_ab[] = {{block, Of("c")}, {block, Of("ab")}};
    const BlockExtra abc[] = {{block, Of("abc")}};
    const BlockExtra abc_empty[] = {{block, Of("abc")}, {block, {}}};
    expect_new(ab_c, block);
    expect_new(a_bc, block);
    expect_new(c_ab, block);
    expect_new(abc, block);
    expect_new(abc_empty, block);
  }
}

TEST(BlocksTest, ExtrasOfDifferentBlocksComeInAnyOrder) {
  const KeySpace space = SpaceOf(FullSpec());
  const std::vector<uint32_t> tokens(16, 9);
  const BlockExtra sorted[] = {{0, Of("a")}, {2, Of("b")}, {2, Of("c")}, {3, Of("d")}};
  const BlockExtra mixed[] = {{3, Of("d")}, {2, Of("b")}, {0, Of("a")}, {2, Of("c")}};
  EXPECT_EQ(HexOf(Tokens(space, tokens, sorted)), HexOf(Tokens(space, tokens, mixed)));
}

TEST(BlocksTest, OnlyFullBlocksOfThePromptCount) {
  const KeySpace space = SpaceOf(FullSpec());
  const std::vector<uint32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Blocks blocks = Tokens(space, tokens);
  EXPECT_EQ(blocks.size(), 2u);
  EXPECT_EQ(HexOf(blocks), HexOf(Tokens(space, std::span(tokens).first(8))));
  EXPECT_EQ(Tokens(space, std::span(tokens).first(3)).size(), 0u);
  EXPECT_EQ(Tokens(space, {}).size(), 0u);

  const BlockExtra of_rest[] = {{2, Of("image")}};
  EXPECT_EQ(HexOf(Tokens(space, tokens, of_rest)), HexOf(blocks));
  ExpectInvalid(Blocks::FromTokens(space, std::span(tokens).first(8), of_rest),
                "extras[0].block: 2");
  const BlockExtra beyond[] = {{0, Of("image")}, {3, Of("image")}};
  ExpectInvalid(Blocks::FromTokens(space, tokens, beyond), "extras[1].block: 3");
}

TEST(BlocksTest, AnExtensionKeepsTheKeysOfItsPrefix) {
  const KeySpace space = SpaceOf(FullSpec());
  std::vector<uint32_t> tokens(40, 1);
  const auto prefix = HexOf(Tokens(space, std::span(tokens).first(16)));
  auto all = HexOf(Tokens(space, tokens));
  all.resize(prefix.size());
  EXPECT_EQ(all, prefix);
}

TEST(BlocksTest, EachBitOfAnExternalKeyCountsAndItsPlaceDoesNot) {
  for (const uint32_t key_bytes : {16u, 32u, 64u}) {
    SpaceSpec spec = FullSpec();
    spec.key_bytes = key_bytes;
    const KeySpace space = SpaceOf(spec);
    auto packed = Counting(1, size_t{key_bytes} * 2);
    std::set<std::string> all;
    const Blocks blocks = Keys(space, packed);
    ASSERT_EQ(blocks.size(), 2u);
    for (const auto& key : HexOf(blocks)) EXPECT_TRUE(all.insert(key).second);
    for (size_t bit = 0; bit < size_t{key_bytes} * 8; ++bit) {
      packed[bit / 8] ^= std::byte{1} << (bit % 8);
      const Blocks changed = Keys(space, packed);
      EXPECT_TRUE(all.insert(Hex(changed.key(0))).second) << bit;
      EXPECT_EQ(changed.key(1), blocks.key(1));
      packed[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    std::rotate(packed.begin(), packed.begin() + key_bytes, packed.end());
    EXPECT_EQ(Keys(space, packed).key(0), blocks.key(1));
  }
}

TEST(BlocksTest, ChainGivesOrderAndNeverIdentity) {
  const KeySpace space = SpaceOf(FullSpec());
  const auto packed = Counting(0, 96);
  const auto parent = Counting(200, 32);
  const Blocks loose = Keys(space, packed);
  const Blocks linked =
      Keys(space, packed, {.linked = true, .first_position = 10, .parent = parent});
  EXPECT_EQ(HexOf(loose), HexOf(linked));

  EXPECT_FALSE(loose.linked());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(loose.parent(i), BlockKey{});
  EXPECT_TRUE(linked.linked());
  EXPECT_EQ(linked.parent(0), Keys(space, parent).key(0));
  EXPECT_EQ(linked.parent(1), linked.key(0));
  EXPECT_EQ(linked.parent(2), linked.key(1));
  EXPECT_EQ(linked.position(0), 10u);
  EXPECT_EQ(linked.position(2), 12u);
  EXPECT_TRUE(std::ranges::equal(linked.external(1), std::span(packed).subspan(32, 32)));
  EXPECT_EQ(Keys(space, packed, {.linked = true}).parent(0), BlockKey{});
}

TEST(BlocksTest, EachBitOfAParentKeyCounts) {
  const KeySpace space = SpaceOf(FullSpec());
  auto parent = Counting(200, 32);
  std::set<std::string> parents = {Hex(BlockKey{})};
  const auto packed = Counting(0, 32);
  const auto add = [&] {
    const Blocks blocks = Keys(space, packed, {.linked = true, .parent = parent});
    EXPECT_TRUE(parents.insert(Hex(blocks.parent(0))).second);
  };
  add();
  for (size_t bit = 0; bit < 256; ++bit) {
    parent[bit / 8] ^= std::byte{1} << (bit % 8);
    add();
    parent[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

// A token block whose tokens spell the external key is still another block.
TEST(BlocksTest, TokensAndExternalKeysDoNotMeet) {
  SpaceSpec spec = FullSpec();
  spec.key_bytes = 16;
  const KeySpace space = SpaceOf(spec);
  const std::vector<uint32_t> tokens = {1, 2, 3, 4};
  EXPECT_NE(Tokens(space, tokens).key(0), Keys(space, std::as_bytes(std::span(tokens))).key(0));
}

TEST(BlocksTest, ArgumentsThatDoNotFitTheSpaceAreRefusedByName) {
  KeySpace space = SpaceOf(FullSpec());
  const auto packed = Counting(0, 64);
  const std::vector<uint32_t> tokens(8);
  for (const size_t length : {1u, 31u, 33u, 63u}) {
    ExpectInvalid(Blocks::FromKeys(space, std::span(packed).first(length)), "packed");
    const Chain chain{.linked = true, .parent = std::span(packed).first(length)};
    ExpectInvalid(Blocks::FromKeys(space, packed, chain), "chain.parent");
  }
  ExpectInvalid(Blocks::FromKeys(space, packed, {.parent = std::span(packed).first(32)}),
                "chain.parent");
  ExpectInvalid(Blocks::FromKeys(space, packed, {.linked = true, .first_position = UINT32_MAX - 1}),
                "chain.first_position");
  EXPECT_EQ(Keys(space, packed, {.linked = true, .first_position = UINT32_MAX - 2}).size(), 2u);

  // Lengths that no memory backs: refused before anything is read.
  const uint64_t count = (1ull << 31) + 1;
  ExpectInvalid(Blocks::FromKeys(space, Bytes(packed.data(), count * 32)), "blocks");
  ExpectInvalid(Blocks::FromTokens(space, std::span<const uint32_t>(tokens.data(), count * 4)),
                "blocks");

  space.block_tokens = space.key_bytes = 0;
  ExpectInvalid(Blocks::FromTokens(space, tokens), "space.block_tokens");
  ExpectInvalid(Blocks::FromKeys(space, packed), "space.key_bytes");
  for (const uint32_t key_bytes : {8u, 65u}) {
    space.key_bytes = key_bytes;
    ExpectInvalid(Blocks::FromKeys(space, {}), "space.key_bytes");
  }
}

TEST(BlocksTest, SlicesShareKeysAndAreCutToWhatIsThere) {
  const KeySpace space = SpaceOf(FullSpec());
  const std::vector<uint32_t> tokens(40, 3);
  const Blocks blocks = Tokens(space, tokens);
  const Blocks middle = blocks.Slice(3, 4).Slice(1, 2);
  ASSERT_EQ(middle.size(), 2u);
  EXPECT_EQ(&middle.key(0), &blocks.key(4));
  EXPECT_EQ(middle.position(0), 4u);
  EXPECT_EQ(middle.parent(0), blocks.key(3));
  EXPECT_EQ(middle.space(), 7u);
  EXPECT_EQ(middle.epoch(), 3u);
  EXPECT_EQ(middle.root(), space.root);
  EXPECT_TRUE(middle.external(0).empty());
  constexpr size_t kMax = std::numeric_limits<size_t>::max();
  EXPECT_EQ(blocks.Slice(8, kMax).size(), 2u);
  EXPECT_EQ(blocks.Slice(10, 1).size(), 0u);
  EXPECT_EQ(blocks.Slice(kMax, kMax).size(), 0u);
  EXPECT_EQ(middle.Slice(1, 9).size(), 1u);
  EXPECT_EQ(Blocks().Slice(0, 1).size(), 0u);
}

TEST(BlocksTest, SlicesOutliveTheirOrigin) {
  Blocks slice;
  std::string expected;
  {
    const Blocks blocks = Keys(SpaceOf(FullSpec()), Counting(0, 96));
    slice = blocks.Slice(2, 1);
    expected = Hex(blocks.key(2));
  }
  EXPECT_EQ(Hex(slice.key(0)), expected);
  EXPECT_TRUE(std::ranges::equal(slice.external(0), Counting(64, 32)));
}

}  // namespace
}  // namespace holdfast
