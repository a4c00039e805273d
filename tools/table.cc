#include "tools/table.h"

#include <algorithm>
#include <utility>

#include "kvstore/check.h"

namespace holdfast::tools {
namespace {

constexpr size_t kGap = 2;

}  // namespace

void Table::Add(std::vector<std::string> row) {
  HF_CHECK(row.size() == rows_[0].size());
  rows_.push_back(std::move(row));
}

std::string Table::ToString() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size() + (i > 0 ? kGap : 0), ' ');
      line += i == 0 ? row[i] + blanks : blanks + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace holdfast::tools
