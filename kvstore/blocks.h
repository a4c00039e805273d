// Blocks: the identities of a request's blocks, hashed once, outside any lock.
//
// Not responsible for: whether they are here (Store::Find).
//
//   Blocks blocks = *Blocks::FromTokens(*store, space, prompt);     // full blocks of the prompt
//   Blocks rest = blocks.Slice(match.count, blocks.size() - match.count);
//
// A chain key is the first 128 bits of SHA-256(tag, root, parent key, tokens, extras); the root is
// that of SHA-256(tag, secret, every field of the key space with tag and length). External keys go
// through the same function with the root and nothing else. docs/format.md, "Identity", has every
// byte.
//
// Threading: immutable. Memory: copies and slices share one allocation. Errors: kInvalidArgument
// names the argument; kResourceExhausted: no memory for the keys.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast {

class Store;
using SpaceId = uint32_t;

// All that must be equal for two payloads to be interchangeable.
struct SpaceSpec {
  std::string model;
  std::string weights_digest;
  std::string dtype;
  std::string layout;
  std::string shard;  // ranks, layer range, cache group
  std::string adapter;
  std::string tenant;
  std::string salt;
  uint32_t block_tokens = 0;  // tokens of a block; 0: external keys only
  uint32_t key_bytes = 0;     // length of external keys, 16 to 64; 0: tokens only
  std::vector<std::pair<std::string, std::string>> extra;  // further facts; order does not matter
};

// A key space as the functions below need it. Store::Space gives it.
struct KeySpace {
  SpaceId id = 0;
  uint32_t epoch = 0;
  uint32_t block_tokens = 0;
  uint32_t key_bytes = 0;
  RootKey root;
};

// How external keys follow one another: for the order of eviction, never for identity.
struct Chain {
  bool linked = false;                // key i + 1 is the child of key i
  uint32_t first_position = 0;        // of key 0 in its prompt
  std::span<const std::byte> parent;  // the key before key 0; empty: key 0 is a root for eviction
};

// Bytes attached to a block: the digest of an image, of embeddings. They change the key of their
// block and of all after it.
struct BlockExtra {
  uint32_t block = 0;
  std::span<const std::byte> bytes;
};

class Blocks {
 public:
  Blocks() noexcept = default;  // none

  // Full blocks only: a rest of fewer than block_tokens is left out, with its extras. Extras come
  // in any order; those of one block count in the order in which they stand.
  // kInvalidArgument: a key space without block_tokens, an extra of a block that is not there, more
  // than 2^31 blocks.
  static Result<Blocks> FromTokens(const KeySpace& space, std::span<const uint32_t> tokens,
                                   std::span<const BlockExtra> extras = {});
  static Result<Blocks> FromTokens(const Store& store, SpaceId space,
                                   std::span<const uint32_t> tokens,
                                   std::span<const BlockExtra> extras = {});
  // `packed` is n keys of space.key_bytes each.
  // kInvalidArgument: a key space without key_bytes, lengths that do not fit it, a parent of keys
  // that are not linked, more than 2^31 keys.
  static Result<Blocks> FromKeys(const KeySpace& space, std::span<const std::byte> packed,
                                 const Chain& chain = {});
  static Result<Blocks> FromKeys(const Store& store, SpaceId space,
                                 std::span<const std::byte> packed, const Chain& chain = {});

  size_t size() const noexcept { return count_; }
  // [first, first + count), cut to what is there. No copy.
  Blocks Slice(size_t first, size_t count) const noexcept;

  SpaceId space() const noexcept { return data_ ? data_->space.id : 0; }
  uint32_t epoch() const noexcept { return data_ ? data_->space.epoch : 0; }
  const RootKey& root() const noexcept { return data_->space.root; }  // requires size() > 0
  const BlockKey& key(size_t i) const noexcept { return data_->keys[first_ + i]; }
  bool linked() const noexcept { return data_ && data_->linked; }
  uint32_t position(size_t i) const noexcept {
    return data_->first_position + static_cast<uint32_t>(first_ + i);
  }
  // Key of the block before block i; zero when it has none or none is known.
  BlockKey parent(size_t i) const noexcept {
    if (first_ + i == 0) return data_->parent;
    return data_->linked ? data_->keys[first_ + i - 1] : BlockKey{};
  }
  std::span<const std::byte> external(size_t i) const noexcept {  // empty for blocks from tokens
    const uint32_t bytes = data_->external.empty() ? 0 : data_->space.key_bytes;
    return {data_->external.data() + (first_ + i) * bytes, bytes};
  }

 private:
  struct Data {
    KeySpace space;
    bool linked = false;
    uint32_t first_position = 0;
    BlockKey parent;
    std::vector<BlockKey> keys;
    std::vector<std::byte> external;
  };
  std::shared_ptr<const Data> data_;
  size_t first_ = 0;
  size_t count_ = 0;
};

// Identity of a key space without and with its epoch. `secret` is the store's, 32 bytes, or empty
// for keys that several stores share.
BlockKey SpaceIdentity(const SpaceSpec& spec, std::span<const std::byte> secret);
RootKey SpaceRoot(const SpaceSpec& spec, std::span<const std::byte> secret, uint32_t epoch);
// kInvalidArgument naming the field: neither block_tokens nor key_bytes; key_bytes not 16..64;
// a string above 4 KiB; an extra name twice.
Status CheckSpaceSpec(const SpaceSpec& spec);

}  // namespace holdfast
