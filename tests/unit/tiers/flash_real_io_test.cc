// The flash log over the real engines: its contract again, and several threads at once.
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kvstore/check.h"
#include "kvstore/mutex.h"
#include "kvstore/tiers.h"
#include "tests/testing/io_test_kit.h"
#include "tests/testing/start_thread.h"
#include "tests/testing/tier_contract.h"

namespace holdfast::testing {
namespace {

class RealFlash final : public TierUnderTest {
 public:
  RealFlash(IoEngineKind kind, uint64_t capacity_bytes, uint64_t segment_bytes)
      : kind_(kind), capacity_bytes_(capacity_bytes), segment_bytes_(segment_bytes) {}

  Status Open() {
    tier_.reset();
    std::string note;
    auto engine = OpenIoEngine({.path = directory_.File("flash"),
                                .capacity_bytes = capacity_bytes_,
                                .kind = kind_,
                                .start_thread = StartThread},
                               &note);
    if (!engine.has_value()) return std::move(engine).error();
    auto tier = CreateFlashTier(*std::move(engine), Clock::System(), [this] { Ring(); },
                                {.segment_bytes = segment_bytes_,
                                 .segment_bytes_min = segment_bytes_,
                                 .segments_min = 4,
                                 .payload_bytes_typical = segment_bytes_ / 8,
                                 .path = directory_.File("flash")});
    if (!tier.has_value()) return std::move(tier).error();
    tier_ = *std::move(tier);
    return {};
  }

  Tier& tier() override { return *tier_; }
  GroupedTier* grouped() override { return tier_.get(); }
  void Wait() override {
    MutexLock lock(mutex_);
    if (!rung_) changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
    rung_ = false;
  }
  void Reopen() override { HF_CHECK(Open().ok()); }
  Instant Now() override { return Clock::System().Now(); }

 private:
  void Ring() {
    MutexLock lock(mutex_);
    rung_ = true;
    changed_.NotifyAll();
  }

  IoDirectory directory_;
  IoEngineKind kind_;
  uint64_t capacity_bytes_;
  uint64_t segment_bytes_;
  Mutex mutex_;
  CondVar changed_;
  bool rung_ HF_GUARDED_BY(mutex_) = false;
  std::unique_ptr<GroupedTier> tier_;
};

std::unique_ptr<RealFlash> Make(IoEngineKind kind, uint64_t capacity_bytes,
                                uint64_t segment_bytes) {
  auto flash = std::make_unique<RealFlash>(kind, capacity_bytes, segment_bytes);
  const Status status = flash->Open();
  EXPECT_TRUE(status.ok()) << status.ToString();
  return status.ok() ? std::move(flash) : nullptr;
}

std::vector<TierCase> Cases(uint64_t capacity_bytes, uint64_t segment_bytes) {
  std::vector<TierCase> cases;
  for (const auto& [name, kind] :
       {std::pair{"uring", IoEngineKind::kUring}, std::pair{"pread", IoEngineKind::kPread}}) {
    cases.push_back({name, [kind = kind, capacity_bytes, segment_bytes] {
                       return Make(kind, capacity_bytes, segment_bytes);
                     }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(FlashFile, TierContract, ::testing::ValuesIn(Cases(300u << 20, 32u << 20)),
                         TierCaseName);
INSTANTIATE_TEST_SUITE_P(FlashFile, GroupedTierContract,
                         ::testing::ValuesIn(Cases(64u << 20, 8u << 20)), TierCaseName);

// What a store does: one lock for the accounting, reads submitted outside it, and a driver that
// writes and reclaims meanwhile. A read that was submitted before its copy was freed sees its
// bytes.
class FlashThreadsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kPayload = 60'000;
  static constexpr int kReaders = 3;
  static constexpr uint64_t kWrites = 250;

  struct Move {
    explicit Move(uint64_t payload_bytes) : target(0, payload_bytes) {}
    TestFrame target;
    FrameOp op;
    uint64_t seed = 0;
    std::atomic<bool> done{false};
  };

  // Ops end on whichever thread polls; the tag says whose they are.
  void PollLocked() HF_REQUIRES(lock_) {
    FrameOp* out[16];
    for (size_t n = 1; n > 0;) {
      n = flash_->tier().Poll(out);
      for (size_t i = 0; i < n; ++i) {
        reinterpret_cast<Move*>(out[i]->tag)->done.store(true, std::memory_order_release);
      }
    }
    flash_->grouped()->Step(flash_->Now(), flash_->HoldNow());
  }

  void PollUntil(const std::atomic<bool>& done) {
    while (!done.load(std::memory_order_acquire)) {
      {
        MutexLock lock(lock_);
        PollLocked();
      }
      std::this_thread::yield();
    }
  }

  void ReaderLoop(uint64_t seed) {
    Move read(kPayload);
    for (uint64_t i = 0; !stop_.load(); ++i) {
      {
        MutexLock lock(lock_);
        if (live_.empty()) continue;
        auto it = live_.lower_bound(Mix(seed + i) % (written_ + 1));
        if (it == live_.end()) it = live_.begin();
        read.seed = it->first;
        read.op = {.kind = FrameOpKind::kRead,
                   .place = it->second,
                   .header = &read.target.header(),
                   .payload = read.target.extents(),
                   .expect = TestFrame(0, 1).expect(),
                   .tag = reinterpret_cast<uint64_t>(&read)};
        ++submitting_[it->second.group];
      }
      const TestFrame identity(read.seed, kPayload);
      read.op.expect = identity.expect();
      read.done = false;
      flash_->tier().Submit(&read.op);
      {
        MutexLock lock(lock_);
        --submitting_[read.op.place.group];
      }
      PollUntil(read.done);
      ASSERT_EQ(read.op.outcome, FrameOutcome::kDone) << read.seed;
      ASSERT_TRUE(read.target.Holds(read.seed, 0, kPayload));
      ++reads_;
    }
  }

  // One write, its memory the caller's until it is done.
  void WriteOne(uint64_t seed) {
    TestFrame frame(seed, kPayload);
    std::optional<Place> place;
    while (!place) {
      MutexLock lock(lock_);
      place = flash_->tier().Allocate({.payload_bytes = kPayload,
                                       .entry = static_cast<EntryId>(seed),
                                       .touched = static_cast<uint32_t>(seed)});
      if (!place) {
        if (flash_->grouped()->NeedsRoom()) RetireOneLocked();
        PollLocked();
      }
    }
    Move write(1);
    write.op = {.kind = FrameOpKind::kWrite,
                .place = *place,
                .header = &frame.header(),
                .payload = frame.extents(),
                .tag = reinterpret_cast<uint64_t>(&write)};
    flash_->tier().Submit(&write.op);
    PollUntil(write.done);
    ASSERT_EQ(write.op.outcome, FrameOutcome::kDone);
    MutexLock lock(lock_);
    live_[seed] = *place;
    written_ = seed;
  }

  // Submit must come before Free: a group with a read between look-up and submit waits.
  void RetireOneLocked() HF_REQUIRES(lock_) {
    const auto victim = flash_->grouped()->Victim(0);
    if (!victim || submitting_[*victim] > 0) return;
    flash_->grouped()->BeginRetire(*victim);
    std::vector<LiveCopy> copies;
    flash_->grouped()->Live(*victim, copies);
    for (const LiveCopy& copy : copies) {
      live_.erase(copy.entry);
      flash_->tier().Free(copy.place);
    }
    flash_->grouped()->Retire(*victim);
  }

  std::unique_ptr<RealFlash> flash_;
  Mutex lock_;
  std::map<uint64_t, Place> live_ HF_GUARDED_BY(lock_);
  std::map<GroupId, int> submitting_ HF_GUARDED_BY(lock_);
  uint64_t written_ HF_GUARDED_BY(lock_) = 0;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> reads_{0};
};

TEST_F(FlashThreadsTest, ReadsBesideWritesAndReclaimSeeTheirOwnBytes) {
  flash_ = Make(IoEngineKind::kAuto, 8u << 20, 512u << 10);
  ASSERT_NE(flash_, nullptr);
  ASSERT_TRUE(
      flash_->grouped()->Recover(0, [](const RecoveredCopy&) { return std::nullopt; }).ok());
  std::vector<std::thread> readers;
  readers.reserve(kReaders);
  for (uint64_t i = 0; i < kReaders; ++i) {
    readers.emplace_back([this, i] { ReaderLoop(i * 1'000'003); });
  }
  for (uint64_t seed = 1; seed <= kWrites && !HasFailure(); ++seed) WriteOne(seed);
  stop_ = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(reads_.load(), 100u);
  MutexLock lock(lock_);
  EXPECT_EQ(flash_->tier().usage().live_copies, live_.size());
  EXPECT_LT(live_.size(), kWrites);  // some was reclaimed
}

}  // namespace
}  // namespace holdfast::testing
