// Every combination of a space.
#pragma once

#include <octet/bench/tune.hpp>

#include <optional>

namespace octet::bench {

inline constexpr std::size_t kMostCandidates = 10'000;

// The last parameter changes first. Throws Error(invalid_argument) where the space is empty or too
// large, a name is not one or stands twice, or a parameter has no values or one of them twice.
std::vector<Configuration> combinations(const Space& space);

// Reads what describe() wrote; nothing where it is something else.
std::optional<Configuration> parse_configuration(std::string_view text);

}  // namespace octet::bench
