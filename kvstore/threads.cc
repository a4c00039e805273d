#include "kvstore/threads.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include <pthread.h>

#include "kvstore/check.h"
#include "kvstore/environment.h"

namespace holdfast {
namespace {

constexpr size_t kNameBytesMax = 15;  // of the kernel, without the terminator

// All signals blocked on this thread while it lives: a thread started meanwhile inherits the mask,
// so that no signal of the embedder can reach it even before its first instruction.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    HF_CHECK(pthread_sigmask(SIG_SETMASK, &all, &before_) == 0);
  }
  ~SignalsBlocked() { HF_CHECK(pthread_sigmask(SIG_SETMASK, &before_, nullptr) == 0); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

std::function<void()> StartSystemThread(std::string name, std::function<void()> body) {
  name.resize(std::min(name.size(), kNameBytesMax));
  try {
    auto thread = std::make_shared<std::thread>();
    std::function<void()> join = [thread] {
      HF_CHECK(thread->joinable());
      thread->join();
    };
    const SignalsBlocked blocked;
    *thread = std::thread([name = std::move(name), body = std::move(body)] {
      // A name is a help for people who look; without it the thread works as well.
      static_cast<void>(pthread_setname_np(pthread_self(), name.c_str()));
      body();
    });
    return join;
  } catch (const std::exception&) {  // no thread (EAGAIN), no memory
    return {};
  }
}

}  // namespace

StartThread SystemThreads() { return StartSystemThread; }

Status ThreadGroup::Start(const StartThread& start_thread, const std::string& name,
                          std::function<void()> body) {
  joins_.reserve(joins_.size() + 1);  // what may throw does so while there is no thread to lose
  std::function<void()> join = start_thread(name, std::move(body));
  if (!join) {
    return {StatusCode::kResourceExhausted,
            name +
                ": the system refused the thread; raise the limit on threads (ulimit -u, pids.max "
                "of the cgroup) or on memory (ulimit -v)"};
  }
  joins_.push_back(std::move(join));
  return {};
}

void ThreadGroup::Join() {
  for (const auto& join : joins_) join();
  joins_.clear();
}

}  // namespace holdfast
