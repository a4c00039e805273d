// Error values. Nothing in the library throws; every fallible call returns one of these two types.
//
//   Status     success, or a code plus a message that says what failed on which object
//   Result<T>  a T, or the Status that explains why there is none
//
// A cache miss or a declined store is an outcome, never a Status (see tier.h).
//
// Threading: thread-compatible.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace holdfast {

// Ordered by who has to act. Add a code only when some caller would branch on it.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,     // the caller passed something no state could make valid
  kFailedPrecondition,  // valid call, wrong moment (closed tier, pool not registered)
  kResourceExhausted,   // a fixed limit is full; retry after a completion is polled
  kDeadlineExceeded,    // gave up waiting; the operation may still take effect
  kCancelled,           // the caller asked for it
  kIoError,             // the OS, the device or the driver failed the request
  kDataLoss,            // bytes read do not match their checksum or header
  kUnimplemented,       // not built, or the device lacks the feature
  kInternal,            // a bug here; the message names the invariant
};

std::string_view ToString(StatusCode code) noexcept;

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // OK: one null pointer, no allocation
  Status(StatusCode code, std::string message);

  // `os_errno` is kept as a number so that callers and tests need not parse the message.
  static Status FromErrno(int os_errno, std::string message);

  Status(const Status&) = default;
  Status& operator=(const Status&) = default;
  Status(Status&& other) noexcept : rep_(std::move(other.rep_)) { MoveChecked(other); }
  Status& operator=(Status&& other) noexcept {
    AssertChecked();
    rep_ = std::move(other.rep_);
    MoveChecked(other);
    return *this;
  }
  ~Status() { AssertChecked(); }

  bool ok() const noexcept {
    MarkChecked();
    return rep_ == nullptr;
  }
  StatusCode code() const noexcept {
    MarkChecked();
    return rep_ ? rep_->code : StatusCode::kOk;
  }
  int os_errno() const noexcept { return rep_ ? rep_->os_errno : 0; }
  std::string_view message() const noexcept { return rep_ ? rep_->message : std::string_view(); }
  std::string ToString() const;

  // Prepends "what: " to the message; the code stays. Use it once per layer that knows a name.
  Status WithContext(std::string_view what) &&;

  // The only way to drop an error on purpose. `why` is for the reader and for grep.
  void IgnoreError([[maybe_unused]] std::string_view why) const noexcept { MarkChecked(); }

 private:
  struct Rep {
    StatusCode code;
    int os_errno;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;

  // Builds with HOLDFAST_STATUS_CHECKED abort when an error dies unread.
#ifdef HOLDFAST_STATUS_CHECKED
  mutable bool checked_ = false;
  void MarkChecked() const noexcept { checked_ = true; }
  void MoveChecked(Status& o) noexcept {
    checked_ = false;
    o.checked_ = true;
  }
  void AssertChecked() const noexcept {
    if (rep_ && !checked_) DieUnchecked();
  }
  [[noreturn]] void DieUnchecked() const noexcept;
#else
  void MarkChecked() const noexcept {}
  void MoveChecked(Status&) noexcept {}
  void AssertChecked() const noexcept {}
#endif
};

// Observers carry std::expected's names. Unlike it, a Status converts implicitly: `return status;`.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}       // NOLINT: implicit
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool has_value() const noexcept {
    if (const Status* error = std::get_if<1>(&state_)) error->IgnoreError("asked has_value()");
    return state_.index() == 0;
  }
  explicit operator bool() const noexcept { return has_value(); }

  // Require has_value() / !has_value(); checked by assert, as std::expected's operator* is not.
  T& operator*() & noexcept {
    assert(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  const T& operator*() const& noexcept {
    assert(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  T&& operator*() && noexcept {
    assert(state_.index() == 0);
    return std::move(*std::get_if<0>(&state_));
  }
  T* operator->() noexcept { return &**this; }
  const T* operator->() const noexcept { return &**this; }
  const Status& error() const& noexcept {
    assert(state_.index() == 1);
    return *std::get_if<1>(&state_);
  }
  Status&& error() && noexcept {
    assert(state_.index() == 1);
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  std::variant<T, Status> state_;
};

}  // namespace holdfast

#define HF_INTERNAL_CAT2(a, b) a##b
#define HF_INTERNAL_CAT(a, b) HF_INTERNAL_CAT2(a, b)

#define HF_RETURN_IF_ERROR(expr)                                   \
  do {                                                             \
    if (::holdfast::Status hf_s = (expr); !hf_s.ok()) return hf_s; \
  } while (false)

#define HF_ASSIGN_OR_RETURN(lhs, expr) \
  HF_INTERNAL_ASSIGN(HF_INTERNAL_CAT(hf_r, __LINE__), lhs, expr)
#define HF_INTERNAL_ASSIGN(tmp, lhs, expr)             \
  auto tmp = (expr);                                   \
  if (!tmp.has_value()) return std::move(tmp).error(); \
  lhs = *std::move(tmp)
