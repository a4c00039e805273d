// SessionModel: what a generator knows about the sessions whose requests make up a trace.
//
// A session opens with a prompt of `first_tokens` behind a system prompt that all sessions share,
// and takes `turns` turns. Each turn appends the answer and new text to the prompt, or edits it:
// keeps a part from the front and goes on from there, for good or (a side request) for one request.
// Figures are summaries of published traces; docs/traces.md sets both side by side.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/quantiles.h"

namespace holdfast::internal {

struct SessionModel {
  std::string_view name;
  uint64_t requests;       // the length of the trace it follows
  uint32_t tick_ms;        // timestamps are multiples of it
  uint32_t shared_tokens;  // system prompt of all sessions, whole blocks of it are shared

  // Sessions open at random, `arrival_ms_mean` apart; with lanes, that far apart until every lane
  // has one, and from then on whenever a lane's session ends.
  uint32_t arrival_ms_mean;
  uint32_t lanes;

  uint32_t one_shot_permille;  // of sessions: a single request of one_shot_tokens
  Quantiles one_shot_tokens;
  Quantiles turns;
  Quantiles first_tokens;
  // Of sessions whose first prompt is the shorter the more turns they take.
  uint32_t long_is_short_permille;

  Quantiles text_tokens;  // new text of a turn
  Quantiles output_tokens;
  Quantiles pause_ms;           // from a request to the next of its session
  uint32_t edit_permille;       // of turns
  uint32_t side_permille;       // of edits
  Quantiles kept_permille;      // of the blocks before an edit
  Quantiles edit_tokens;        // the prompt after an edit minus the prompt before it
  uint64_t context_tokens_max;  // a session ends where its prompt would pass it
};

// One hour of a chat service.
extern const SessionModel kConversationModel;
// Coding agents, 32 sessions at a time.
extern const SessionModel kAgentModel;

}  // namespace holdfast::internal
