// TestFrame: a header page and a payload whose bytes are a function of a seed, in as many extents
// as wanted, ready for a FrameOp.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "kvstore/frame.h"
#include "kvstore/tier.h"

namespace holdfast::testing {

struct FreeAligned {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kPageBytes}); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;
inline AlignedBytes AllocateAligned(uint64_t bytes) {
  return AlignedBytes(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kPageBytes})));
}

// SplitMix64: cheap, and no byte repeats at a small distance.
inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class TestFrame {
 public:
  // `seed` 0: poisoned instead of filled, as the target of a read.
  TestFrame(uint64_t seed, uint64_t payload_bytes)
      : seed_(seed),
        payload_bytes_(payload_bytes),
        padded_bytes_(RoundUp(payload_bytes, kPageBytes)),
        header_page_(AllocateAligned(kPageBytes)),
        payload_(AllocateAligned(padded_bytes_)) {
    std::memset(payload_.get(), 0xa5, padded_bytes_);
    if (seed != 0) {
      std::memset(header_page_.get(), 0, kPageBytes);
      Fill();
      InitFixed({.key = key(), .root = root(), .parent = {seed, 3}, .index = index()},
                payload_bytes, header().fixed);
      const Extent whole{payload_.get(), payload_bytes};
      ChecksumPayload({&whole, 1}, nullptr, header().fixed);
      SealFixed(header().fixed);
      header().placement.write_id = write_id();
      header().placement.deadline_ms = kNoDeadline;
    } else {
      std::memset(header_page_.get(), 0xa5, kPageBytes);
    }
    Cut(1, 1, kPageBytes);
  }

  BlockKey key() const { return {Mix(seed_), seed_}; }
  RootKey root() const { return {7, 7}; }
  uint32_t index() const { return static_cast<uint32_t>(seed_ % 1000); }
  uint64_t write_id() const { return seed_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  FrameHeader& header() { return *reinterpret_cast<FrameHeader*>(header_page_.get()); }
  std::byte* payload() { return payload_.get(); }
  FrameExpect expect() const {
    return {.key = key(),
            .root = root(),
            .index = index(),
            .payload_bytes = payload_bytes_,
            .write_id = write_id()};
  }

  // Cuts the payload into `pieces` extents, each but the last a multiple of `alignment`, together
  // the payload padded to `padding`.
  void Cut(size_t pieces, uint64_t alignment, uint64_t padding) {
    extents_.clear();
    const uint64_t total = RoundUp(payload_bytes_, padding);
    uint64_t at = 0;
    for (size_t i = 0; i < pieces && at < total; ++i) {
      uint64_t bytes = RoundUp((total - at) / (pieces - i), alignment);
      if (i + 1 == pieces) bytes = total - at;
      bytes = std::min(std::max(bytes, alignment), total - at);
      extents_.push_back({payload_.get() + at, bytes});
      at += bytes;
    }
  }
  std::span<const Extent> extents() const { return extents_; }

  // Whether the first `bytes` here are the payload of `seed` from `offset`, a multiple of 8, on.
  bool Holds(uint64_t seed, uint64_t offset, uint64_t bytes) const {
    for (uint64_t i = 0; i < bytes; i += 8) {
      const uint64_t word = WordAt(seed, (offset + i) / 8);
      if (std::memcmp(&payload_[i], &word, std::min<uint64_t>(8, bytes - i)) != 0) return false;
    }
    return true;
  }

 private:
  static uint64_t WordAt(uint64_t seed, uint64_t at) { return Mix(seed * 0x10001 + at); }
  void Fill() {
    for (uint64_t i = 0; i < payload_bytes_; i += 8) {
      const uint64_t word = WordAt(seed_, i / 8);
      std::memcpy(payload_.get() + i, &word, std::min<uint64_t>(8, payload_bytes_ - i));
    }
  }

  uint64_t seed_;
  uint64_t payload_bytes_;
  uint64_t padded_bytes_;
  AlignedBytes header_page_;
  AlignedBytes payload_;
  std::vector<Extent> extents_;
};

}  // namespace holdfast::testing
