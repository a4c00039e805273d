#include "eviction/policy.h"

#include <array>
#include <string>
#include <utility>

#include "eviction/list_policy.h"

namespace holdfast::eviction {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"lru", "fifo"};

}  // namespace

Result<std::unique_ptr<Policy>> CreatePolicy(std::string_view name, const PolicyOptions& options) {
  const bool lru = name == kNames[0];
  if (!lru && name != kNames[1]) {
    std::string message = "no eviction policy is called '" + std::string(name) + "'; known are";
    for (std::string_view known : kNames) (message += ' ') += known;
    return Status(StatusCode::kInvalidArgument, std::move(message));
  }
  HF_ASSIGN_OR_RETURN(OrderedLists lists, OrderedLists::Create(options));
  return lru ? internal::CreateLru(std::move(lists)) : internal::CreateFifo(std::move(lists));
}

std::span<const std::string_view> PolicyNames() { return kNames; }

}  // namespace holdfast::eviction
