#include "kvstore/status.h"

#include <cerrno>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace holdfast {
namespace {

Status Invalid() { return Status(StatusCode::kInvalidArgument, "ttl must be positive"); }

Result<int> Half(int value) {
  if (value % 2 != 0) return Status(StatusCode::kInvalidArgument, "odd");
  return value / 2;
}
Result<int> Quarter(int value) {
  HF_ASSIGN_OR_RETURN(const int half, Half(value));
  HF_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}
Status CheckEven(int value, int* reached) {
  HF_RETURN_IF_ERROR(Half(value).has_value() ? Status() : Invalid());
  ++*reached;
  return {};
}

TEST(StatusTest, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.os_errno(), 0);
  EXPECT_EQ(status.ToString(), "OK");
}

TEST(StatusTest, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    names.insert(ToString(static_cast<StatusCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(StatusCode::kInternal) + 1);
  EXPECT_EQ(names.count("UNKNOWN"), 0u);
}

TEST(StatusTest, ErrorTellsCodeAndMessage) {
  const Status status = Invalid();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.ToString(), "INVALID_ARGUMENT: ttl must be positive");
}

TEST(StatusTest, ErrnoStaysANumberAndGetsItsText) {
  const Status status = Status::FromErrno(ENOSPC, "write /d/flash");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(status.os_errno(), ENOSPC);
  EXPECT_EQ(status.ToString(), "IO_ERROR: write /d/flash: No space left on device");
}

TEST(StatusTest, ContextGoesInFrontAndKeepsCodeAndErrno) {
  const Status status = Status::FromErrno(EIO, "read").WithContext("segment 7");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(status.os_errno(), EIO);
  EXPECT_EQ(status.message(), "segment 7: read: Input/output error");
  EXPECT_TRUE(Status().WithContext("segment 7").ok());
}

TEST(StatusTest, CopyIsTheSameErrorAndMoveLeavesOk) {
  Status first = Invalid();
  Status copy = first;
  Status moved = std::move(first);
  EXPECT_EQ(copy.message(), moved.message());
  EXPECT_FALSE(copy.ok());
  EXPECT_FALSE(moved.ok());
  EXPECT_TRUE(first.ok());  // NOLINT(bugprone-use-after-move): that is what is tested
}

TEST(ResultTest, HoldsAValueOrTheErrorThatExplainsItsAbsence) {
  const Result<int> value = Half(8);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(*value, 4);
  const Result<int> error = Half(7);
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message(), "odd");
}

TEST(ResultTest, MoveOnlyValueCanBeTakenOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  ASSERT_TRUE(result.has_value());
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 5);
}

TEST(ResultTest, MacrosHandTheFirstErrorUp) {
  const Result<int> quarter = Quarter(12);
  ASSERT_TRUE(quarter.has_value());
  EXPECT_EQ(*quarter, 3);
  EXPECT_FALSE(Quarter(6).has_value());
  EXPECT_FALSE(Quarter(5).has_value());
  int reached = 0;
  EXPECT_TRUE(CheckEven(2, &reached).ok());
  EXPECT_FALSE(CheckEven(3, &reached).ok());
  EXPECT_EQ(reached, 1);
}

#ifdef HOLDFAST_STATUS_CHECKED
TEST(StatusDeathTest, ErrorThatDiesUnreadAborts) {
  EXPECT_DEATH({ Status status = Invalid(); }, "unread Status: INVALID_ARGUMENT: ttl");
  EXPECT_DEATH({ Result<int> result = Half(1); }, "unread Status: INVALID_ARGUMENT: odd");
  EXPECT_DEATH(
      {
        Status status = Invalid();
        status = Status();
      },
      "unread Status");
}

TEST(StatusDeathTest, MovedErrorMustBeReadAtItsNewPlace) {
  EXPECT_DEATH(
      {
        Status status = Invalid();
        (void)status.ok();
        const Status moved = std::move(status);
      },
      "unread Status");
}

TEST(StatusTest, IgnoredErrorMayDie) { Invalid().IgnoreError("the test says so"); }
#endif

}  // namespace
}  // namespace holdfast
