// Apart from the parsers of results, which a fuzzer links without the console.
#include "tool/console.hpp"
#include "tool/results/parsed_results.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {

void print_skipped(const ResultFolder& folder) {
  // The folder of a project has hundreds of other files.
  constexpr std::size_t kMost = 5;
  const std::size_t count = folder.skipped.size();
  for (std::size_t i = 0; i < std::min(count, kMost); ++i) {
    fmt::print(stderr, "ignored {}\n", printable(folder.skipped[i]));
  }
  if (count > kMost) fmt::print(stderr, "ignored {} more\n", count - kMost);
}

}  // namespace octet::tool
