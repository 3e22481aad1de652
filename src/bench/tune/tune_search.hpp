// The parts of tune(): the combinations of a space, the search through them with any way to compare
// two kernels, and the cache of earlier choices.
#pragma once

#include "dispatch/tuning_table.hpp"

#include <octet/bench/tune.hpp>

#include <optional>

namespace octet::bench {

inline constexpr std::size_t kMostCandidates = 10'000;

// The last parameter changes fastest. Throws Error(invalid_argument) if the space is empty or too
// large, a name is invalid or occurs twice, or a parameter has no values or repeats one.
std::vector<Configuration> combinations(const Space& space);
// Parses what describe() wrote; nothing if the text is something else.
std::optional<Configuration> parse_configuration(std::string_view text);

// The second's time over the first's, in interleaved rounds.
using CompareKernels = std::function<double(const Part& first, const Part& second)>;

// `synchronize`: as of search_fastest(), after a candidate threw.
Tuned search(const TuneRequest& request, const std::string& device, const std::string& driver,
             const TunableKernel& kernel, const Gate& gate, const CompareKernels& compare,
             const std::function<void()>& synchronize);

// The cache is a tuning table (dispatch/tuning_table.hpp) whose entries name no implementation.
//
// Several processes may write at once. Each reads the file again, adds its own choice and renames a
// whole file into place: two at the same moment may lose one choice, which is then measured again,
// but never the file.
using Warn = std::function<void(const std::string&)>;

TunedChoice choice_of(const Configuration& configuration);
// Broken and missing lines cost a warning each, and so does a file that is something else. A missing
// file counts as empty.
std::optional<Configuration> read_choice(const std::string& path, const TuningKey& key,
                                         const Warn& warn);
// Replaces the choice of the same key. A file that is something else is kept, with a warning.
void write_choice(const std::string& path, const TuningKey& key, const Configuration& choice,
                  const Warn& warn);

}  // namespace octet::bench
