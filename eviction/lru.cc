// Least recently used. With the caller's order of touches, deepest block first, it is leaf-first.
#include "eviction/list_policy.h"

namespace holdfast::eviction::internal {
namespace {

class Lru final : public ListPolicy {
 public:
  using ListPolicy::ListPolicy;
  std::string_view name() const noexcept override { return "lru"; }
  void Touch(EntryId id) override { lists_.Renew(id); }
};

}  // namespace

std::unique_ptr<Policy> CreateLru(OrderedLists lists) {
  return std::make_unique<Lru>(std::move(lists));
}

}  // namespace holdfast::eviction::internal
