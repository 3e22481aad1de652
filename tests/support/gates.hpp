// Reads a report of the gates and expects that it passes.
#pragma once

#include "check/gates.hpp"
#include "dispatch/machine.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace octet {

inline std::string describe(const std::vector<GateResult>& results) {
  std::string text;
  for (const GateResult& result : results) {
    text += result.gate + " " + result.tensor + (result.pass ? " passes: " : " FAILS: ") +
            result.value + ", wanted " + result.bound + "\n";
  }
  return text;
}

inline DataOptions data_of(Distribution distribution, std::uint64_t seed) {
  DataOptions options;
  options.distribution = distribution;
  options.seed = seed;
  return options;
}

// Expects at least one gate, and that all pass. `problem` is the argument of octet check that
// repeats it.
inline void expect_pass(const GateReport& report, const std::string& problem) {
  EXPECT_TRUE(report.pass()) << "octet check " << problem << "\n" << describe(report.results);
}

// The same for every implementation that takes the problem on this CPU.
template <class Problem, class Implementations>
void expect_all_pass(const Problem& problem, const Implementations& implementations,
                     GateReport (*check)(const Problem&, const DataOptions&)) {
  for (const auto& implementation : implementations) {
    if (!implementation.refuse(problem, this_machine(kCpu, 1)).empty()) continue;
    DataOptions options;
    options.backend = implementation.name;
    expect_pass(check(problem, options), describe(problem) + " by " + implementation.name);
  }
}

}  // namespace octet
