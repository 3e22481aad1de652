// Short names of problems: the words that tell the problems of an operator apart. "fp8 blockwise
// e4m3 grad-format=e4m3 1d" is "1d" where all others differ from it only by 2d.
#pragma once

#include "tool/results/parsed_results.hpp"

#include <map>
#include <string>
#include <vector>

namespace octet::tool {

class ProblemNames {
 public:
  explicit ProblemNames(const ResultFolder& folder);

  // `title`: of its rows, from title_of_row(). The whole problem if nothing else would be left.
  std::string brief(const std::string& title, const std::string& problem) const;
  // The words that all problems share; empty if there is only one problem.
  std::string shared(const std::string& title) const;

 private:
  using Words = std::vector<std::string>;
  struct Problems {
    std::vector<std::string> all;
    Words shared;
  };
  std::map<std::string, Problems> by_title_;
};

}  // namespace octet::tool
