// What the program that gets killed and the test that kills it agree on: a page of memory that
// both map, and the arguments.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::testing {

enum class KillPhase : uint64_t { kStarting, kVerifying, kWorking, kOver };

// In a file, so that it outlives the program.
struct KillShared {
  std::atomic<uint64_t> phase{0};
  std::atomic<uint64_t> writes_in_flight{0};  // verbs that write, without an answer
  std::atomic<uint64_t> undurable{0};         // bytes and records that are written, not synced
  std::atomic<uint64_t> broken{0};            // granted blocks lost, as the store counts them
  std::atomic<uint64_t> broken_logged{0};     // of them, told to the expectation
  // Of one program, at its verification.
  std::atomic<uint64_t> served{0};
  std::atomic<uint64_t> required{0};
  std::atomic<uint64_t> corrupt{0};  // found bad, and so not served
  std::atomic<uint64_t> uring{0};
  std::atomic<uint64_t> verbs{0};  // begun
  std::atomic<uint64_t> verb{0};   // the one under way: a letter

  // Before each program; `broken` is the next program's to see.
  void Restart() noexcept {
    for (auto* counter : {&phase, &writes_in_flight, &undurable, &served, &required, &corrupt,
                          &uring, &verbs, &verb}) {
      *counter = 0;
    }
  }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace holdfast::testing
