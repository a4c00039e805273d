// A small store with real flash and disk, what it says, and whether it works.
//
//   SmallStore store("work/store");
//   ASSERT_TRUE(store.Open().ok());
//   EXPECT_EQ(store.Put(0, 16), 16u);
//   EXPECT_EQ(store.Fetch(0, 16), 16u);      // blocks served; a wrong byte counts against it
//
// Threading: thread-confined, save lines(). Memory: owns the store.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/mutex.h"
#include "kvstore/store.h"

namespace holdfast::testing {

class SmallStore {
 public:
  static constexpr uint64_t kPayloadBytes = 61'440;

  explicit SmallStore(std::string directory)
      : page_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kPayloadBytes))) {
    options.directory = std::move(directory);
    options.page_bytes = 1 << 20;
    options.ddr_bytes = 4 << 20;
    options.flash_bytes = 32 << 20;
    options.segment_bytes = 2 << 20;
    options.segment_bytes_min = 1 << 20;
    options.disk_bytes = 32 << 20;
    options.disk_write_buffer_bytes = 4 << 20;
    options.payload_bytes_max = kPayloadBytes;
    options.payload_bytes_typical = kPayloadBytes;
    options.write_bytes_per_day = UINT64_MAX;
    environment.log = [this](LogLevel /*level*/, std::string_view line) {
      MutexLock lock(mutex_);
      lines_.emplace_back(line);
    };
  }
  ~SmallStore() { Close(); }
  SmallStore(const SmallStore&) = delete;
  SmallStore& operator=(const SmallStore&) = delete;

  Status Open() {
    auto opened = Store::Open(options, environment);
    if (!opened.has_value()) return opened.error();
    store_ = *std::move(opened);
    const auto space = store_->OpenSpace({.model = "small", .key_bytes = 16});
    if (!space.has_value()) return space.error();
    space_ = *store_->Space(*space);
    return {};
  }
  void Close() {
    if (store_ == nullptr) return;
    store_->Close(Clock::System().Now() + std::chrono::seconds(5)).IgnoreError("the end");
    store_ = nullptr;
  }
  Store& operator*() { return *store_; }
  Store* operator->() { return store_.get(); }

  // Blocks [first, end), under an hour's hold: how many were kept.
  size_t Put(uint32_t first, uint32_t end) {
    size_t kept = 0;
    for (uint32_t i = first; i < end; ++i) {
      Fill(i, page_.get());
      const auto done =
          store_->Put(Key(i), OnePage(), {.hold = {std::chrono::hours(1)}}, {&item_, 1});
      if (done.has_value()) kept += *done;
    }
    return kept;
  }
  // How many were served with the right bytes.
  size_t Fetch(uint32_t first, uint32_t end) {
    const std::unique_ptr<std::byte[]> expected(new std::byte[kPayloadBytes]);
    size_t right = 0;
    for (uint32_t i = first; i < end; ++i) {
      const auto done = store_->Fetch(Key(i), OnePage(), {}, {&item_, 1});
      if (!done.has_value() || *done == 0) continue;
      Fill(i, expected.get());
      if (std::memcmp(expected.get(), page_.get(), kPayloadBytes) != 0) {
        ++wrong_;
      } else {
        ++right;
      }
    }
    return right;
  }
  Status Drain(Duration patience = std::chrono::seconds(10)) {
    return store_->Drain(Clock::System().Now() + patience);
  }

  size_t wrong() const noexcept { return wrong_; }
  std::vector<std::string> lines() {
    MutexLock lock(mutex_);
    return lines_;
  }

  StoreOptions options;
  Environment environment;

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  static void Fill(uint32_t block, std::byte* out) {
    uint64_t word = block + 1;
    for (uint64_t at = 0; at < kPayloadBytes; at += sizeof word) {
      word = word * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
      std::memcpy(out + at, &word, sizeof word);
    }
  }
  Blocks Key(uint32_t block) const {
    std::byte packed[16]{};
    std::memcpy(packed, &block, sizeof block);
    return *Blocks::FromKeys(space_, packed);
  }
  Memory OnePage() {
    extent_ = {page_.get(), kPayloadBytes};
    return {.kind = Memory::Kind::kExtents, .extents = {&extent_, 1}, .extent_begin = begin_};
  }

  std::unique_ptr<std::byte, Free> page_;
  std::unique_ptr<Store> store_;
  KeySpace space_;
  Extent extent_;
  const std::vector<uint32_t> begin_ = {0, 1};
  Item item_ = Item::kPending;
  size_t wrong_ = 0;
  Mutex mutex_;
  std::vector<std::string> lines_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::testing
