// Prints the gates of one problem after the other, and counts.
#pragma once

#include "check/gates.hpp"

#include <string>

namespace octet::tool {

// "G1 of y: 20.1 dB, wanted > 25 dB; ..."; empty where all passed.
std::string failed_gates(const GateReport& report);

class GateTally {
 public:
  // `command` repeats the gates of this problem.
  void add(const std::string& command, const GateReport& report);
  // Prints the counts; the exit status.
  int finish() const;

 private:
  int passed_ = 0;
  int failed_ = 0;
};

}  // namespace octet::tool
