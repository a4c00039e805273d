#include "tools/table.h"

#include <gtest/gtest.h>

namespace holdfast::tools {
namespace {

TEST(Table, FirstColumnIsLeftAndTheOthersRight) {
  Table table({"tier", "hits"});
  table.Add({"ddr", "1,234"});
  table.Add({"flash", "7"});
  EXPECT_EQ(table.ToString(),
            "tier    hits\n"
            "ddr    1,234\n"
            "flash      7\n");
}

TEST(Table, EmptyCellsLeaveNoBlanksAtTheEnd) {
  Table table({"a", "bb"});
  table.Add({"x", ""});
  EXPECT_EQ(table.ToString(), "a  bb\nx\n");
}

}  // namespace
}  // namespace holdfast::tools
