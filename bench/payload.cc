#include "bench/payload.h"

#include <algorithm>
#include <cstring>

namespace holdfast {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kPieceBytes = 4096;  // one or is tested a piece: the loop inside vectorizes

// One bijective round of splitmix64's finalizer.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Words of one block. No multiplication per word: SSE2 has none of 64 bits.
class Words {
 public:
  explicit Words(const BlockKey& key)
      : start_(Mix(key.hi ^ Mix(key.lo))), step_(Mix(key.lo + 0x9e3779b97f4a7c15u) | 1) {}

  uint64_t At(uint64_t index) const { return Fold(start_ + index * step_); }

  // Both bodies are written as a running sum, which vectorizes.
  void Fill(uint64_t first, std::byte* to, size_t words) const {
    uint64_t sum = start_ + first * step_;
    for (size_t i = 0; i < words; ++i, sum += step_) {
      const uint64_t word = Fold(sum);
      std::memcpy(to + i * kWordBytes, &word, kWordBytes);
    }
  }
  bool Equal(uint64_t first, const std::byte* from, size_t words) const {
    uint64_t sum = start_ + first * step_;
    uint64_t difference = 0;
    for (size_t i = 0; i < words; ++i, sum += step_) {
      uint64_t word = 0;
      std::memcpy(&word, from + i * kWordBytes, kWordBytes);
      difference |= word ^ Fold(sum);
    }
    return difference == 0;
  }
  std::byte Byte(uint64_t offset) const {
    return static_cast<std::byte>(At(offset / kWordBytes) >> (offset % kWordBytes * 8));
  }

 private:
  static uint64_t Fold(uint64_t sum) { return sum ^ (sum >> 29); }

  uint64_t start_;
  uint64_t step_;
};

}  // namespace

void FillPayload(const BlockKey& key, std::span<std::byte> payload) {
  const Words words(key);
  const size_t whole = payload.size() / kWordBytes;
  words.Fill(0, payload.data(), whole);
  for (size_t i = whole * kWordBytes; i < payload.size(); ++i) payload[i] = words.Byte(i);
}

std::optional<uint64_t> FirstWrongByte(const BlockKey& key, std::span<const std::byte> payload) {
  const Words words(key);
  for (size_t at = 0; at < payload.size(); at += kPieceBytes) {
    const size_t end = std::min(at + kPieceBytes, payload.size());
    const bool whole = (end - at) % kWordBytes == 0;
    if (whole && words.Equal(at / kWordBytes, &payload[at], (end - at) / kWordBytes)) continue;
    for (size_t i = at; i < end; ++i) {
      if (payload[i] != words.Byte(i)) return i;
    }
  }
  return std::nullopt;
}

uint64_t CountWrongBytes(const BlockKey& key, std::span<const std::byte> payload) {
  const Words words(key);
  uint64_t wrong = 0;
  for (size_t i = 0; i < payload.size(); ++i) wrong += payload[i] == words.Byte(i) ? 0 : 1;
  return wrong;
}

void SpoilPayload(std::span<std::byte> payload) {
  for (size_t end = kPageBytes;; end += kPageBytes) {
    const size_t at = std::min<size_t>(end, payload.size());
    if (at > 0) payload[at - 1] = ~payload[at - 1];
    if (end >= payload.size()) return;
  }
}

}  // namespace holdfast
