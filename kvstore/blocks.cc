#include "kvstore/blocks.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "kvstore/sha256.h"

// The byte strings hashed here are in docs/format.md, "Identity". They are on media: a change of
// one of them is a new format version.

namespace holdfast {
namespace {

using internal::Sha256Prefix;
using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "integers are hashed as they lie");

// What a hash is of, first in every string, so that no two kinds can meet.
constexpr size_t kDomainBytes = 16;
constexpr char kSpaceDomain[] = "holdfast.space/1";
constexpr char kRootDomain[] = "holdfast.epoch/1";
constexpr char kChainDomain[] = "holdfast.chain/1";
constexpr char kExternalDomain[] = "holdfast.exkey/1";
static_assert(sizeof(kSpaceDomain) == kDomainBytes + 1 && sizeof(kRootDomain) == kDomainBytes + 1);
static_assert(sizeof(kChainDomain) == kDomainBytes + 1 &&
              sizeof(kExternalDomain) == kDomainBytes + 1);

// Tags of the fields of a key space and of what is attached to a block.
enum class Field : uint8_t {
  kSecret = 1,
  kModel,
  kWeightsDigest,
  kDtype,
  kLayout,
  kShard,
  kAdapter,
  kTenant,
  kSalt,
  kBlockTokens,
  kKeyBytes,
  kExtraName,
  kExtraValue,
  kEpoch,
  kBlockExtra,
};

constexpr uint64_t kBlocksMax = 1ull << 31;
constexpr size_t kSpecStringBytesMax = 4096;
constexpr uint32_t kExternalBytesMin = 16;
constexpr uint32_t kExternalBytesMax = 64;

// Fields one after the other, each as tag, length in 8 bytes, bytes. No two lists of fields give
// the same string, whatever the bytes are.
class Fields {
 public:
  void Add(Field field, Bytes bytes) {
    const uint64_t length = bytes.size();
    out_.push_back(static_cast<std::byte>(field));
    const Bytes length_bytes = std::as_bytes(std::span(&length, 1));
    out_.insert(out_.end(), length_bytes.begin(), length_bytes.end());
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void Add(Field field, std::string_view text) { Add(field, std::as_bytes(std::span(text))); }
  void Add(Field field, uint32_t value) { Add(field, std::as_bytes(std::span(&value, 1))); }
  void Clear() noexcept { out_.clear(); }
  Bytes bytes() const noexcept { return out_; }

 private:
  std::vector<std::byte> out_;
};

Bytes DomainBytes(const char* domain) {
  return std::as_bytes(std::span<const char>(domain, kDomainBytes));
}

Fields SpaceFields(const SpaceSpec& spec, Bytes secret) {
  Fields fields;
  fields.Add(Field::kSecret, secret);
  fields.Add(Field::kModel, spec.model);
  fields.Add(Field::kWeightsDigest, spec.weights_digest);
  fields.Add(Field::kDtype, spec.dtype);
  fields.Add(Field::kLayout, spec.layout);
  fields.Add(Field::kShard, spec.shard);
  fields.Add(Field::kAdapter, spec.adapter);
  fields.Add(Field::kTenant, spec.tenant);
  fields.Add(Field::kSalt, spec.salt);
  fields.Add(Field::kBlockTokens, spec.block_tokens);
  fields.Add(Field::kKeyBytes, spec.key_bytes);
  auto extra = spec.extra;
  std::sort(extra.begin(), extra.end());
  for (const auto& [name, value] : extra) {
    fields.Add(Field::kExtraName, name);
    fields.Add(Field::kExtraValue, value);
  }
  return fields;
}

// The fixed part of a token block's string; the tokens and the extras follow.
struct ChainHead {
  char domain[kDomainBytes] = {};
  RootKey root;
  BlockKey parent;
  uint32_t tokens = 0;
};
constexpr size_t kChainHeadBytes = kDomainBytes + 2 * sizeof(BlockKey) + sizeof(uint32_t);
static_assert(offsetof(ChainHead, tokens) + sizeof(uint32_t) == kChainHeadBytes);

// The string of an external key up to the key itself.
struct ExternalHead {
  char domain[kDomainBytes] = {};
  RootKey root;
  uint32_t key_bytes = 0;
};
constexpr size_t kExternalHeadBytes = kDomainBytes + sizeof(RootKey) + sizeof(uint32_t);
static_assert(offsetof(ExternalHead, key_bytes) + sizeof(uint32_t) == kExternalHeadBytes);

// Head and key in one piece: one update of the hash instead of two.
class ExternalHasher {
 public:
  explicit ExternalHasher(const KeySpace& space) noexcept : key_bytes_(space.key_bytes) {
    ExternalHead head;
    std::memcpy(head.domain, kExternalDomain, kDomainBytes);
    head.root = space.root;
    head.key_bytes = space.key_bytes;
    std::memcpy(text_, &head, kExternalHeadBytes);
  }
  BlockKey operator()(const std::byte* external) noexcept {
    std::memcpy(text_ + kExternalHeadBytes, external, key_bytes_);
    return Sha256Prefix({Bytes(text_, kExternalHeadBytes + key_bytes_)});
  }

 private:
  uint32_t key_bytes_;
  std::byte text_[kExternalHeadBytes + kExternalBytesMax];
};

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

// Indices of the extras of the `count` full blocks by block, those of one block as they came.
// `rest`: a partial block follows the full ones; extras of it are left out with its tokens.
Result<std::vector<size_t>> SortExtras(std::span<const BlockExtra> extras, size_t count,
                                       bool rest) {
  std::vector<size_t> order;
  order.reserve(extras.size());
  for (size_t i = 0; i < extras.size(); ++i) {
    const uint32_t block = extras[i].block;
    if (block < count) {
      order.push_back(i);
    } else if (block > count || !rest) {
      return Invalid("extras[" + std::to_string(i) + "].block: " + std::to_string(block) +
                     "; the tokens make " + std::to_string(count) + " full blocks" +
                     (rest ? " and a part of one" : ""));
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return extras[a].block < extras[b].block; });
  return order;
}

Status CheckCount(size_t count, uint32_t first_position) {
  if (count > kBlocksMax) {
    return Invalid("blocks: " + std::to_string(count) + "; at most 2^31");
  }
  if (count > UINT32_MAX - first_position) {
    return Invalid("chain.first_position: " + std::to_string(first_position) + " with " +
                   std::to_string(count) + " keys; positions end at 2^32 - 1");
  }
  return {};
}

Status NoMemory(size_t count) {
  return Status(StatusCode::kResourceExhausted,
                "blocks: no memory for the keys of " + std::to_string(count));
}

}  // namespace

Result<Blocks> Blocks::FromTokens(const KeySpace& space, std::span<const uint32_t> tokens,
                                  std::span<const BlockExtra> extras) {
  if (space.block_tokens == 0) {
    return Invalid("space.block_tokens: 0; this key space takes external keys only");
  }
  const size_t count = tokens.size() / space.block_tokens;
  HF_RETURN_IF_ERROR(CheckCount(count, 0));
  HF_ASSIGN_OR_RETURN(const std::vector<size_t> order,
                      SortExtras(extras, count, tokens.size() % space.block_tokens != 0));

  auto data = std::make_shared<Data>();
  data->space = space;
  data->linked = true;
  try {
    data->keys.reserve(count);
  } catch (const std::bad_alloc&) {
    return NoMemory(count);
  }
  ChainHead head;
  std::memcpy(head.domain, kChainDomain, kDomainBytes);
  head.root = space.root;
  head.tokens = space.block_tokens;
  const Bytes head_bytes(reinterpret_cast<const std::byte*>(&head), kChainHeadBytes);
  Fields attached;
  auto next_extra = order.begin();
  for (size_t i = 0; i < count; ++i) {
    attached.Clear();
    for (; next_extra != order.end() && extras[*next_extra].block == i; ++next_extra) {
      attached.Add(Field::kBlockExtra, extras[*next_extra].bytes);
    }
    const auto block = tokens.subspan(i * space.block_tokens, space.block_tokens);
    head.parent = Sha256Prefix({head_bytes, std::as_bytes(block), attached.bytes()});
    data->keys.push_back(head.parent);
  }
  Blocks blocks;
  blocks.data_ = std::move(data);
  blocks.count_ = count;
  return blocks;
}

Result<Blocks> Blocks::FromKeys(const KeySpace& space, std::span<const std::byte> packed,
                                const Chain& chain) {
  const uint32_t key_bytes = space.key_bytes;
  if (key_bytes == 0) {
    return Invalid("space.key_bytes: 0; this key space takes tokens only");
  }
  if (key_bytes < kExternalBytesMin || key_bytes > kExternalBytesMax) {
    return Invalid("space.key_bytes: " + std::to_string(key_bytes) + "; 16 to 64");
  }
  if (packed.size() % key_bytes != 0) {
    return Invalid("packed: " + std::to_string(packed.size()) +
                   " bytes; a multiple of the key space's key_bytes, " + std::to_string(key_bytes));
  }
  if (!chain.parent.empty() && chain.parent.size() != key_bytes) {
    return Invalid("chain.parent: " + std::to_string(chain.parent.size()) +
                   " bytes; the key space's key_bytes, " + std::to_string(key_bytes) + ", or none");
  }
  if (!chain.parent.empty() && !chain.linked) {
    return Invalid("chain.parent: given for keys that are not linked; set chain.linked");
  }
  const size_t count = packed.size() / key_bytes;
  HF_RETURN_IF_ERROR(CheckCount(count, chain.first_position));

  auto data = std::make_shared<Data>();
  data->space = space;
  data->linked = chain.linked;
  data->first_position = chain.first_position;
  try {
    data->external.assign(packed.begin(), packed.end());
    data->keys.reserve(count);
  } catch (const std::bad_alloc&) {
    return NoMemory(count);
  }
  ExternalHasher hash(space);
  if (!chain.parent.empty()) data->parent = hash(chain.parent.data());
  for (size_t i = 0; i < count; ++i) data->keys.push_back(hash(packed.data() + i * key_bytes));
  Blocks blocks;
  blocks.data_ = std::move(data);
  blocks.count_ = count;
  return blocks;
}

Blocks Blocks::Slice(size_t first, size_t count) const noexcept {
  Blocks part = *this;
  first = std::min(first, count_);
  part.first_ = first_ + first;
  part.count_ = std::min(count, count_ - first);
  return part;
}

BlockKey SpaceIdentity(const SpaceSpec& spec, Bytes secret) {
  return Sha256Prefix({DomainBytes(kSpaceDomain), SpaceFields(spec, secret).bytes()});
}

RootKey SpaceRoot(const SpaceSpec& spec, Bytes secret, uint32_t epoch) {
  Fields fields = SpaceFields(spec, secret);
  fields.Add(Field::kEpoch, epoch);
  return Sha256Prefix({DomainBytes(kRootDomain), fields.bytes()});
}

Status CheckSpaceSpec(const SpaceSpec& spec) {
  if (spec.block_tokens == 0 && spec.key_bytes == 0) {
    return Invalid("block_tokens, key_bytes: both 0; blocks come from tokens or from keys");
  }
  if (spec.key_bytes != 0 &&
      (spec.key_bytes < kExternalBytesMin || spec.key_bytes > kExternalBytesMax)) {
    return Invalid("key_bytes: " + std::to_string(spec.key_bytes) + "; 16 to 64, or 0 for none");
  }
  const auto check_length = [](std::string_view field, const std::string& value) -> Status {
    if (value.size() <= kSpecStringBytesMax) return {};
    return Invalid(std::string(field) + ": " + std::to_string(value.size()) +
                   " bytes; at most 4096");
  };
  HF_RETURN_IF_ERROR(check_length("model", spec.model));
  HF_RETURN_IF_ERROR(check_length("weights_digest", spec.weights_digest));
  HF_RETURN_IF_ERROR(check_length("dtype", spec.dtype));
  HF_RETURN_IF_ERROR(check_length("layout", spec.layout));
  HF_RETURN_IF_ERROR(check_length("shard", spec.shard));
  HF_RETURN_IF_ERROR(check_length("adapter", spec.adapter));
  HF_RETURN_IF_ERROR(check_length("tenant", spec.tenant));
  HF_RETURN_IF_ERROR(check_length("salt", spec.salt));
  std::vector<std::string_view> names;
  for (const auto& [name, value] : spec.extra) {
    HF_RETURN_IF_ERROR(check_length("extra name", name));
    HF_RETURN_IF_ERROR(check_length("extra \"" + name + '"', value));
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return Invalid("extra: \"" + std::string(*twice) + "\" is there twice; each name once");
  }
  return {};
}

}  // namespace holdfast
