// StartThread for tests: real threads, named, with all signals blocked; the answer joins.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>

namespace holdfast::testing {

inline std::function<void()> StartThread(const std::string& name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits it
  auto thread = std::make_shared<std::thread>(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread->native_handle(), name.substr(0, 15).c_str());
  return [thread] { thread->join(); };
}

}  // namespace holdfast::testing
