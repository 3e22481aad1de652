// Choices of earlier searches, in a text file: a line that says what it is, then one line for each
// choice, its fields parted by tabs: problem, device, version, configuration.
//
// Several processes may write at once. Each reads the file again, adds its own choice and renames a
// whole file into place: two at the same moment may lose one choice, which is measured again, and
// never the file.
#pragma once

#include <octet/bench/tune.hpp>

#include <optional>

namespace octet::bench {

using Warn = std::function<void(const std::string&)>;

struct CacheKey {
  std::string problem;
  std::string device;
  std::string version;
  friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

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
