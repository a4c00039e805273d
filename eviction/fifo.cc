// First in, first out: a use changes nothing.
#include "eviction/list_policy.h"
#include "kvstore/check.h"

namespace holdfast::eviction::internal {
namespace {

class Fifo final : public ListPolicy {
 public:
  using ListPolicy::ListPolicy;
  std::string_view name() const noexcept override { return "fifo"; }
  void Touch(EntryId id) override { HF_CHECK(lists_.Contains(id)); }
};

}  // namespace

std::unique_ptr<Policy> CreateFifo(OrderedLists lists) {
  return std::make_unique<Fifo>(std::move(lists));
}

}  // namespace holdfast::eviction::internal
