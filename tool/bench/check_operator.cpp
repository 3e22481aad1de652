// octet check OP: checks the gates of every case and prints a line for each, then the counts.
#include "tool/bench/headline.hpp"
#include "tool/console.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/options.hpp"
#include "tool/progress.hpp"

#include <fmt/format.h>

namespace octet::tool {
namespace {

struct CheckCommand {
  std::unique_ptr<Operator> op;
  bool verbose = false;
};

// "--dtype fp8 --format e4m3": what else the problem says, after its shape.
std::string options_of(const Operator& op, const Case& one) {
  std::string text = one.arguments;
  for (const std::string& part :
       {op.name() + std::string(" "), " --shape " + one.shape(), "--shape " + one.shape() + " "}) {
    if (const std::size_t at = text.find(part); at != std::string::npos)
      text.erase(at, part.size());
  }
  return text;
}

void print_gates(const GateReport& report, bool only_failed) {
  std::vector<bench::Row> table{{"  gate", "tensor", "value", "wanted", "result"}};
  for (const GateResult& gate : report.results) {
    if (only_failed && gate.pass) continue;
    table.push_back(
        {"  " + gate.gate, gate.tensor, gate.value, gate.bound, gate.pass ? "PASS" : "FAIL"});
  }
  print_table(table, 5);
}

// "PASS  512x1024x768  21 gates  --dtype fp8 ...", then the gates that failed or, with -v, all.
void print_case(const CheckCommand& command, const Case& one, const GateReport& report) {
  const bool pass = report.pass();
  const std::string line =
      fmt::format("  {}  {}  {}", one.title(), counted(report.results.size(), "gate"),
                  options_of(*command.op, one));
  const std::size_t width = bench::stdout_width();
  const char* check = pass ? "PASS" : "FAIL";
  const std::string coloured =
      bench::stdout_has_colours() ? fmt::format("\033[3{}m{}\033[0m", pass ? 2 : 1, check) : check;
  fmt::print("{}{}\n", coloured, width > 10 ? bench::cut(line, width - 5) : line);
  if (command.verbose || !pass) print_gates(report, !command.verbose);
  if (command.verbose || !pass) {
    fmt::print("  repeat with: {}\n", command.op->check_command(one));
  }
}

int check_operator(const CheckCommand& command) {
  const Operator& op = *command.op;
  const std::vector<Case> cases = op.chosen_cases();
  const DataOptions& data = op.data_options();
  std::vector<PlannedRun> runs;
  std::vector<double> work;
  for (const Case& one : cases) {
    // A plan error shows before the first gate.
    const std::string implementation =
        one.implementation ? one.implementation(data) : one.workload(data)->implementation();
    runs.push_back({one.device, implementation});
    work.push_back(one.work());
  }
  fmt::print("{}\n", machine_headline(runs, data.threads));
  Progress progress(work);
  std::size_t passed = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.show(i, cases[i].title());
    progress.phase("checking");
    const GateReport report = cases[i].check(data);
    progress.clear();
    print_case(command, cases[i], report);
    if (report.pass()) ++passed;
    std::fflush(stdout);
  }
  fmt::print("{} PASS, {} FAIL{}\n", passed, cases.size() - passed,
             command.verbose ? "" : " (-v shows every gate, octet check --explain their meaning)");
  return passed == cases.size() ? 0 : kExitFailed;
}

}  // namespace

void add_check_operators(CLI::App& check, Chosen& chosen) {
  for (const MakeOperator make : operators()) {
    const auto command = std::make_shared<CheckCommand>(CheckCommand{make()});
    Operator& op = *command->op;
    CLI::App& app = add_command(check, op.name(), op.about());
    op.add_options(app, false);
    option_group(app, "Output");
    add_flag(app, "-v,--verbose", command->verbose,
             "Print every gate with its value and bound, not only those that failed.");
    choose_when_given(app, chosen, [command] { return check_operator(*command); });
  }
}

}  // namespace octet::tool
