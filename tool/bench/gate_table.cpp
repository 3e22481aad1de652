#include "tool/bench/gate_table.hpp"

#include "tool/console.hpp"
#include "tool/bench/forced_backends.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

namespace octet::tool {

std::string failed_gates(const GateReport& report) {
  std::string result;
  for (const GateResult& gate : report.results) {
    if (gate.pass) continue;
    result += fmt::format("{}{} of {}: {}, wanted {}", result.empty() ? "" : "; ", gate.gate,
                          gate.tensor, gate.value, gate.bound);
  }
  return result;
}

void GateTally::add(const std::string& command, const GateReport& report) {
  const std::string repeat = with_forced_backends(command);
  fmt::print("{}\n", repeat);
  std::vector<std::vector<std::string>> table{{"gate", "tensor", "value", "bound", "result"}};
  for (const GateResult& gate : report.results) {
    table.push_back({gate.gate, gate.tensor, gate.value, gate.bound, gate.pass ? "PASS" : "FAIL"});
  }
  print_table(table, 5);
  if (report.pass()) {
    ++passed_;
  } else {
    ++failed_;
    fmt::print("FAIL: repeat with: {}\n", repeat);
  }
}

int GateTally::finish() const {
  fmt::print("{} PASS, {} FAIL\n", passed_, failed_);
  return failed_ == 0 ? 0 : kExitFailed;
}

}  // namespace octet::tool
