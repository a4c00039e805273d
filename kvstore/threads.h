// ThreadGroup: threads that end together. StartThread: how a store gets a thread.
//
//   HF_RETURN_IF_ERROR(threads_.Start(start_thread, "hf-disk-1", [this] { Work(); }));
//   ... tell the bodies to end, then ...
//   threads_.Join();
//
// Not responsible for ending the bodies: whoever owns the group tells them.
//
// Threading: thread-compatible. Memory: one function a thread. Errors: Start says which thread is
// not to be had.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kvstore/status.h"

namespace holdfast {

// Starts `body` on a thread of that name; answers its join, to be called exactly once. An empty
// answer: the system has no thread for us, and the body never runs.
using StartThread =
    std::function<std::function<void()>(std::string name, std::function<void()> body)>;

class ThreadGroup {
 public:
  ThreadGroup() = default;
  ~ThreadGroup() = default;  // of an empty group: whoever owns it has joined
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // kResourceExhausted, naming the thread: it was refused. Those started before go on.
  Status Start(const StartThread& start_thread, const std::string& name,
               std::function<void()> body);
  void Join();  // waits for all; the group is empty then

  bool empty() const noexcept { return joins_.empty(); }

 private:
  std::vector<std::function<void()>> joins_;
};

}  // namespace holdfast
