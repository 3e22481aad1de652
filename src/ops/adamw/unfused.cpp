// FP8 output in two steps, on any device: the step, then the quantiser, which reads w again. The
// fallback if nothing is fused, and what the fused kernel is compared with. Other operators have
// Unfused of ops/fp8_output/unfused.hpp, which keeps the plain output in a workspace; here it is w.
#include "ops/fp8_output/unfused.hpp"

#include "ops/adamw/problem.hpp"

namespace octet {
namespace {

QuantizeProblem cast_of(const AdamWProblem& problem) {
  return quantize_problem(*problem.fp8, problem.rows, problem.cols, problem.dtype, problem.device);
}

std::string refuse(const AdamWProblem& problem, const Machine& machine) {
  if (!problem.fp8) return "there is nothing to fuse: no fp8 output is wanted";
  if (first_that_takes(adamw_implementations(), without_fp8(problem), machine) == nullptr) {
    return "no implementation takes the operator without fp8";
  }
  const QuantizeProblem cast = cast_of(problem);
  return first_that_takes(quantize_implementations(), cast, machine) == nullptr
             ? "no implementation takes " + describe(cast)
             : "";
}

Planned<AdamWArgs> plan(const AdamWProblem& problem, const Machine& machine) {
  const AdamWProblem plain = without_fp8(problem);
  const QuantizeProblem cast = cast_of(problem);
  const auto* first = first_that_takes(adamw_implementations(), plain, machine);
  const auto* second = first_that_takes(quantize_implementations(), cast, machine);
  Planned<AdamWArgs> step = first->plan(plain, machine);
  Planned<QuantizeArgs> quantize = second->plan(cast, machine);
  Planned<AdamWArgs> both;
  both.configuration = text(first->name, " (", step.configuration, ") then quantize ", second->name,
                            " (", quantize.configuration, ")");
  both.workspace_bytes = std::max(step.workspace_bytes, quantize.workspace_bytes);
  both.run = [cast, step = std::move(step.run), quantize = std::move(quantize.run)](
                 const AdamWArgs& args, const RunContext& context) {
    const TensorView w =
        make_view(args.w.data, cast.input_dtype, {cast.rows, cast.cols}, cast.device);
    step(args, context);
    quantize({w, args.fp8.out, args.fp8.transposed}, context);
  };
  return both;
}

}  // namespace

constinit const AdamWImplementation kAdamWUnfused{"unfused", refuse, plan};

}  // namespace octet
