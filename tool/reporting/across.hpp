// Pairs rows of one layer that differ in one option: in the granularity of their scales, in the
// blocks of the weight gradient or in the precision. What the pairs show is the price of that option,
// not a change of the code, so nothing here is judged.
#pragma once

#include "tool/reporting/result_comparison.hpp"

#include <string>
#include <vector>

namespace octet::tool {

// What rows may be paired across: "granularity", "wgrad-blocks", "dtype".
std::vector<std::string> across_choices();

// A signal-to-noise ratio over the rows of a pairing: medians, NaN on a side that has none.
struct ErrorChange {
  const char* column;
  double before = 0;
  double after = 0;
};

// The rows with one value of the option, each beside the row of its layer with another value.
struct AcrossPairing {
  std::string before;  // "blockwise"; "not given" if the rows do not have the option
  std::string after;
  std::string apart;  // the options that other pairings of these two values do not have
  ComparedResults rows;
  std::vector<ErrorChange> errors;
};

struct Across {
  std::vector<AcrossPairing> pairings;
  std::vector<std::string> unpaired;  // rows that are in no pairing
};

// Two rows are paired if case and shape agree, `across` differs, and every other option of the
// problem agrees. An option that goes with one value of `across`, such as --format with
// --dtype fp8, may be on one side only. Rows with the same forced backend are paired; only if there
// are none, those with different ones. Within one file (`before` and `after` the same object) the
// first row's value stands on the left. Throws UsageError if no two rows can be paired.
Across pair_across(const ParsedResults& before, const ParsedResults& after,
                   const std::string& across, bool any_device);

}  // namespace octet::tool
