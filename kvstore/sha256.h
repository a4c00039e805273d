// Sha256Prefix: the identity of a sequence of bytes. Internal; users see kvstore/blocks.h.
//
//   BlockKey key = Sha256Prefix({head, tokens});
//
// Threading: thread-safe. Memory: none is allocated. Errors: none.
#pragma once

#include <initializer_list>
#include <span>

#include "kvstore/types.h"

namespace holdfast::internal {

// First 128 bits of the SHA-256 of the pieces, one after the other. As a BlockKey lies in memory
// and on media (two little-endian words), its 16 bytes are the first 16 of the digest.
BlockKey Sha256Prefix(std::initializer_list<std::span<const std::byte>> pieces) noexcept;

}  // namespace holdfast::internal
