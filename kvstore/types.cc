#include "kvstore/types.h"

namespace holdfast {

std::string_view ToString(Where where) noexcept {
  switch (where) {
    case Where::kAbsent:
      return "absent";
    case Where::kArriving:
      return "arriving";
    case Where::kHbm:
      return "hbm";
    case Where::kDdr:
      return "ddr";
    case Where::kFlash:
      return "flash";
    case Where::kDisk:
      return "disk";
  }
  return "unknown";
}

}  // namespace holdfast
