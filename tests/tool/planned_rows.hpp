// What the tree would run for a published row, planned for its GPU with none at hand.
#pragma once

#include "tool/operators/operator.hpp"
#include "tool/options/timing_options.hpp"
#include "tool/results/command_line.hpp"

#include "device/cuda_runtime.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

struct PlannedRow {
  std::string backend;
  std::string configuration;

  friend bool operator==(const PlannedRow&, const PlannedRow&) = default;
};

inline std::unique_ptr<Operator> operator_called(const std::string& name) {
  for (const MakeOperator make : operators()) {
    std::unique_ptr<Operator> op = make();
    if (op->name() == name) return op;
  }
  refuse_usage("no operator is called \"{}\"", name);
}

// Of a command that names one case, "octet bench gemm --shape ...", on the GPU of a folder of results.
// Nothing for a folder whose GPU is not known. Throws where the command cannot be planned.
inline std::optional<PlannedRow> planned_row(const std::string& gpu, const std::string& command) {
  if (gpu != "h200") return std::nullopt;
  const cuda::Pretend h200(cuda::kH200);
  const std::string name = operator_of(command);
  const std::unique_ptr<Operator> op = operator_called(name);
  CLI::App app;
  TimingOptions timing;
  op->add_options(app, true);
  add_timing_options(app, timing, op->cpu_seconds_text());
  op->add_bench_options(app);
  // A tuning table before the program may have the operator's name in its path.
  const std::string program = "octet bench " + name;
  app.parse(command.substr(command.find(program) + program.size()), false);
  const std::vector<Case> cases = op->chosen_cases();
  if (cases.size() != 1) refuse_usage("{} cases instead of one: {}", cases.size(), command);
  const auto workload = cases[0].workload(op->data_options());
  return PlannedRow{workload->implementation(), workload->configuration()};
}

}  // namespace octet::tool
