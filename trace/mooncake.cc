#include "trace/mooncake.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "trace/json_cursor.h"
#include "trace/line_source.h"

namespace holdfast {
namespace {

using internal::JsonCursor;
using internal::LineSource;

constexpr std::string_view kRowForm =
    R"(expected {"timestamp": ms, "input_length": tokens, "output_length": tokens, )"
    R"("hash_ids": [integers]})";

enum Field : uint8_t { kTimestamp, kInputLength, kOutputLength, kHashIds, kSessionId, kFields };
constexpr std::array<std::string_view, kFields> kFieldNames = {
    "timestamp", "input_length", "output_length", "hash_ids", "session_id"};

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string Quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

// Parses one row. Error messages lack the place, which the reader knows.
class RowParser {
 public:
  RowParser(std::string_view row, Request& request) : cursor_(row), request_(request) {}

  Status Parse() {
    if (cursor_.text().starts_with(kByteOrderMark)) {
      return Invalid("a UTF-8 byte order mark; expected a file without one");
    }
    if (!cursor_.Consume('{')) return NotJson();
    if (!cursor_.Consume('}')) {
      do {
        HF_RETURN_IF_ERROR(ParseMember());
      } while (cursor_.Consume(','));
      if (!cursor_.Consume('}')) return NotJson();
    }
    if (!cursor_.AtEnd()) return NotJson();
    for (size_t field = kTimestamp; field <= kHashIds; ++field) {
      if (!seen_[field]) return Invalid("no " + Quoted(kFieldNames[field]));
    }
    return {};
  }

 private:
  static Status Invalid(std::string what) {
    return {StatusCode::kInvalidArgument, std::move(what) + "; " + std::string(kRowForm)};
  }

  Status NotJson() const {
    return Invalid("not a JSON object, from column " + std::to_string(cursor_.position() + 1) +
                   " on");
  }

  // The value at the cursor is not what the field needs: a wrong value, or no JSON at all.
  Status WrongValue(std::string_view what, std::string_view wanted) {
    constexpr size_t kShownMax = 40;
    cursor_.Peek();
    const size_t begin = cursor_.position();
    if (!cursor_.Skip()) return NotJson();
    const std::string_view value = cursor_.From(begin);
    return Invalid(std::string(what) + " is " + std::string(value.substr(0, kShownMax)) +
                   (value.size() > kShownMax ? "..." : "") + ", not " + std::string(wanted));
  }

  Status ParseMember() {
    std::string_view raw;
    if (!cursor_.ReadString(&raw) || !cursor_.Consume(':')) return NotJson();
    const std::string unescaped =
        raw.find('\\') == std::string_view::npos ? std::string() : internal::UnescapeAscii(raw);
    const std::string_view key = unescaped.empty() ? raw : unescaped;
    const auto* const name = std::find(kFieldNames.begin(), kFieldNames.end(), key);
    if (name == kFieldNames.end()) return cursor_.Skip() ? Status() : NotJson();
    const auto field = static_cast<size_t>(name - kFieldNames.begin());
    if (std::exchange(seen_[field], true)) return Invalid(Quoted(key) + " appears twice");
    switch (field) {
      case kTimestamp: {
        uint64_t timestamp = 0;
        HF_RETURN_IF_ERROR(ParseInteger(key, "an integer of milliseconds", &timestamp));
        request_.timestamp_ms = static_cast<int64_t>(timestamp);
        return {};
      }
      case kInputLength:
        return ParseInteger(key, "an integer of tokens", &request_.input_length);
      case kOutputLength:
        return ParseInteger(key, "an integer of tokens", &request_.output_length);
      case kHashIds:
        return ParseIds();
      default:
        return ParseSession();
    }
  }

  Status ParseInteger(std::string_view key, std::string_view kind, uint64_t* value) {
    if (cursor_.ReadInteger(value)) return {};
    return WrongValue(Quoted(key), std::string(kind) + " from 0 to 2^63 - 1");
  }

  Status ParseIds() {
    if (!cursor_.Consume('[')) return WrongValue(Quoted("hash_ids"), "an array of integers");
    if (cursor_.Consume(']')) return {};
    do {
      uint64_t id = 0;
      if (!cursor_.ReadInteger(&id)) {
        return WrongValue("hash_ids[" + std::to_string(request_.hash_ids.size()) + "]",
                          "an integer from 0 to 2^63 - 1");
      }
      request_.hash_ids.push_back(id);
    } while (cursor_.Consume(','));
    return cursor_.Consume(']') ? Status() : NotJson();
  }

  Status ParseSession() {
    std::string_view session;
    if (!cursor_.ReadString(&session)) return WrongValue(Quoted("session_id"), "a string");
    request_.session = session;
    return {};
  }

  JsonCursor cursor_;
  Request& request_;
  std::array<bool, kFields> seen_ = {};
};

class MooncakeReader final : public TraceReader {
 public:
  MooncakeReader(LineSource lines, const ReaderOptions& options)
      : lines_(std::move(lines)), options_(options) {}

  Result<std::optional<Request>> Next() override {
    if (failed_) {
      return Status(StatusCode::kFailedPrecondition,
                    lines_.name() + ": reading ended with an earlier error");
    }
    Result<std::optional<Request>> request = ReadRow();
    failed_ = !request.has_value();
    return request;
  }

 private:
  Result<std::optional<Request>> ReadRow() {
    if (options_.requests_max != 0 && rows_ == options_.requests_max) {
      return std::optional<Request>();
    }
    std::optional<std::string_view> row;
    do {
      HF_ASSIGN_OR_RETURN(row, lines_.Next());
    } while (row && row->find_first_not_of(" \t\r") == std::string_view::npos);
    if (!row) {
      if (rows_ > 0) return std::optional<Request>();
      return Status(StatusCode::kInvalidArgument, lines_.name() + ": no request in it; " +
                                                      std::string(kRowForm) + ", one a line");
    }
    Request request;
    request.hash_ids.reserve(ids_last_);
    Status status = RowParser(*row, request).Parse();
    if (status.ok()) status = Check(request);
    if (!status.ok()) {
      HF_RETURN_IF_ERROR(lines_.CheckRest());
      return lines_.Error(status.code(), status.message());
    }
    if (rows_++ == 0) timestamp_first_ms_ = request.timestamp_ms;
    ids_last_ = request.hash_ids.size();
    timestamp_last_ms_ = request.timestamp_ms;
    DropTail(request);
    return std::optional(std::move(request));
  }

  Status Check(const Request& request) const {
    if (request.timestamp_ms < timestamp_last_ms_) {
      return {StatusCode::kInvalidArgument,
              "\"timestamp\" is " + std::to_string(request.timestamp_ms) +
                  ", before the row above it; expected rows sorted by time, at least " +
                  std::to_string(timestamp_last_ms_)};
    }
    if (rows_ > 0 && request.timestamp_ms - timestamp_first_ms_ > kTraceSpanMsMax) {
      return {StatusCode::kInvalidArgument,
              "\"timestamp\" is " + std::to_string(request.timestamp_ms) +
                  ", too far from the first row; expected at most " +
                  std::to_string(kTraceSpanMsMax) + " ms (292 years) after " +
                  std::to_string(timestamp_first_ms_)};
    }
    const uint64_t full = request.input_length / options_.block_tokens;
    const uint64_t partial = request.input_length % options_.block_tokens == 0 ? 0 : 1;
    const uint64_t ids = request.hash_ids.size();
    if (ids == full || ids == full + partial) return {};
    return {
        StatusCode::kInvalidArgument,
        std::to_string(ids) + " hash_ids for an \"input_length\" of " +
            std::to_string(request.input_length) + "; expected " + std::to_string(full + partial) +
            (partial != 0 ? ", or " + std::to_string(full) + " without the partial block," : "") +
            " at " + std::to_string(options_.block_tokens) + " tokens a block"};
  }

  void DropTail(Request& request) const {
    const uint64_t full = request.input_length / options_.block_tokens;
    if (options_.tail == Tail::kDrop && request.hash_ids.size() > full) {
      request.hash_ids.pop_back();
    }
  }

  LineSource lines_;
  ReaderOptions options_;
  uint64_t rows_ = 0;
  size_t ids_last_ = 0;
  int64_t timestamp_first_ms_ = 0;
  int64_t timestamp_last_ms_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<std::unique_ptr<TraceReader>> OpenMooncake(std::string_view path,
                                                  const ReaderOptions& options) {
  HF_ASSIGN_OR_RETURN(LineSource lines, LineSource::Open(path));
  return std::unique_ptr<TraceReader>(std::make_unique<MooncakeReader>(std::move(lines), options));
}

}  // namespace holdfast
