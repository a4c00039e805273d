// What the real traces could hit without a limit of space, by time to live and treatment of tails.
#include "tests/golden/trace_log.h"

namespace holdfast::eviction {
namespace {

constexpr uint32_t kBlockTokens = 512;
constexpr int64_t kSecondMs = 1000;

TEST(CeilingGolden, ConversationTraceWithAllIdsKept) {
  HF_SKIP_WITHOUT_TRACE(testing::kConversation);
  const RequestLog log = testing::ReadLog(testing::kConversation, {.tail = Tail::kKeep});
  EXPECT_EQ(log.size(), 12'031u);
  EXPECT_EQ(log.references(), 288'500u);
  EXPECT_EQ(log.distinct(), 182'790u);
  EXPECT_EQ(log.input_tokens(), 144'793'823u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens), (HitCount{.blocks = 105'710, .tokens = 54'098'411}));
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 3600 * kSecondMs).blocks, 105'710u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 300 * kSecondMs).blocks, 82'941u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 60 * kSecondMs).blocks, 28'848u);
}

TEST(CeilingGolden, ConversationTraceWithPartialTailsDropped) {
  HF_SKIP_WITHOUT_TRACE(testing::kConversation);
  const RequestLog log = testing::ReadLog(testing::kConversation, {.tail = Tail::kDrop});
  EXPECT_EQ(log.references(), 276'491u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens).blocks, 105'592u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 300 * kSecondMs).blocks, 82'846u);
}

TEST(CeilingGolden, SyntheticTraceWithAllIdsKept) {
  HF_SKIP_WITHOUT_TRACE(testing::kSynthetic);
  const RequestLog log = testing::ReadLog(testing::kSynthetic, {.tail = Tail::kKeep});
  EXPECT_EQ(log.size(), 3'993u);
  EXPECT_EQ(log.references(), 121'877u);
  EXPECT_EQ(log.distinct(), 43'924u);
  EXPECT_EQ(log.input_tokens(), 61'194'628u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens), (HitCount{.blocks = 77'953, .tokens = 39'852'661}));
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 3600 * kSecondMs).blocks, 77'953u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 300 * kSecondMs).blocks, 71'228u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 60 * kSecondMs).blocks, 39'202u);
}

TEST(CeilingGolden, SyntheticTraceWithPartialTailsDropped) {
  HF_SKIP_WITHOUT_TRACE(testing::kSynthetic);
  const RequestLog log = testing::ReadLog(testing::kSynthetic, {.tail = Tail::kDrop});
  EXPECT_EQ(log.references(), 117'888u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens).blocks, 77'740u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens, 300 * kSecondMs).blocks, 71'046u);
}

TEST(CeilingGolden, AgentTraceIsReadWhole) {
  HF_SKIP_WITHOUT_TRACE(testing::kAgent);
  const RequestLog log = testing::ReadLog(testing::kAgent, {});
  EXPECT_EQ(log.size(), 9'873u);
  EXPECT_EQ(log.references(), 2'869'764u);
  EXPECT_EQ(log.distinct(), 127'543u);
  EXPECT_EQ(UnlimitedHits(log, kBlockTokens).blocks, 2'742'221u);
}

}  // namespace
}  // namespace holdfast::eviction
