// A store is killed at random moments, opened again and compared with what had been said.
//
//   kill_test [--gtest_random_seed=N] [--kills N]      also HOLDFAST_KILLS=N
//
// The same seed gives the same verbs in the same order and the same moments; how far a program
// comes in that time is the machine's.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "kvstore/types.h"
#include "tests/crash/child_process.h"
#include "tests/crash/kill_shared.h"
#include "tests/testing/random_seed.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

uint64_t kills_wanted = 20;

class KillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::current_path() / "kill_test.XXXXXX").string();
    work_ = mkdtemp(name.data());
    const int fd = open((work_ + "/shared").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(ftruncate(fd, kPageBytes), 0);
    void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    ASSERT_NE(page, MAP_FAILED);
    shared_ = static_cast<KillShared*>(page);
  }
  void TearDown() override {
    if (HasFailure()) {
      std::printf("kept for a look: %s\n", work_.c_str());
      return;
    }
    std::error_code error;
    std::filesystem::remove_all(work_, error);
  }

  std::unique_ptr<ChildProcess> Start(uint64_t round, const std::string& what) {
    shared_->Restart();
    return std::make_unique<ChildProcess>(std::vector<std::string>{
        HOLDFAST_KILL_CHILD, work_, std::to_string(seed_), std::to_string(round),
        std::to_string(origin_.time_since_epoch().count()), what});
  }
  bool Reached(KillPhase phase) const {
    return shared_->phase.load() >= static_cast<uint64_t>(phase);
  }
  // Until the child works; false when it ended, or does not come so far in a minute.
  bool WaitUntilItWorks(ChildProcess& child) {
    const Instant patience = Clock::System().Now() + 60s;
    while (!Reached(KillPhase::kWorking)) {
      if (child.EndedWithin(2ms) || Clock::System().Now() > patience) return false;
    }
    return true;
  }

  std::string work_;
  uint32_t seed_ = RandomSeed();
  Instant origin_ = Clock::System().Now();
  KillShared* shared_ = nullptr;
};

TEST_F(KillTest, WhatWasSaidIsThereAndWhatWasErasedIsNot) {
  std::mt19937_64 random(seed_);
  uint64_t in_flight = 0;
  uint64_t verified = 0;
  uint64_t served = 0;
  uint64_t required = 0;
  uint64_t corrupt = 0;
  uint64_t rounds_on_uring = 0;
  for (uint64_t round = 0; round < kills_wanted; ++round) {
    // One in ten at any moment from its start, while it opens and looks around.
    const bool early = round % 10 == 3;
    const Duration moment = std::chrono::milliseconds(early ? random() % 400 : 30 + random() % 900);
    const auto child = Start(round, "work");
    if (!early) {
      ASSERT_TRUE(WaitUntilItWorks(*child)) << "round " << round;
    }
    ASSERT_FALSE(child->EndedWithin(moment)) << "round " << round << " ended by itself";
    child->Kill();
    const bool writing = shared_->writes_in_flight > 0 || shared_->undurable > 0;
    in_flight += writing ? 1 : 0;
    corrupt += shared_->corrupt;
    rounds_on_uring += shared_->uring;
    if (Reached(KillPhase::kWorking)) {
      ++verified;
      served += shared_->served;
      required += shared_->required;
    }
    std::printf("kill %2lu: %s, in verb '%c', %lu begun; before that %lu served, %lu required\n",
                round, writing ? "writing" : "quiet",
                shared_->verb == 0 ? '-' : static_cast<char>(shared_->verb), shared_->verbs.load(),
                shared_->served.load(), shared_->required.load());
  }
  const auto last = Start(kills_wanted, "verify");
  EXPECT_EQ(last->Wait(), 0);
  EXPECT_TRUE(Reached(KillPhase::kOver));
  served += shared_->served;
  required += shared_->required;
  std::printf(
      "%lu kills, %lu with writes in flight; %lu openings verified, %lu on io_uring: %lu blocks "
      "served, %lu that had to be there, %lu found corrupt\n",
      kills_wanted, in_flight, verified + 1, rounds_on_uring, served, required, corrupt);
  EXPECT_GE(3 * in_flight, 2 * kills_wanted);
  EXPECT_GT(served, 0u);
  EXPECT_GT(required, 0u);
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* given = std::getenv("HOLDFAST_KILLS");  // NOLINT: no other thread is there yet
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--kills") given = argv[i + 1];
  }
  if (given != nullptr) holdfast::testing::kills_wanted = std::strtoull(given, nullptr, 10);
  return RUN_ALL_TESTS();
}
