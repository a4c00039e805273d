// Table: columns for people. The first column is aligned left, the others right.
//
// Threading: thread-compatible.
#pragma once

#include <string>
#include <vector>

namespace holdfast::tools {

class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

  // As many cells as the header has.
  void Add(std::vector<std::string> row);
  std::string ToString() const;  // each line ends with '\n'

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace holdfast::tools
