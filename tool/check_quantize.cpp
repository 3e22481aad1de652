// octet check quantize: every gate of a cast.
#include "commands.hpp"
#include "gate_table.hpp"
#include "layer.hpp"
#include "quantize_options.hpp"

#include <memory>

namespace octet::tool {
namespace {

int check_quantize_command(const QuantizeOptions& options) {
  const std::vector<QuantizeProblem> problems = chosen_problems(options);
  const bench::WorkloadOptions data = data_options(options);
  for (const QuantizeProblem& problem : problems) {
    plan_quantize(problem, {options.backend, data.threads});
  }
  GateTally tally;
  for (const QuantizeProblem& problem : problems) {
    tally.add("octet check " + describe(problem) + data_arguments(options),
              check_quantize(problem, gate_options(data)));
  }
  return tally.finish();
}

}  // namespace

void add_check_quantize(CLI::App& check, Chosen& chosen) {
  CLI::App* app = check.add_subcommand("quantize", "block-scaled casts to FP8");
  const auto options = std::make_shared<QuantizeOptions>();
  add_quantize_options(*app, *options);
  choose_when_given(*app, chosen, [options] { return check_quantize_command(*options); });
}

}  // namespace octet::tool
