// What a person sees of a comparison.
#pragma once

#include "tool/reporting/result_comparison.hpp"

namespace octet::tool {

// The score, the distribution of the changes, what moved most, changed checks and the verdict.
void print_comparison(const Comparison& comparison, const char* unit, double threshold);

}  // namespace octet::tool
