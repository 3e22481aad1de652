#include "tool/reporting/problem_names.hpp"

#include "tool/reporting/paired_ratios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace octet::tool {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool is_in(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string dtype_of(const std::string& problem) { return problem.substr(0, problem.find(' ')); }

}  // namespace

ProblemNames::ProblemNames(const ResultFolder& folder) {
  for (const ParsedResults& results : folder.results) {
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      const std::string& problem = results.rows[i].problem;
      Problems& problems = by_title_[title_of_row(results, i)][dtype_of(problem)];
      if (!is_in(problems.all, problem)) problems.all.push_back(problem);
    }
  }
  for (auto& [title, by_dtype] : by_title_) {
    for (auto& [dtype, problems] : by_dtype) {
      problems.shared = words_of(problems.all.front());
      for (const std::string& problem : problems.all) {
        std::erase_if(problems.shared, [words = words_of(problem)](const auto& word) {
          return !is_in(words, word);
        });
      }
      if (by_dtype.size() > 1) std::erase(problems.shared, dtype);
    }
  }
}

const ProblemNames::Problems& ProblemNames::alike(const std::string& title,
                                                  const std::string& problem) const {
  return by_title_.at(title).at(dtype_of(problem));
}

std::string ProblemNames::brief(const std::string& title, const std::string& problem) const {
  std::vector<std::string> words = words_of(problem);
  std::erase_if(words, [&shared = alike(title, problem).shared](const std::string& word) {
    return is_in(shared, word);
  });
  return words.empty() ? problem : joined(words);
}

std::vector<std::string> ProblemNames::shared(const std::string& title) const {
  const auto& by_dtype = by_title_.at(title);
  std::vector<std::string> lines;
  for (const auto& [dtype, problems] : by_dtype) {
    if (problems.all.size() < 2 || problems.shared.empty()) continue;
    const std::string of = by_dtype.size() > 1 ? dtype + " " : "";
    lines.push_back(fmt::format("{}{}: {}", of, title, joined(problems.shared)));
  }
  return lines;
}

}  // namespace octet::tool
