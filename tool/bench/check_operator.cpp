// octet check OP: checks the gates of every case and prints a table for each, then the counts.
#include "tool/options/options.hpp"
#include "tool/console.hpp"
#include "tool/operators/operator.hpp"

#include <fmt/format.h>

namespace octet::tool {
namespace {

// `command` repeats the check.
void print_gates(const std::string& command, const GateReport& report) {
  fmt::print("{}\n", command);
  std::vector<std::vector<std::string>> table{{"gate", "tensor", "value", "bound", "result"}};
  for (const GateResult& gate : report.results) {
    table.push_back({gate.gate, gate.tensor, gate.value, gate.bound, gate.pass ? "PASS" : "FAIL"});
  }
  print_table(table, 5);
  if (!report.pass()) fmt::print("FAIL: repeat with: {}\n", command);
}

int check_operator(const Operator& op) {
  const std::vector<Case> cases = op.chosen_cases();
  const DataOptions& data = op.data_options();
  for (const Case& one : cases) {
    if (one.workload) one.workload(data);  // a plan error shows before the first gate
  }
  int passed = 0;
  for (const Case& one : cases) {
    const GateReport report = one.check(data);
    print_gates(op.check_command(one), report);
    if (report.pass()) ++passed;
  }
  const int failed = static_cast<int>(cases.size()) - passed;
  fmt::print("{} PASS, {} FAIL\n", passed, failed);
  return failed == 0 ? 0 : kExitFailed;
}

}  // namespace

void add_check_operators(CLI::App& check, Chosen& chosen) {
  for (const MakeOperator make : operators()) {
    const std::shared_ptr<Operator> op = make();
    CLI::App& app = add_command(check, op->name(), op->about_check());
    op->add_options(app, false);
    choose_when_given(app, chosen, [op] { return check_operator(*op); });
  }
}

}  // namespace octet::tool
