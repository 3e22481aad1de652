// Apart from the parsers of results, which a fuzzer links without the console.
#include "tool/console.hpp"
#include "tool/results/parsed_results.hpp"

#include <fmt/format.h>

namespace octet::tool {

void print_skipped(const ResultFolder& folder) {
  for (const std::string& line : folder.skipped) {
    fmt::print(stderr, "ignored {}\n", printable(line));
  }
}

}  // namespace octet::tool
