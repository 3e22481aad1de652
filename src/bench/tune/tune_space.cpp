#include "bench/tune/tune_search.hpp"

#include "core/message.hpp"

#include <algorithm>
#include <charconv>

namespace octet::bench {
namespace {

bool is_name(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos;
}

void check_parameter(const Parameter& parameter) {
  if (!is_name(parameter.name)) {
    refuse_argument("tune: the name of a parameter must be letters, digits and _, got \"",
                    parameter.name, '"');
  }
  if (parameter.values.empty()) {
    refuse_argument("tune: parameter ", parameter.name, " has no values");
  }
  for (auto value = parameter.values.begin(); value != parameter.values.end(); ++value) {
    if (std::find(parameter.values.begin(), value, *value) != value) {
      refuse_argument("tune: parameter ", parameter.name, " has the value ", *value, " twice");
    }
  }
}

void check_space(const Space& space) {
  if (space.empty()) refuse_argument("tune: the space is empty; wanted at least one parameter");
  std::size_t count = 1;
  for (auto parameter = space.begin(); parameter != space.end(); ++parameter) {
    count *= std::clamp<std::size_t>(parameter->values.size(), 1, kMostCandidates + 1);
    if (count > kMostCandidates) {
      refuse_argument("tune: the space has more than ", kMostCandidates, " combinations");
    }
    check_parameter(*parameter);
    if (std::any_of(space.begin(), parameter,
                    [&](const Parameter& before) { return before.name == parameter->name; })) {
      refuse_argument("tune: there are two parameters called ", parameter->name);
    }
  }
}

std::optional<std::pair<std::string, std::int64_t>> parse_value(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || !is_name(word.substr(0, equals))) return std::nullopt;
  std::int64_t value = 0;
  const char* last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data() + equals + 1, last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return std::pair{std::string(word.substr(0, equals)), value};
}

}  // namespace

std::int64_t Configuration::operator[](std::string_view name) const {
  for (const auto& [parameter, value] : values) {
    if (parameter == name) return value;
  }
  refuse_argument("tune: there is no parameter ", name, " in ", describe(*this));
}

std::string describe(const Configuration& configuration) {
  std::string result;
  for (const auto& [name, value] : configuration.values) {
    result += text(result.empty() ? "" : " ", name, '=', value);
  }
  return result;
}

std::vector<Configuration> combinations(const Space& space) {
  check_space(space);
  std::vector<Configuration> result(1);
  for (const Parameter& parameter : space) {
    std::vector<Configuration> longer;
    for (const Configuration& shorter : result) {
      for (const std::int64_t value : parameter.values) {
        longer.push_back(shorter);
        longer.back().values.emplace_back(parameter.name, value);
      }
    }
    result = std::move(longer);
  }
  return result;
}

std::optional<Configuration> parse_configuration(std::string_view text) {
  Configuration result;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const auto value = parse_value(text.substr(0, space));
    if (!value) return std::nullopt;
    result.values.push_back(*value);
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  if (result.values.empty()) return std::nullopt;
  return result;
}

}  // namespace octet::bench
