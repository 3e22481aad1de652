#include "core/checks.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/gated_activation/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "gated_activation";

Request request_of(const GatedActivationProblem& problem, const PlanOptions& options) {
  return make_request(kOp, problem.fp8 ? "fp8" : "other", describe(problem), options.backend);
}

void check_activation(GateActivation activation) {
  if (!parse_gate_activation(name(activation))) {
    refuse_argument(kOp, ": activation must be silu, gelu_tanh, gelu_erf or relu_squared, got ",
                    static_cast<std::int32_t>(activation));
  }
}

// gate, up, y and their gradients.
void check_rows(std::string_view name, const TensorView& view,
                const GatedActivationProblem& problem) {
  check_tensor({kOp, name}, view, problem.dtype, {problem.rows, problem.cols}, problem.device,
               "[rows, cols]");
}

void check_per_row(std::string_view name, const TensorView& view,
                   const GatedActivationProblem& problem) {
  check_vector({kOp, name}, view, Dtype::f32, problem.rows, problem.device, "[rows]");
}

// The views a call reads and writes; those it ignores have no data.
GatedActivationForwardArgs used_views(const GatedActivationProblem& problem,
                                      GatedActivationForwardArgs args) {
  if (!problem.row_weight) args.row_weight = {};
  if (problem.fp8) args.y = {};
  args.fp8 = problem.fp8 ? wanted_copies(*problem.fp8, args.fp8) : Fp8Copies{};
  return args;
}

GatedActivationBackwardArgs used_views(const GatedActivationProblem& problem,
                                       GatedActivationBackwardArgs args) {
  if (!problem.row_weight) args.row_weight = args.d_row_weight = {};
  if (problem.fp8) args.dgate = args.dup = {};
  args.fp8 = problem.fp8 ? wanted_copies(*problem.fp8, args.fp8) : Fp8Copies{};
  return args;
}

}  // namespace

std::span<const GatedActivationForwardImplementation> gated_activation_forward_implementations() {
  static const std::array list{kGatedActivationForwardCudaSm90Tile,
                               kGatedActivationForwardCudaSm90Vectors,
                               kGatedActivationForwardCpuSimd, kGatedActivationForwardUnfused,
                               kGatedActivationForwardCpuReference};
  return list;
}

std::span<const GatedActivationBackwardImplementation> gated_activation_backward_implementations() {
  static const std::array list{kGatedActivationBackwardCudaSm90Tile,
                               kGatedActivationBackwardCudaSm90Vectors,
                               kGatedActivationBackwardCpuSimd, kGatedActivationBackwardUnfused,
                               kGatedActivationBackwardCpuReference};
  return list;
}

std::string describe(const GatedActivationProblem& problem) {
  std::string result =
      text("gated-activation --shape ", problem.rows, "x", problem.cols, " --activation ",
           name(problem.activation), " --dtype ", name(problem.dtype));
  if (problem.row_weight) result += " --row-weight";
  if (problem.fp8) result += describe(*problem.fp8);
  return result + " --device " + name(problem.device);
}

void check(const GatedActivationProblem& problem) {
  check_count(kOp, "rows", problem.rows);
  if (problem.fp8) check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "dtype"}, problem.dtype);
  check_activation(problem.activation);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  if (problem.fp8) {
    check_size(kOp, problem.rows, 2 * problem.cols, Dtype::f32);  // dgate beside dup
    check_fp8_output(kOp, *problem.fp8);
  }
  check_device(kOp, problem.device);
}

void check(const GatedActivationProblem& problem, const GatedActivationForwardArgs& args) {
  check_rows("gate", args.gate, problem);
  check_rows("up", args.up, problem);
  if (problem.row_weight) check_per_row("row_weight", args.row_weight, problem);
  if (problem.fp8) {
    check_fp8_copies(kOp, *problem.fp8, args.fp8, problem.rows, problem.cols, problem.device);
  } else {
    check_rows("y", args.y, problem);
  }
  const GatedActivationForwardArgs used = used_views(problem, args);
  check_outputs_apart(
      kOp, {{"y", used.y}, {"fp8.out", used.fp8.out}, {"fp8.transposed", used.fp8.transposed}},
      {{"gate", used.gate}, {"up", used.up}, {"row_weight", used.row_weight}});
}

void check(const GatedActivationProblem& problem, const GatedActivationBackwardArgs& args) {
  check_rows("dy", args.dy, problem);
  check_rows("gate", args.gate, problem);
  check_rows("up", args.up, problem);
  if (problem.fp8) {
    check_fp8_copies(kOp, *problem.fp8, args.fp8, problem.rows, 2 * problem.cols, problem.device,
                     {.out_shape = "[rows, 2 cols]", .transposed_shape = "[2 cols, rows]"});
  } else {
    check_rows("dgate", args.dgate, problem);
    check_rows("dup", args.dup, problem);
  }
  if (problem.row_weight) {
    check_per_row("row_weight", args.row_weight, problem);
    check_per_row("d_row_weight", args.d_row_weight, problem);
  }
  const GatedActivationBackwardArgs used = used_views(problem, args);
  check_outputs_apart(
      kOp,
      {{"dgate", used.dgate},
       {"dup", used.dup},
       {"fp8.out", used.fp8.out},
       {"fp8.transposed", used.fp8.transposed},
       {"d_row_weight", used.d_row_weight}},
      {{"dy", used.dy}, {"gate", used.gate}, {"up", used.up}, {"row_weight", used.row_weight}});
}

GatedActivationForwardPlan plan_gated_activation_forward(const GatedActivationProblem& problem,
                                                         const PlanOptions& options) {
  check(problem);
  return make_pass_plan<GatedActivationForward>(gated_activation_forward_implementations(), problem,
                                                request_of(problem, options), options);
}

GatedActivationBackwardPlan plan_gated_activation_backward(const GatedActivationProblem& problem,
                                                           const PlanOptions& options) {
  check(problem);
  return make_pass_plan<GatedActivationBackward>(gated_activation_backward_implementations(),
                                                 problem, request_of(problem, options), options);
}

void run(const GatedActivationForwardPlan& plan, const GatedActivationForwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("gated_activation_forward", plan.state.get());
  const GatedActivationProblem& problem = plan.problem.problem;
  check(problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  const GatedActivationForwardArgs used = used_views(problem, args);
  check_workspace_apart(kOp, plan.workspace_bytes, workspace,
                        {{"gate", used.gate},
                         {"up", used.up},
                         {"row_weight", used.row_weight},
                         {"y", used.y},
                         {"fp8.out", used.fp8.out},
                         {"fp8.transposed", used.fp8.transposed}});
  run_pass(plan, used, workspace, stream);
}

void run(const GatedActivationBackwardPlan& plan, const GatedActivationBackwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("gated_activation_backward", plan.state.get());
  const GatedActivationProblem& problem = plan.problem.problem;
  check(problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  const GatedActivationBackwardArgs used = used_views(problem, args);
  check_workspace_apart(kOp, plan.workspace_bytes, workspace,
                        {{"dy", used.dy},
                         {"gate", used.gate},
                         {"up", used.up},
                         {"row_weight", used.row_weight},
                         {"dgate", used.dgate},
                         {"dup", used.dup},
                         {"fp8.out", used.fp8.out},
                         {"fp8.transposed", used.fp8.transposed},
                         {"d_row_weight", used.d_row_weight}});
  run_pass(plan, used, workspace, stream);
}

}  // namespace octet
