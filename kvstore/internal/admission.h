// Admission: which blocks without a paid hold may wear flash. A budget of written bytes, as a token
// bucket; and a memory of keys that were offered or touched before, one 8-byte fingerprint per
// flash frame, for when the budget is out of credit.
//
// Threading: thread-compatible; the store's lock protects it.
#pragma once

#include "kvstore/clock.h"
#include "kvstore/internal/huge_array.h"
#include "kvstore/status.h"
#include "kvstore/types.h"

namespace holdfast::internal {

class Admission {
 public:
  // `bytes_per_day` UINT64_MAX: no budget, and nothing is remembered.
  Status Init(uint64_t bytes_per_day, uint64_t flash_frames, Instant now);

  bool limited() const noexcept { return bytes_per_day_ != UINT64_MAX; }
  // An offer or a touch of `key` by the request whose folded id is given; one request counts once.
  void Remember(const BlockKey& key, uint16_t request) noexcept;
  // Offered or touched by at least two requests.
  bool Remembered(const BlockKey& key) const noexcept;

  bool HasCredit(uint64_t bytes, Instant now) noexcept;
  // Whether or not there was credit: a paid write uses it up, too.
  void Spend(uint64_t bytes, Instant now) noexcept;

 private:
  static constexpr size_t kWays = 4;
  void Refill(Instant now) noexcept;

  uint64_t bytes_per_day_ = UINT64_MAX;
  double credit_ = 0;
  double credit_max_ = 0;
  Instant refilled_{};
  HugeArray<uint64_t> table_;  // 40 bits of the key, 8 of a count, 16 of the last request
  size_t sets_ = 0;
};

}  // namespace holdfast::internal
