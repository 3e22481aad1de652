#include "core/call.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/adamw/problem.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr std::string_view kOp = "adamw";

// The factors are f32 inside.
void check_factor(std::string_view name, double value) {
  if (!(value >= 0 && value <= double{std::numeric_limits<float>::max()})) {
    refuse_argument(kOp, ": ", name, " must be finite and at least 0, got ", value);
  }
}

void check_beta(std::string_view name, double value) {
  if (!(value >= 0 && value < 1)) {
    refuse_argument(kOp, ": ", name, " must be at least 0 and less than 1, got ", value);
  }
}

void check_matrix(const AdamWProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  if (problem.rows * problem.cols != problem.count) {
    refuse_argument(kOp, ": with fp8 count must be rows * cols = ", problem.rows * problem.cols,
                    ", got ", problem.count);
  }
  const Fp8Output& fp8 = *problem.fp8;
  if (fp8.block) check_block(kOp, "block", *fp8.block);
  if (fp8.transposed_block) check_block(kOp, "transposed_block", *fp8.transposed_block);
  check_fp8_output(kOp, fp8);
}

// What the factors of a step become inside.
void check_derived(std::string_view formula, double value) {
  if (!(std::fabs(value) <= double{std::numeric_limits<float>::max()})) {
    refuse_argument(kOp, ": ", formula, " must be finite in f32, got ", value);
  }
}

}  // namespace

std::span<const AdamWImplementation> adamw_implementations() {
  static const std::array list{kAdamWCudaSm90Tile, kAdamWCudaSm90Vectors, kAdamWCpuSimd,
                               kAdamWUnfused, kAdamWCpuReference};
  return list;
}

std::string describe(const AdamWProblem& problem) {
  const bool matrix = problem.fp8.has_value();
  std::string result =
      text("adamw --shape ", matrix ? problem.rows : 1, "x", matrix ? problem.cols : problem.count,
           " --dtype ", name(problem.dtype), " --grad-dtype ", name(problem.grad_dtype),
           " --moments ", name(problem.moments_dtype));
  if (problem.master) result += " --master";
  if (problem.grad_scale) result += " --grad-scale";
  if (matrix) result += describe(*problem.fp8);
  return result + " --device " + name(problem.device);
}

AdamWFactors factors_of(const AdamWArgs& args) {
  const double steps = static_cast<double>(args.step);
  const double correction1 = 1 - std::pow(args.beta1, steps);
  const double correction2 = 1 - std::pow(args.beta2, steps);
  AdamWFactors factors{};
  factors.beta1 = static_cast<float>(args.beta1);
  factors.rest1 = static_cast<float>(1 - args.beta1);
  factors.beta2 = static_cast<float>(args.beta2);
  factors.rest2 = static_cast<float>(1 - args.beta2);
  factors.root_factor = static_cast<float>(1 / std::sqrt(correction2));
  factors.eps = static_cast<float>(args.eps);
  factors.step_size = static_cast<float>(args.lr / correction1);
  factors.decay = static_cast<float>(1 - args.lr * args.weight_decay);
  return factors;
}

void check(const AdamWProblem& problem) {
  check_count(kOp, "count", problem.count);
  check_float({kOp, "dtype"}, problem.dtype);
  check_float({kOp, "grad_dtype"}, problem.grad_dtype);
  if (problem.moments_dtype != Dtype::f32 && problem.moments_dtype != Dtype::bf16) {
    refuse_argument(kOp, ": moments_dtype must be f32 or bf16, got ", name(problem.moments_dtype));
  }
  check_size(kOp, 1, problem.count, Dtype::f32);
  if (problem.fp8) check_matrix(problem);
  check_device(kOp, problem.device);
}

AdamWArgs check(const AdamWProblem& problem, AdamWArgs args, std::size_t workspace_bytes,
                const Workspace& workspace) {
  const auto elements = [&](Dtype dtype) { return TensorForm(dtype, {problem.count}, "[count]"); };
  Call call(kOp, problem.device);
  call.reads("g", args.g, elements(problem.grad_dtype));
  call.reads_if(problem.grad_scale, "grad_scale", args.grad_scale,
                TensorForm(Dtype::f32, {1}, "[1]"));
  call.writes("w", args.w, elements(problem.dtype));
  call.writes("m", args.m, elements(problem.moments_dtype));
  call.writes("v", args.v, elements(problem.moments_dtype));
  call.writes_if(problem.master, "master", args.master, elements(Dtype::f32));
  write_fp8_copies(call, problem.fp8, args.fp8, problem.rows, problem.cols);
  check_factor("lr", args.lr);
  check_beta("beta1", args.beta1);
  check_beta("beta2", args.beta2);
  check_factor("eps", args.eps);
  check_factor("weight_decay", args.weight_decay);
  if (args.step < 1) refuse_argument(kOp, ": step must be at least 1, got ", args.step);
  check_derived("lr / (1 - beta1^step)",
                args.lr / (1 - std::pow(args.beta1, static_cast<double>(args.step))));
  check_derived("1 - lr * weight_decay", 1 - args.lr * args.weight_decay);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

AdamWPlan plan_adamw(const AdamWProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(adamw_implementations(), problem,
                   make_request(kOp, "other", describe(problem), options.backend), options);
}

void run(const AdamWPlan& plan, const AdamWArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

}  // namespace octet
