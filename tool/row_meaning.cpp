#include "row_meaning.hpp"

#include <fmt/format.h>

#include <array>
#include <sstream>
#include <vector>

namespace octet::tool {

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
  for (int i = 0; i < 3; ++i) words >> word;  // octet bench OP
  std::vector<std::string> kept;
  while (words >> word) {
    if (std::find(kElsewhere.begin(), kElsewhere.end(), word) == kElsewhere.end()) {
      kept.push_back(word);
    } else {
      words >> word;  // its value
    }
  }
  return fmt::format("{}", fmt::join(kept, " "));
}

}  // namespace octet::tool
