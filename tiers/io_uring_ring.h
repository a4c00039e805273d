// UringRing: one io_uring and the thread that owns it. The ring is made by its thread and touched
// by no other; requests reach it through a short list under a mutex that is never held around a
// ring call.
//
// Threading: Offer, Stop, load are thread-safe; the rest belongs to the ring's thread.
// Memory: requests belong to the ring from an accepted Offer() until their `done`.
// Errors: the start is answered by WaitUntilStarted(); later ones end in the requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <liburing.h>

#include "kvstore/io_engine.h"
#include "kvstore/mutex.h"
#include "kvstore/status.h"
#include "tiers/io_file.h"
#include "tiers/io_transfer.h"

namespace holdfast::internal {

// SINGLE_ISSUER and DEFER_TASKRUN where the kernel has them, else a plain ring. Returns -errno.
int InitUring(unsigned entries, io_uring* ring);

class UringRing {
 public:
  UringRing(const IoFile& file, uint32_t depth);
  ~UringRing();
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  void Run();  // the body of the ring's thread
  Status WaitUntilStarted();

  // False when the ring has ended: after Stop(), with nothing left to do.
  bool Offer(IoRequest* request);
  void Stop();

  // Requests accepted and not yet done, and those whose `done` is running.
  size_t load() const noexcept { return load_.load(std::memory_order_relaxed); }
  size_t in_flight() const noexcept { return in_flight_.load(std::memory_order_acquire); }

  // The ring whose thread is calling, or null.
  static UringRing* Current() noexcept;

 private:
  struct Slot {
    IoTransfer transfer;
    uint32_t generation = 0;  // of user_data: a completion of an earlier use is not ours
    bool on_device = false;
  };
  enum class Rest : uint8_t { kGoOn, kSleep, kEnd };

  Status Init();
  void Loop();
  Rest TryToRest();
  void TakeOffered();
  void Prepare();
  void PrepareSlot(uint32_t index);
  void ArmWake();
  void DrainWake() const;
  void Enter(bool sleep);
  void EnterFailed(int error);
  void Poison(int error);
  void Reap();
  void ReapSlot(uint64_t user_data, int result);
  void Finish(uint32_t index);
  void RunCallbacks();

  const int fd_;
  const IoLimits limits_;
  const uint32_t depth_;
  std::atomic<size_t> load_{0};
  std::atomic<size_t> in_flight_{0};

  // Of the ring's thread.
  io_uring ring_{};
  int wake_fd_ = -1;
  bool wake_armed_ = false;
  int poison_ = 0;           // errno of a ring that no longer takes entries
  int enter_failures_ = 0;   // in a row
  uint32_t on_device_ = 0;   // slots; with the wake-up never more than the ring has entries
  std::vector<Slot> slots_;  // depth_ of them
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> again_;      // slots whose next operation is to be sent
  std::vector<IoRequest*> pending_;  // waiting for a slot, from pending_first_ on
  size_t pending_first_ = 0;
  std::vector<IoRequest*> finished_;  // their `done` is due
  std::vector<IoRequest*> running_;   // the batch whose `done` is being called

  Mutex mutex_;
  CondVar started_changed_;
  std::vector<IoRequest*> offered_ HF_GUARDED_BY(mutex_);
  bool asleep_ HF_GUARDED_BY(mutex_) = false;
  bool stop_ HF_GUARDED_BY(mutex_) = false;
  bool ended_ HF_GUARDED_BY(mutex_) = false;
  bool started_ HF_GUARDED_BY(mutex_) = false;
  Status start_status_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::internal
