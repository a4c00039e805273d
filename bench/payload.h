// The bytes that replays and measurements store: a function of key and offset, so that any byte
// that comes back can be checked without keeping what was put.
//
// The word at index i is a fold of a + i * b, with a and odd b from the key: two offsets of one
// block never hold the same word, and two blocks hold the same word at one offset with chance
// 2^-64.
//
// Threading: pure functions. More than 8 GB/s, so that they do not decide what is measured.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kvstore/types.h"

namespace holdfast {

void FillPayload(const BlockKey& key, std::span<std::byte> payload);

// The offset of the first byte that is not as FillPayload wrote it.
std::optional<uint64_t> FirstWrongByte(const BlockKey& key, std::span<const std::byte> payload);
uint64_t CountWrongBytes(const BlockKey& key, std::span<const std::byte> payload);

// Breaks one byte of each page, so that a payload left there by an earlier fetch cannot pass.
void SpoilPayload(std::span<std::byte> payload);

}  // namespace holdfast
