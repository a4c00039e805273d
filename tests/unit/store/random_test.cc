// A random history against a model that knows of each block whether it must be there (it was found
// a moment ago and nothing failed), must not, or may. Same seed, same history.
#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "tests/testing/random_seed.h"
#include "tests/unit/store/test_store.h"

namespace holdfast::testing {
namespace {

constexpr uint32_t kPrompts = 12;
constexpr size_t kChain = 16;
constexpr int kSteps = 250;
constexpr int kHistories = 20;

class History {
 public:
  History(uint64_t seed, StoreOptions options) : random_(seed), t_(std::move(options)) {}

  void Run() {
    ASSERT_TRUE(t_.Open().ok());
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      Step();
    }
    EndFetches();
  }

 private:
  struct Async {
    std::unique_ptr<Fetching> fetch;
    uint64_t tag;
  };
  uint64_t Pick(uint64_t n) { return random_() % n; }
  Blocks SomeChain(uint32_t& prompt, size_t& first) {
    prompt = static_cast<uint32_t>(Pick(kPrompts)) + 1;
    first = Pick(3) == 0 ? Pick(kChain) : 0;
    return t_.Prompt(prompt, kChain).Slice(first, 1 + Pick(kChain));
  }
  uint64_t BytesOf(uint32_t prompt) const { return prompt % 3 == 0 ? 5001 : kPayload; }

  void Step() {
    const uint64_t what = Pick(100);
    if (what < 30) return Put();
    if (what < 52) return Fetch();
    if (what < 60) return StartFetch();
    if (what < 66) return Hold();
    if (what < 72) return Forget(what < 69);
    if (what < 76) return Touch();
    if (what < 80) return PrefetchSome();
    if (what < 84) return EndFetches();
    if (what < 92) return Time();
    if (what < 95) return Fault();
    if (what < 97) return Look();
    if (what == 97) return Epoch();
    return Restart();
  }

  void Put() {
    uint32_t prompt = 0;
    size_t first = 0;
    const Blocks blocks = SomeChain(prompt, first);
    const Duration holds[] = {{}, k5m, k1h};
    const std::vector<Item> items =
        t_.Put(blocks, BytesOf(prompt), holds[Pick(3)], Pick(2) == 0 ? 2s : 20ms);
    bool declined = false;
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_NE(items[i], Item::kPending);
      if (items[i] == Item::kDeclined) declined = true;
      EXPECT_EQ(declined, items[i] == Item::kDeclined)
          << "nothing is kept after the first declined";
      // Without ddr blocks are written at once: an orphan may be here though it was declined.
      if (!declined || t_.options().ddr_bytes == 0) may_.insert({prompt, first + i});
    }
  }

  void Check(uint32_t prompt, size_t first, const std::vector<Item>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_TRUE(items[i] != Item::kDone || may_.contains({prompt, first + i}))
          << "prompt " << prompt << ", block " << first + i << " was erased or never put";
    }
  }

  void Fetch() {
    uint32_t prompt = 0;
    size_t first = 0;
    const Blocks blocks = SomeChain(prompt, first);
    const bool quiet = fetches_.empty();
    const std::vector<Where> where = t_.Find(blocks);
    const std::vector<Item> items = t_.Fetch(blocks, BytesOf(prompt), {.keep = Pick(2) == 0});
    Check(prompt, first, items);
    const auto bad =
        std::find_if(items.begin(), items.end(), [](Item item) { return item != Item::kDone; });
    EXPECT_TRUE(std::all_of(bad, items.end(), [](Item item) { return item != Item::kDone; }))
        << "done after the first that is not";
    if (quiet && !faults_) {
      for (size_t i = 0; i < items.size() && where[i] != Where::kAbsent; ++i) {
        EXPECT_EQ(items[i], Item::kDone) << "it was here: " << ToString(where[i]);
      }
    }
  }

  void StartFetch() {
    uint32_t prompt = 0;
    size_t first = 0;
    const Blocks blocks = SomeChain(prompt, first);
    FetchOptions options{.keep = Pick(2) == 0};
    if (Pick(4) == 0) options.deadline = t_.Now() + Duration(Pick(2'000'000));
    fetches_.push_back({t_.StartFetch(blocks, BytesOf(prompt), options, ++tag_), tag_});
    if (Pick(3) == 0) t_->Cancel(fetches_.back().fetch->op);
    if (Pick(2) == 0) t_.Pass(Duration(Pick(500'000)));
  }

  void EndFetches() {
    for (const Async& f : fetches_) {
      if (Pick(4) == 0) t_->Cancel(f.fetch->op);
    }
    for (const Async& f : fetches_) EXPECT_TRUE(t_->Wait(f.fetch->op, t_.Now() + 60s).ok());
    std::vector<uint64_t> tags;
    for (const Completion& c : t_.Completions()) tags.push_back(c.tag);
    std::sort(tags.begin(), tags.end());
    std::vector<uint64_t> expected;
    for (const Async& f : fetches_) {
      f.fetch->Done();
      expected.push_back(f.tag);
    }
    EXPECT_EQ(tags, expected) << "each completes once";
    fetches_.clear();
  }

  void Hold() {
    uint32_t prompt = 0;
    size_t first = 0;
    const Blocks blocks = SomeChain(prompt, first);
    t_.SetHold(blocks, Pick(2) == 0 ? k5m : k1h);
  }

  void Forget(bool erase) {
    uint32_t prompt = 0;
    size_t first = 0;
    const Blocks blocks = SomeChain(prompt, first);
    if (!erase) {
      EXPECT_TRUE(t_->Release(blocks).ok());
      return;
    }
    EXPECT_TRUE(t_->Erase(blocks).ok());
    for (size_t i = 0; i < blocks.size(); ++i) may_.erase({prompt, first + i});
    EXPECT_EQ(t_.Resident(blocks), 0u);
  }

  void Touch() {
    uint32_t prompt = 0;
    size_t first = 0;
    t_->Touch(SomeChain(prompt, first), Pick(5));
  }

  void PrefetchSome() {
    uint32_t prompt = 0;
    size_t first = 0;
    const Blocks blocks = SomeChain(prompt, first);
    t_.Prefetch(blocks, t_.options().hbm_bytes > 0 && Pick(2) == 0 ? Where::kHbm : Where::kDdr);
  }

  void Look() {
    uint32_t prompt = 0;
    size_t first = 0;
    const Blocks blocks = SomeChain(prompt, first);
    const Match match = t_->FindPrefix(blocks, 0, Duration(Pick(1'000'000'000)));
    for (size_t i = 0; i < match.count; ++i) {
      EXPECT_TRUE(may_.contains({prompt, first + i}));
    }
  }

  void Time() {
    switch (Pick(5)) {
      case 0:
        t_.Settle();
        break;
      case 1:
        t_.hold().Advance(std::chrono::minutes(Pick(6)));
        break;
      case 2:
        t_.hold().JumpWall(std::chrono::hours(static_cast<int64_t>(Pick(5)) - 2));
        break;
      case 3:
        // Past every deadline: what ever had a hold is gone.
        t_.hold().Advance(k1h);
        break;
      default:
        t_.Pass(Duration(Pick(40'000'000)));
    }
  }

  void Fault() {
    faults_ = true;
    if (t_.options().flash_bytes > 0 && Pick(2) == 0) {
      const IoKind kinds[] = {IoKind::kRead, IoKind::kWrite, IoKind::kSync};
      const int errors[] = {EIO, ENOSPC, 0};
      const int error = errors[Pick(3)];
      SimFault fault{
          .kind = kinds[Pick(3)], .nth = 1 + Pick(5), .times = 1 + Pick(3), .error = error};
      if (error == 0) fault.stall = 30ms;
      t_.io().Plan(fault);
    } else {
      t_.medium().FailOperation(Pick(5), EIO);
    }
  }

  void Epoch() {
    EXPECT_TRUE(t_->NewEpoch(t_.space()).ok());
    may_.clear();  // the keys of the new epoch are other keys
  }

  void Restart() {
    EndFetches();
    if (Pick(2) == 0) {
      t_->Drain(t_.Now() + 5s).IgnoreError("faults may be planned");
      t_.Close();
    } else {
      t_.PowerLoss();
    }
    const Status opened = t_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    faults_ = true;  // torn frames are found by their first read
    for (uint32_t prompt = 1; prompt <= kPrompts; ++prompt) {
      const std::vector<Where> where = t_.Find(t_.Prompt(prompt, kChain));
      for (size_t i = 0; i < kChain; ++i) {
        EXPECT_TRUE(where[i] == Where::kAbsent || may_.contains({prompt, i}))
            << "prompt " << prompt << ", block " << i << " came back";
      }
    }
  }

  std::mt19937_64 random_;
  TestStore t_;
  std::set<std::pair<uint32_t, size_t>> may_;  // prompt, block: may be served; all others must not
  std::vector<Async> fetches_;
  uint64_t tag_ = 0;
  bool faults_ = false;
};

TEST(RandomStoreTest, AnyHistoryServesWhatWasPutAndNothingElse) {
  const uint32_t seed = RandomSeed();
  for (int i = 0; i < kHistories && !HasFailure(); ++i) {
    SCOPED_TRACE("history " + std::to_string(i) + " of seed " + std::to_string(seed));
    StoreOptions o = SmallStore();
    o.flash_bytes = 3 << 20;
    o.disk_bytes = 4 << 20;
    if (i % 5 == 1) o.disk_bytes = 0;
    if (i % 5 == 2) o.flash_bytes = 0;
    if (i % 5 == 3) o.hbm_bytes = 1 << 20;
    if (i % 5 == 4) o.ddr_bytes = 0;
    History(seed * 1000ull + static_cast<uint64_t>(i), o).Run();
  }
}

}  // namespace
}  // namespace holdfast::testing
