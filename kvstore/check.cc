#include "kvstore/check.h"

#include <cstdio>
#include <cstdlib>

namespace holdfast::internal {

void CheckFailed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "holdfast: %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace holdfast::internal
