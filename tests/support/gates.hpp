// Reads a report of the gates and expects that it passes.
#pragma once

#include "check/gates.hpp"

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

// Expects at least one gate, and that all pass. `problem` is the argument of octet check that
// repeats it.
inline void expect_pass(const GateReport& report, const std::string& problem) {
  EXPECT_TRUE(report.pass()) << "octet check " << problem << "\n" << describe(report.results);
}

}  // namespace octet
