// What a store must, may and must not give back after its process was killed.
//
// The killed program writes a record before each verb and one after it. The records alone, replayed
// by the next program, say for every key which payloads may be there, until when, and whether one
// has to be.
//
//   Expectation expectation;
//   expectation.Apply({.kind = RecordKind::kMayErase, .op = 7, .key = 3, ...});
//   expectation.Served(key, version, before, after)    // empty, or what is wrong
//
// Times are hold time, in milliseconds. A put gives its key a new version, which decides the bytes;
// a version is put once. Keys are not linked, so that no hold reaches another key.
//
// Threading: thread-confined.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvstore/clock.h"
#include "kvstore/store.h"

namespace holdfast::testing {

enum class RecordKind : uint8_t {
  kOpened = 1,  // a new process; what the one before had begun may or may not have happened
  kMayPut,
  kDidPut,  // outcome
  kMayFetch,
  kDidFetch,
  kMayHold,
  kDidHold,  // outcome: kDone when granted
  kMayRelease,
  kDidRelease,
  kMayErase,
  kDidErase,
  kMayEpoch,  // of the space of `key`
  kDidEpoch,
  kDidDrain,
  kBroken,  // the store lost blocks under granted holds, and said so
};

struct Record {
  RecordKind kind{};
  Item outcome{};
  uint16_t unused = 0;
  uint32_t key = 0;
  uint64_t op = 0;  // the same in both records of a verb
  uint64_t version = 0;
  int64_t ttl_ms = 0;  // 0: no hold
  HoldMillis now = 0;
};

class Expectation {
 public:
  // Keys from `second_space` on are in a space of their own.
  explicit Expectation(uint32_t second_space) : second_space_(second_space) {}

  void Apply(const Record& record);

  // What is wrong with a fetch that was accepted between the two times; empty: nothing.
  std::string Served(uint32_t key, uint64_t version, HoldMillis before) const;
  std::string Missed(uint32_t key, HoldMillis after) const;

  // Whether an acknowledged Drain says that the key is there at `now`.
  bool Required(uint32_t key, HoldMillis now) const;
  uint64_t next_version() const noexcept { return next_version_; }
  uint64_t next_op() const noexcept { return next_op_; }
  // Epochs of a space: acknowledged, and begun.
  uint32_t epochs(bool second) const noexcept { return epochs_[second ? 1 : 0]; }
  uint32_t epochs_begun(bool second) const noexcept { return epochs_begun_[second ? 1 : 0]; }

 private:
  struct Version {
    uint64_t number = 0;
    uint64_t over = UINT64_MAX;  // record: its put can have no effect any more
    int64_t ttl_ms = 0;          // the longest asked for
    HoldMillis deadline_max = kNoDeadline;
    bool released = false;
    bool on_media = true;  // its first deadline is; false: a kill may lose it
  };
  struct Key {
    std::vector<Version> possible;
    bool granted = false;
    HoldMillis deadline_min = 0;    // while granted
    HoldMillis required_until = 0;  // 0: may be absent
  };
  struct Begun {
    Record record;
    uint64_t at = 0;
  };

  bool InSecond(uint32_t key) const noexcept { return key >= second_space_; }
  void Begin(const Record& record);
  void Opened(HoldMillis now);
  void DidPut(const Record& record, HoldMillis begun_at);
  void DidHold(const Record& record, HoldMillis begun_at);
  void DidDrain();
  void Forget(uint32_t key, uint64_t before);  // whose put was over before that record
  void ForgetEpoch(const Record& record);
  static void Loosen(Key& key);
  static void ExtendAll(Key& key, int64_t ttl_ms, HoldMillis now);

  uint32_t second_space_;
  std::map<uint32_t, Key> keys_;
  std::map<std::pair<uint64_t, uint32_t>, Begun> begun_;  // by op and key
  uint64_t records_ = 0;
  uint64_t next_version_ = 1;
  uint64_t next_op_ = 1;
  uint32_t epochs_[2] = {0, 0};
  uint32_t epochs_begun_[2] = {0, 0};
};

}  // namespace holdfast::testing
