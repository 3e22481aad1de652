// FP8 outputs in two steps, on any device: the plain operator into the workspace, then the
// quantiser. What a fused implementation is compared with, and what serves where there is none.
//
// An operator says how in a struct of static members:
//
//   Problem plain(const Problem&)                      the problem without fp8
//   QuantizeProblem cast(const Problem&)               what is quantised
//   Args into(const Args&, const TensorView& output)   the same call, written to `output` instead
//   std::span<const Implementation<Problem, Args>> list()
//
// where output is [rows, cols] of cast(). Args has the copies as `fp8`.
#pragma once

#include "core/workspace.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/problem.hpp"

#include <algorithm>

namespace octet {

// The first of a list that takes the problem; null where none does.
template <class Problem, class Args>
const Implementation<Problem, Args>* first_that_takes(
    std::span<const Implementation<Problem, Args>> list, const Problem& problem,
    const Machine& machine) {
  for (const auto& entry : list) {
    if (entry.refuse(problem, machine).empty()) return &entry;
  }
  return nullptr;
}

template <class Steps, class Problem, class Args>
struct Unfused {
  Problem plain;
  QuantizeProblem cast;
  Machine machine;
  const Implementation<Problem, Args>* operate;
  const QuantizeImplementation* quantize;

  Unfused(const Problem& problem, const Machine& machine_)
      : plain(Steps::plain(problem)),
        cast(Steps::cast(problem)),
        machine(machine_),
        operate(first_that_takes(Steps::list(), plain, machine)),
        quantize(first_that_takes(quantize_implementations(), cast, machine)) {}

  static std::string refuse(const Problem& problem, const Machine& machine) {
    if (!problem.fp8) return "there is nothing to fuse: no fp8 output is wanted";
    const Unfused steps(problem, machine);
    if (steps.operate == nullptr) return "no implementation takes the operator without fp8";
    return steps.quantize == nullptr ? "no implementation takes " + describe(steps.cast) : "";
  }

  static std::string configuration(const Problem& problem, const Machine& machine) {
    const Unfused steps(problem, machine);
    return text(steps.operate->name, " (", steps.operate->configuration(steps.plain, machine),
                ") then quantize ", steps.quantize->name, " (",
                steps.quantize->configuration(steps.cast, machine), ")");
  }

  static std::size_t workspace_bytes(const Problem& problem, const Machine& machine) {
    const Unfused steps(problem, machine);
    return aligned_bytes(steps.output_bytes()) +
           std::max(steps.operate->workspace_bytes(steps.plain, machine),
                    steps.quantize->workspace_bytes(steps.cast, machine));
  }

  static void run(const Problem& problem, const Args& args, const RunContext& context) {
    const Unfused steps(problem, this_machine(problem.device, context.threads));
    WorkspaceCarver workspace(context.workspace);
    const TensorView output = make_view(workspace.take(steps.output_bytes()), steps.cast.input,
                                        {steps.cast.rows, steps.cast.cols}, problem.device);
    const RunContext rest{workspace.rest(), context.threads, context.stream};
    steps.operate->run(steps.plain, Steps::into(args, output), rest);
    steps.quantize->run(steps.cast, {output, args.fp8.out, args.fp8.transposed}, rest);
  }

  static constexpr Implementation<Problem, Args> implementation() {
    return {"unfused", refuse, configuration, workspace_bytes, run};
  }

 private:
  std::size_t output_bytes() const {
    return static_cast<std::size_t>(cast.rows * cast.cols * size_bytes(cast.input));
  }
};

}  // namespace octet
