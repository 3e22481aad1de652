// Short names of problems: the words that tell the problems of an operator apart. "fp8 blockwise
// e4m3 grad-format=e4m3 1d" is "1d" where all others differ from it only by 2d. Where an operator has problems of
// several dtypes, those of each are told apart by themselves: beside bf16 it is "fp8 1d".
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
  // "gemm: fp8", or for each of several dtypes "fp8 gemm: e4m3": the words that its problems share, where there are
  // several problems.
  std::vector<std::string> shared(const std::string& title) const;

 private:
  using Words = std::vector<std::string>;
  struct Problems {
    std::vector<std::string> all;
    Words shared;
  };
  const Problems& alike(const std::string& title, const std::string& problem) const;
  std::map<std::string, std::map<std::string, Problems>> by_title_;  // and by dtype, the first word
};

}  // namespace octet::tool
