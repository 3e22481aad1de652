#include "row_meaning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <vector>

namespace octet::tool {
namespace {

// Options of a command that say where, how long and with what a case was run, not which it was.
constexpr std::array<std::string_view, 11> kNoProblem{
    "--device", "--backend",          "--quantize-backend", "--threads", "--seed", "--warmup",
    "--iters",  "--seconds-per-case", "--baseline",         "--shape",   "-o"};

// Of no operator do two of these have a value in common: the value says which it is.
constexpr std::array<std::string_view, 6> kKnownByValue{
    "--dtype", "--granularity", "--format", "--wgrad-blocks", "--activation", "--norm"};

template <std::size_t count>
bool is_in(const std::array<std::string_view, count>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::string without_dashes(const std::string& option) {
  return option.substr(option.rfind("--", 0) == 0 ? 2 : 1);
}

}  // namespace

std::string operator_of(const Record& record) {
  std::istringstream words(record.at("Command"));
  std::string before_last;
  std::string last;
  for (std::string word; words >> word; before_last = last, last = word) {
    if (last == "--op" || (before_last == "octet" && last == "bench")) return word;
  }
  return {};
}

std::string device_of(const Record& record) {
  if (record.at("Platform") == "cuda") return record.at("GPU");
  return fmt::format("{}, {} threads", record.at("CPU"), record.at("Threads"));
}

std::string settings_of(const Record& record) {
  constexpr std::array<std::string_view, 8> kElsewhere{
      "--shape", "--dtype",  "--device", "--threads",
      "--seed",  "--warmup", "--iters",  "--seconds-per-case"};
  std::istringstream words(record.at("Command"));
  std::string word;
  std::vector<std::string> kept;
  while (words >> word && word != "octet") kept.push_back(word);  // OCTET_GEMM_BACKEND=...
  words >> word >> word;                                          // bench OP
  while (words >> word) {
    if (is_in(kElsewhere, word)) {
      words >> word;  // its value
    } else {
      kept.push_back(word);
    }
  }
  return fmt::format("{}", fmt::join(kept, " "));
}

std::string problem_of(const Record& record) {
  std::istringstream stream(record.at("Command"));
  const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  std::vector<std::string> asked;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_option(words[i]) || is_in(kNoProblem, words[i])) continue;
    const bool has_value = i + 1 < words.size() && !is_option(words[i + 1]);
    if (!has_value) {
      asked.push_back(without_dashes(words[i]));
    } else if (is_in(kKnownByValue, words[i])) {
      asked.push_back(words[i + 1]);
    } else {
      asked.push_back(without_dashes(words[i]) + "=" + words[i + 1]);
    }
  }
  return fmt::format("{}", fmt::join(asked, " "));
}

}  // namespace octet::tool
