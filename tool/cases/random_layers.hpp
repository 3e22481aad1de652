// Linear layers drawn at random: a benchmark that nobody can tune to, since another seed draws others.
// docs/benchmarking.md has the distribution.
#pragma once

#include "tool/cases/cases.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace octet::tool {

inline constexpr std::int64_t kMostRandomLayers = 100'000;
inline constexpr std::int64_t kFewRows = 256;

// Their results are published in two groups, since few rows are bound by memory and by launches. A
// group takes the place of a model in the name of a layer.
inline constexpr std::array<std::string_view, 2> kRandomGroups{"random M<=256", "random M>256"};
// "random M<=256" of the case "random M<=256 9/1": results of two such groups are never averaged together.
// Empty for other cases.
inline std::string random_group(std::string_view name) {
  const std::string_view model = name.substr(0, name.rfind(' '));
  const auto found = std::find(kRandomGroups.begin(), kRandomGroups.end(), model);
  return found == kRandomGroups.end() ? "" : std::string(model);
}

// Layer `number` of a seed, counted from 1: a pure function of its arguments. N and K are made of
// `sizes`. Its name is "random M>256 3/17" for number 17 of seed 3.
LayerCase random_layer(const std::vector<std::int64_t>& sizes, std::uint64_t seed,
                       std::int64_t number);
// Layers 1 to `count` of a seed, of the sizes that suites.yaml names.
std::vector<LayerCase> random_layers(std::uint64_t seed, std::int64_t count);

}  // namespace octet::tool
