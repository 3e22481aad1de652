// The parts of tune(): the combinations of a space, the search through them with any way to compare
// two kernels, and the cache of earlier choices.
#pragma once

#include <octet/bench/tune.hpp>

#include <optional>

namespace octet::bench {

inline constexpr std::size_t kMostCandidates = 10'000;

// The last parameter changes fastest. Throws Error(invalid_argument) if the space is empty or too
// large, a name is invalid or occurs twice, or a parameter has no values or repeats one.
std::vector<Configuration> combinations(const Space& space);
// Parses what describe() wrote; nothing if the text is something else.
std::optional<Configuration> parse_configuration(std::string_view text);

// A new best has to be this much faster.
inline constexpr double kLeastGain = 1.02;

// The second's time over the first's, in interleaved rounds.
using CompareKernels = std::function<double(const Part& first, const Part& second)>;

Tuned search(const TuneRequest& request, const std::string& device, const TunableKernel& kernel,
             const Gate& gate, const CompareKernels& compare);

// The cache is a text file: a line that says what it is, then one line per choice, with fields
// separated by tabs: problem, device, version, configuration.
//
// Several processes may write at once. Each reads the file again, adds its own choice and renames a
// whole file into place: two at the same moment may lose one choice, which is then measured again,
// but never the file.
struct CacheKey {
  std::string problem;
  std::string device;
  std::string version;
  friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

using Warn = std::function<void(const std::string&)>;

// Throws Error(invalid_argument) if a field is empty or contains a tab or an end of line.
void check_key(const CacheKey& key);
// Broken lines are skipped with a warning, and so is a file that is something else. A missing file
// counts as empty.
std::optional<Configuration> read_choice(const std::string& path, const CacheKey& key,
                                         const Warn& warn);
// Replaces the choice of the same key. A file that is something else is kept, with a warning.
void write_choice(const std::string& path, const CacheKey& key, const Configuration& choice,
                  const Warn& warn);

}  // namespace octet::bench
