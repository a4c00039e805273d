// HF_CHECK: on in every build, for what only a bug in this process can break. Never on bytes that
// came from outside it.
#pragma once

namespace holdfast::internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line) noexcept;
}  // namespace holdfast::internal

#define HF_CHECK(condition)           \
  ((condition) ? static_cast<void>(0) \
               : ::holdfast::internal::CheckFailed(#condition, __FILE__, __LINE__))
