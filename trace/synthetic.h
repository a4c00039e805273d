// Seeded generators behind the TraceReader interface, for tests and demonstrations without a file.
//
//   auto reader = OpenSynthetic("synthetic:agent", {.requests_max = 2'000, .seed = 7});
//
// "synthetic:conversation" resembles an hour of a chat service, "synthetic:agent" coding agents at
// work (docs/traces.md has the comparison). The same options give the same requests on every
// platform, and a longer run begins with the shorter one.
//
// Threading, memory: as TraceReader. Errors: kInvalidArgument for an unknown name.
#pragma once

#include <memory>
#include <string_view>

#include "kvstore/status.h"
#include "trace/reader.h"

namespace holdfast {

inline constexpr std::string_view kSyntheticPrefix = "synthetic:";

Result<std::unique_ptr<TraceReader>> OpenSynthetic(std::string_view spec,
                                                   const ReaderOptions& options);

}  // namespace holdfast
