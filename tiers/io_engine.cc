#include "kvstore/io_engine.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "kvstore/types.h"
#include "tiers/io_engines.h"
#include "tiers/io_file.h"

namespace holdfast {
namespace {

constexpr uint32_t kThreadsMax = 64;
constexpr uint32_t kDepthMax = 4096;

Status CheckOptions(const IoEngineOptions& o) {
  const auto invalid = [](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, "IoEngineOptions: " + what);
  };
  if (o.path.empty()) return invalid("path is empty");
  if (o.capacity_bytes == 0 || o.capacity_bytes % kPageBytes != 0 || o.capacity_bytes > INT64_MAX) {
    return invalid("capacity_bytes is " + std::to_string(o.capacity_bytes) +
                   ", must be a multiple of 4096 above 0");
  }
  if (o.threads == 0 || o.threads > kThreadsMax) return invalid("threads must be 1 to 64");
  if (o.depth < o.threads || o.depth > kDepthMax) {
    return invalid("depth must be at least threads and at most 4096");
  }
  if (!o.start_thread) return invalid("start_thread is missing");
  return {};
}

Result<std::unique_ptr<IoEngine>> CreateEngine(const std::shared_ptr<internal::IoFile>& file,
                                               const IoEngineOptions& options, std::string* note) {
  if (options.kind == IoEngineKind::kPread) return internal::CreatePreadEngine(file, options);
  auto engine = internal::CreateUringEngine(file, options);
  if (engine.has_value() || options.kind == IoEngineKind::kUring ||
      engine.error().code() == StatusCode::kResourceExhausted) {  // pread needs more threads
    return engine;
  }
  if (note != nullptr) {
    *note = std::string(engine.error().message()) + "; " + options.path +
            " is read and written by pread threads instead";
  }
  return internal::CreatePreadEngine(file, options);
}

}  // namespace

Result<std::unique_ptr<IoEngine>> OpenIoEngine(const IoEngineOptions& options, std::string* note) {
  HF_RETURN_IF_ERROR(CheckOptions(options));
  HF_ASSIGN_OR_RETURN(std::shared_ptr<internal::IoFile> file, internal::IoFile::Open(options));
  auto engine = CreateEngine(file, options, note);
  if (!engine.has_value()) file->RemoveIfCreated();
  return engine;
}

}  // namespace holdfast
