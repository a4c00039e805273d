#include "kvstore/threads.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include "kvstore/environment.h"

namespace holdfast {
namespace {

TEST(SystemThreadsTest, JoinWaitsForTheBody) {
  int ran = 0;  // plain: join orders it
  const auto join = SystemThreads()("hf-test", [&] { ran = 1; });
  ASSERT_TRUE(join);
  join();
  EXPECT_EQ(ran, 1);
}

TEST(SystemThreadsTest, NamesAreSetAndCutToWhatTheKernelTakes) {
  std::string name;
  const auto read_name = [&] {
    char text[64] = {};
    EXPECT_EQ(pthread_getname_np(pthread_self(), text, sizeof(text)), 0);
    name = text;
  };
  SystemThreads()("hf-driver", read_name)();
  EXPECT_EQ(name, "hf-driver");
  SystemThreads()("hf-a-name-longer-than-fifteen", read_name)();
  EXPECT_EQ(name, "hf-a-name-longe");
}

TEST(SystemThreadsTest, SignalsAreBlockedThereAndAsBeforeHere) {
  sigset_t mine;
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR1);
  sigset_t before;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &mine, &before), 0);
  sigset_t there;
  sigemptyset(&there);
  SystemThreads()("hf-test", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &there); })();
  sigset_t after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, &after), 0);

  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGPROF, SIGALRM, SIGHUP, SIGPIPE}) {
    EXPECT_EQ(sigismember(&there, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), signal == SIGUSR1 ? 1 : 0) << signal;
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Starts threads until there are no more. Exits with 0 when that was an empty join.
[[noreturn]] void ExhaustThreads() {
  // The one limit on threads that holds for root, too: each takes 8 MiB of addresses.
  const rlimit little{64 << 20, 64 << 20};
  bool refused = false;
  if (setrlimit(RLIMIT_AS, &little) == 0) {
    std::atomic<bool> stop{false};
    std::vector<std::function<void()>> joins;
    while (!refused && joins.size() < 1'000) {
      auto join = SystemThreads()("hf-test", [&] { stop.wait(false); });
      refused = !join;
      if (join) joins.push_back(std::move(join));
    }
    stop = true;
    stop.notify_all();
    for (const auto& join : joins) join();
  }
  std::_Exit(refused ? 0 : 1);
}

TEST(SystemThreadsTest, ARefusalIsAnEmptyJoin) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need the addresses that this test takes away";
  EXPECT_EXIT(ExhaustThreads(), ::testing::ExitedWithCode(0), "");
}

TEST(ThreadGroupTest, ARefusalNamesTheThreadAndTheOthersAreJoined) {
  std::atomic<int> ran{0};
  const StartThread two = [&](std::string name, std::function<void()> body) {
    return name == "hf-third" ? std::function<void()>() : SystemThreads()(name, std::move(body));
  };
  ThreadGroup group;
  EXPECT_TRUE(group.Start(two, "hf-first", [&] { ++ran; }).ok());
  EXPECT_TRUE(group.Start(two, "hf-second", [&] { ++ran; }).ok());
  const Status refused = group.Start(two, "hf-third", [&] { ++ran; });
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(refused.message().starts_with("hf-third: the system refused the thread"));
  group.Join();
  EXPECT_EQ(ran, 2);
  EXPECT_TRUE(group.empty());
}

}  // namespace
}  // namespace holdfast
