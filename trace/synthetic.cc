#include "trace/synthetic.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/session_model.h"

namespace holdfast {
namespace {

using internal::Quantiles;
using internal::Random;
using internal::Rank;
using internal::SessionModel;

// Steps of the two-dimensional golden-ratio sequence (Roberts' R2), as 64-bit fractions. Turns and
// first prompts of successive sessions take their ranks from it, so that even 200 sessions cover
// both distributions evenly whatever the seed.
constexpr uint64_t kTurnsStep = 0xC13FA9A902A6328F;
constexpr uint64_t kFirstStep = 0x91E10DA5C79E7B1D;

struct Session {
  uint64_t number = 0;
  Random random{0};
  int64_t turns_left = 0;
  uint64_t tokens = 0;           // of its prompt at the last turn
  uint64_t output = 0;           // of the answer to it
  std::vector<uint64_t> blocks;  // full blocks of that prompt
};

class Generator final : public TraceReader {
 public:
  Generator(const SessionModel& model, const ReaderOptions& options)
      : model_(model),
        options_(options),
        random_(options.seed),
        turns_rank_(random_.Next()),
        first_rank_(random_.Next()),
        requests_left_(options.requests_max != 0 ? options.requests_max : model.requests),
        next_block_(model.shared_tokens / options.block_tokens) {}

  Result<std::optional<Request>> Next() override {
    if (requests_left_ == 0) return std::optional<Request>();
    --requests_left_;
    OpenDueSessions();
    auto node = due_.extract(due_.begin());
    const int64_t now_ms = node.key().first;
    Session& session = node.mapped();
    Request request = TakeTurn(session);
    request.timestamp_ms = now_ms - now_ms % model_.tick_ms;
    request.session = "s" + std::to_string(session.number);

    const int64_t next_ms = now_ms + model_.pause_ms.At(session.random.NextRank());
    const bool goes_on =
        session.turns_left > 0 && session.tokens + session.output <= model_.context_tokens_max;
    if (!goes_on && model_.lanes > 0) session = OpenSession();
    if (goes_on || model_.lanes > 0) {
      node.key() = {next_ms, events_++};
      due_.insert(std::move(node));
    }
    return std::optional(std::move(request));
  }

 private:
  // All sessions that open before, or at the same time as, the next turn of those there are.
  void OpenDueSessions() {
    const auto more = [this] { return model_.lanes == 0 || opened_ < model_.lanes; };
    while (more() && (due_.empty() || arrival_ms_ <= due_.begin()->first.first)) {
      due_.emplace(std::pair(arrival_ms_, events_++), OpenSession());
      arrival_ms_ += static_cast<int64_t>(
          uint64_t{random_.NextRank()} * (2 * uint64_t{model_.arrival_ms_mean} + 1) >> 32);
    }
  }

  Session OpenSession() {
    Session session;
    session.number = opened_++;
    session.random = Random(random_.Next());
    const auto turns_rank = static_cast<Rank>((turns_rank_ += kTurnsStep) >> 32);
    auto first_rank = static_cast<Rank>((first_rank_ += kFirstStep) >> 32);
    if (session.random.Chance(model_.long_is_short_permille)) first_rank = ~turns_rank;
    const bool one_shot = session.random.Chance(model_.one_shot_permille);
    session.turns_left = one_shot ? 1 : model_.turns.At(turns_rank);
    const Quantiles& first = one_shot ? model_.one_shot_tokens : model_.first_tokens;
    session.tokens = static_cast<uint64_t>(first.At(first_rank));
    for (uint64_t i = 0; i < std::min(Full(session.tokens), SharedBlocks()); ++i) {
      session.blocks.push_back(i);
    }
    return session;
  }

  // The session as it is asks its next prompt, which becomes its new state unless it was a side
  // request.
  Request TakeTurn(Session& session) {
    --session.turns_left;
    Request request;
    const bool first_turn = session.output == 0;
    const uint64_t text = static_cast<uint64_t>(model_.text_tokens.At(session.random.NextRank()));
    const bool edit = session.random.Chance(model_.edit_permille) && !first_turn;
    const bool side = session.random.Chance(model_.side_permille) && edit;
    Session before;
    if (side) before = session;
    if (edit) {
      Edit(session);
    } else if (!first_turn) {
      session.tokens += session.output + text;
    }
    while (session.blocks.size() < Full(session.tokens)) session.blocks.push_back(next_block_++);
    session.output = std::max<uint64_t>(
        1, static_cast<uint64_t>(model_.output_tokens.At(session.random.NextRank())));

    request.input_length = session.tokens;
    request.output_length = session.output;
    request.hash_ids = session.blocks;
    // A partial block has an identity of its own, used up whether it is kept or not: the other
    // ids do not depend on the option.
    if (session.tokens % options_.block_tokens != 0) {
      if (options_.tail == Tail::kKeep) request.hash_ids.push_back(next_block_);
      ++next_block_;
    }
    if (side) {
      session.tokens = before.tokens;
      session.output = before.output;
      session.blocks = std::move(before.blocks);
    }
    return request;
  }

  void Edit(Session& session) {
    const auto kept_permille =
        static_cast<uint64_t>(model_.kept_permille.At(session.random.NextRank()));
    const int64_t delta = model_.edit_tokens.At(session.random.NextRank());
    const uint64_t kept =
        std::min<uint64_t>(session.blocks.size(),
                           std::max(SharedBlocks(), session.blocks.size() * kept_permille / 1000));
    const int64_t tokens = std::min(static_cast<int64_t>(session.tokens) + delta,
                                    static_cast<int64_t>(model_.context_tokens_max));
    const uint64_t least = kept * options_.block_tokens + 1;
    session.blocks.resize(kept);
    session.tokens = tokens > 0 ? std::max(least, static_cast<uint64_t>(tokens)) : least;
  }

  uint64_t Full(uint64_t tokens) const { return tokens / options_.block_tokens; }
  uint64_t SharedBlocks() const { return model_.shared_tokens / options_.block_tokens; }

  const SessionModel& model_;
  const ReaderOptions options_;
  Random random_;  // of the sessions' seeds and arrivals; each session has its own
  uint64_t turns_rank_;
  uint64_t first_rank_;
  uint64_t requests_left_;
  uint64_t next_block_;
  uint64_t opened_ = 0;
  uint64_t events_ = 0;  // orders what is due at the same millisecond
  int64_t arrival_ms_ = 0;
  std::map<std::pair<int64_t, uint64_t>, Session> due_;
};

}  // namespace

Result<std::unique_ptr<TraceReader>> OpenSynthetic(std::string_view spec,
                                                   const ReaderOptions& options) {
  if (spec.starts_with(kSyntheticPrefix)) {
    const std::string_view name = spec.substr(kSyntheticPrefix.size());
    for (const SessionModel* model : {&internal::kConversationModel, &internal::kAgentModel}) {
      if (model->name == name) {
        return std::unique_ptr<TraceReader>(std::make_unique<Generator>(*model, options));
      }
    }
  }
  return Status(StatusCode::kInvalidArgument,
                "no generator is called '" + std::string(spec) +
                    "'; known are synthetic:conversation and synthetic:agent");
}

}  // namespace holdfast
