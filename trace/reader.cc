#include "trace/reader.h"

#include "trace/mooncake.h"
#include "trace/synthetic.h"

namespace holdfast {

Result<std::unique_ptr<TraceReader>> OpenTrace(std::string_view spec,
                                               const ReaderOptions& options) {
  if (options.block_tokens == 0) {
    return Status(StatusCode::kInvalidArgument, "block_tokens is 0; a block has at least 1 token");
  }
  if (spec.starts_with(kSyntheticPrefix)) return OpenSynthetic(spec, options);
  return OpenMooncake(spec, options);
}

}  // namespace holdfast
