// The engines behind OpenIoEngine.
#pragma once

#include <memory>

#include "kvstore/io_engine.h"
#include "kvstore/status.h"
#include "tiers/io_file.h"

namespace holdfast::internal {

// Both start their threads before they return. The file is shared only so that an opener can try
// the other one.
//   kUnimplemented      io_uring is denied, broken or lacks memory; the message says which
//   kResourceExhausted  a thread is refused, by name
Result<std::unique_ptr<IoEngine>> CreateUringEngine(std::shared_ptr<IoFile> file,
                                                    const IoEngineOptions& options);
Result<std::unique_ptr<IoEngine>> CreatePreadEngine(std::shared_ptr<IoFile> file,
                                                    const IoEngineOptions& options);

}  // namespace holdfast::internal
