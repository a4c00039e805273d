#include "trace/session_model.h"

namespace holdfast::internal {
namespace {

constexpr Knot kChatOneShot[] = {{0, 890}, {300, 897}, {700, 905}, {1000, 1000}};
// From the share of conversations that go on after each turn, those that the hour cuts off
// included.
constexpr Knot kChatTurns[] = {{0, 1},   {595, 1},  {596, 2},  {815, 2},  {816, 3},
                               {899, 3}, {900, 4},  {937, 4},  {938, 5},  {960, 6},
                               {978, 8}, {987, 11}, {995, 17}, {999, 25}, {1000, 43}};
constexpr Knot kChatFirst[] = {{0, 1000},    {50, 1150},   {100, 1320},  {150, 1640},
                               {200, 2250},  {250, 3300},  {300, 4000},  {400, 5300},
                               {500, 7000},  {600, 9200},  {700, 12000}, {800, 17000},
                               {900, 27000}, {950, 40000}, {990, 91000}, {1000, 126000}};
constexpr Knot kChatText[] = {{0, 0},      {250, 9},    {500, 30},    {750, 560},
                              {900, 4570}, {950, 7430}, {990, 17900}, {1000, 60000}};
constexpr Knot kChatOutput[] = {{0, 3},     {50, 10},   {100, 24},   {250, 156},  {500, 350},
                                {750, 472}, {900, 597}, {990, 1120}, {1000, 2000}};
constexpr Knot kChatPause[] = {{0, 9000},     {10, 12000},    {50, 30000},    {100, 43000},
                               {250, 69000},  {500, 130000},  {750, 280000},  {900, 510000},
                               {950, 660000}, {990, 1550000}, {1000, 3030000}};
constexpr Knot kChatKept[] = {{0, 30},    {100, 60},  {250, 110}, {500, 220},
                              {750, 470}, {900, 900}, {1000, 990}};
constexpr Knot kChatEdit[] = {{0, -30000}, {50, -10400}, {100, -7800}, {250, -3700}, {500, -90},
                              {750, 1590}, {900, 5070},  {950, 7600},  {1000, 40000}};

constexpr Knot kAgentTurns[] = {{0, 3},    {50, 4},    {100, 5},   {200, 8},   {300, 15},
                                {400, 21}, {500, 26},  {600, 37},  {700, 52},  {800, 68},
                                {850, 89}, {900, 120}, {950, 189}, {1000, 409}};
constexpr Knot kAgentFirst[] = {{0, 9500},     {50, 15200},   {150, 16500},  {250, 20900},
                                {350, 43000},  {450, 66900},  {500, 83200},  {600, 99300},
                                {700, 128700}, {750, 150600}, {800, 244500}, {900, 312700},
                                {950, 525700}, {1000, 845900}};
constexpr Knot kAgentText[] = {{0, 20},     {100, 90},   {250, 190},   {500, 480},   {750, 1500},
                               {900, 3800}, {950, 6900}, {990, 15500}, {1000, 60000}};
constexpr Knot kAgentOutput[] = {{0, 30},    {50, 92},    {250, 147},  {500, 237},  {750, 443},
                                 {900, 862}, {950, 1344}, {990, 2984}, {1000, 8000}};
constexpr Knot kAgentPause[] = {{0, 3000},    {10, 5000},   {50, 8000},
                                {100, 9500},  {250, 14500}, {500, 23000},
                                {750, 46000}, {850, 60000}, {1000, 60000}};
constexpr Knot kAgentKept[] = {{0, 0},     {50, 20},   {250, 90},  {500, 160},
                               {750, 440}, {900, 950}, {1000, 990}};
constexpr Knot kAgentEdit[] = {{0, -130000}, {100, -94000}, {250, -48000}, {500, 0},
                               {750, 2500},  {900, 34000},  {950, 67000},  {1000, 200000}};

}  // namespace

constinit const SessionModel kConversationModel = {
    .name = "conversation",
    .requests = 12'031,
    .tick_ms = 3000,
    .shared_tokens = 512,
    .arrival_ms_mean = 478,
    .lanes = 0,
    .one_shot_permille = 175,
    .one_shot_tokens = Quantiles(kChatOneShot),
    .turns = Quantiles(kChatTurns),
    .first_tokens = Quantiles(kChatFirst),
    .long_is_short_permille = 120,
    .text_tokens = Quantiles(kChatText),
    .output_tokens = Quantiles(kChatOutput),
    .pause_ms = Quantiles(kChatPause),
    .edit_permille = 190,
    .side_permille = 0,
    .kept_permille = Quantiles(kChatKept),
    .edit_tokens = Quantiles(kChatEdit),
    .context_tokens_max = 128'000,
};

constinit const SessionModel kAgentModel = {
    .name = "agent",
    .requests = 9'873,
    .tick_ms = 1,
    .shared_tokens = 0,
    .arrival_ms_mean = 17'000,
    .lanes = 32,
    .one_shot_permille = 0,
    .one_shot_tokens = Quantiles(kAgentFirst),
    .turns = Quantiles(kAgentTurns),
    .first_tokens = Quantiles(kAgentFirst),
    .long_is_short_permille = 1000,
    .text_tokens = Quantiles(kAgentText),
    .output_tokens = Quantiles(kAgentOutput),
    .pause_ms = Quantiles(kAgentPause),
    .edit_permille = 25,
    .side_permille = 270,
    .kept_permille = Quantiles(kAgentKept),
    .edit_tokens = Quantiles(kAgentEdit),
    .context_tokens_max = 1'000'000,
};

}  // namespace holdfast::internal
