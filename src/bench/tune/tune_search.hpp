// The parts of tune(): every combination of a space, the search through them with any way to compare
// two kernels, and the cache of earlier choices.
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

// A new best has to be this much faster.
inline constexpr double kLeastGain = 1.02;

// The second's time over the first's, in interleaved rounds.
using CompareKernels = std::function<double(const Part& first, const Part& second)>;

Tuned search(const TuneRequest& request, const std::string& device, const TunableKernel& kernel,
             const Gate& gate, const CompareKernels& compare);

// The cache is a text file: a line that says what it is, then one line for each choice, its fields
// separated by tabs: problem, device, version, configuration.
//
// Several processes may write at once. Each reads the file again, adds its own choice and renames a
// whole file into place: two at the same moment may lose one choice, which is measured again, and
// never the file.
struct CacheKey {
  std::string problem;
  std::string device;
  std::string version;
  friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

using Warn = std::function<void(const std::string&)>;

// Throws Error(invalid_argument) where a field is empty or has a tab or an end of line in it.
void check_key(const CacheKey& key);
// Lines that are broken are warned of and left out; so is a file that is something else. A file that
// is not there is an empty one.
std::optional<Configuration> read_choice(const std::string& path, const CacheKey& key,
                                         const Warn& warn);
// Replaces the choice of the same key. A file that is something else is warned of and left alone.
void write_choice(const std::string& path, const CacheKey& key, const Configuration& choice,
                  const Warn& warn);

}  // namespace octet::bench
