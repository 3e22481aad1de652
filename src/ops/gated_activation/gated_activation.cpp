#include "core/call.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/fp8_output/unfused.hpp"
#include "ops/gated_activation/problem.hpp"
#include "ops/group_table/problem.hpp"

#include <array>
#include <utility>

namespace octet {
namespace {

constexpr std::string_view kOp = "gated_activation";

constexpr std::array<std::pair<GateActivation, std::string_view>, 4> kNames{{
    {GateActivation::silu, "silu"},
    {GateActivation::gelu_tanh, "gelu_tanh"},
    {GateActivation::gelu_erf, "gelu_erf"},
    {GateActivation::relu_squared, "relu_squared"},
}};

Request request_of(const GatedActivationProblem& problem, const PlanOptions& options) {
  return make_request(kOp, problem.fp8 ? "fp8" : "other", describe(problem), options.backend);
}

// gate, up, y and their gradients; the weight of a row and its gradient.
struct Forms {
  TensorForm rows, per_row;

  explicit Forms(const GatedActivationProblem& problem)
      : rows(problem.dtype, {problem.rows, problem.cols}, "[rows, cols]"),
        per_row(Dtype::f32, {problem.rows}, "[rows]") {}
};

void check_over_groups(const GatedActivationProblem& problem) {
  if (problem.groups == 0) return;
  check_groups(kOp, problem.groups, problem.rows);
  check_tail(kOp, problem.tail);
  if (!problem.fp8) return;
  check_fp8_groups(kOp, *problem.fp8);
  check_size(kOp, max_token_blocks(problem.groups, problem.rows) * kBlock, 2 * problem.cols,
             Dtype::f32);
}

// `cols`: those of the output that is cast.
void write_copies(Call& call, const GatedActivationProblem& problem, Fp8Copies& copies,
                  std::int64_t cols, const Fp8Names& dense, const Fp8Names& grouped) {
  if (problem.groups > 0) {
    write_fp8_groups(call, problem.fp8, copies, problem.groups, problem.rows, cols, grouped);
  } else {
    write_fp8_copies(call, problem.fp8, copies, problem.rows, cols, dense);
  }
}

void read_table_if(Call& call, const GatedActivationProblem& problem, TensorView& table) {
  if (problem.groups > 0) return read_table(call, table, problem.groups, problem.rows);
  table = {};
}

// On the CPU, checks what the table says before anything is written.
void check_contents(const GatedActivationProblem& problem, const TensorView& table) {
  if (problem.device.type == DeviceType::cpu) (void)computed_rows(problem, table);
}

}  // namespace

std::int64_t computed_rows(const GatedActivationProblem& problem, const TensorView& table) {
  if (problem.groups == 0) return problem.rows;
  return GroupRows(kOp, table, problem.groups, problem.rows).grouped_rows();
}

std::string_view name(GateActivation activation) {
  for (const auto& [value, spelling] : kNames) {
    if (value == activation) return spelling;
  }
  return "unknown activation";
}

std::optional<GateActivation> parse_gate_activation(std::string_view text) {
  for (const auto& [value, spelling] : kNames) {
    if (spelling == text) return value;
  }
  return std::nullopt;
}

std::span<const GatedActivationForwardImplementation> gated_activation_forward_implementations() {
  static const std::array list{
      kGatedActivationForwardCudaSm90Tile,    kGatedActivationForwardCudaSm90Vectors,
      kGatedActivationForwardCudaSm90RowCast, kGatedActivationForwardCpuSimd,
      kGatedActivationForwardUnfused,         kGatedActivationForwardCpuReference};
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
  std::string result = text("gated-activation --shape ", problem.rows, "x", problem.cols);
  if (problem.groups != 0) {
    result += text(" --groups ", problem.groups);
    if (problem.tail != GroupTail::zero) result += text(" --tail ", name(problem.tail));
  }
  result += text(" --activation ", name(problem.activation), " --dtype ", name(problem.dtype));
  if (problem.row_weight) result += " --row-weight";
  if (problem.fp8) result += describe(*problem.fp8);
  return result + " --device " + name(problem.device);
}

void check_activation(std::string_view op, GateActivation activation) {
  if (!parse_gate_activation(name(activation))) {
    refuse_argument(op, ": activation must be silu, gelu_tanh, gelu_erf or relu_squared, got ",
                    static_cast<std::int32_t>(activation));
  }
}

void check(const GatedActivationProblem& problem) {
  check_count(kOp, "rows", problem.rows);
  if (problem.fp8) check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "dtype"}, problem.dtype);
  check_activation(kOp, problem.activation);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  if (problem.fp8) {
    check_size(kOp, problem.rows, 2 * problem.cols, Dtype::f32);  // dgate beside dup
    check_fp8_output(kOp, *problem.fp8);
  }
  check_over_groups(problem);
  check_device(kOp, problem.device);
}

GatedActivationForwardArgs check(const GatedActivationProblem& problem,
                                 GatedActivationForwardArgs args, std::size_t workspace_bytes,
                                 const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  call.reads("gate", args.gate, forms.rows);
  call.reads("up", args.up, forms.rows);
  call.reads_if(problem.row_weight, "row_weight", args.row_weight, forms.per_row);
  read_table_if(call, problem, args.table);
  write_copies(call, problem, args.fp8, problem.cols, {},
               {.transposed_shape = "[max_token_blocks(groups, rows), cols, 128]"});
  call.writes_if(!problem.fp8, "y", args.y, forms.rows);
  call.check_apart(workspace_bytes, workspace);
  check_contents(problem, args.table);
  return args;
}

GatedActivationBackwardArgs check(const GatedActivationProblem& problem,
                                  GatedActivationBackwardArgs args, std::size_t workspace_bytes,
                                  const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  call.reads("dy", args.dy, forms.rows);
  call.reads("gate", args.gate, forms.rows);
  call.reads("up", args.up, forms.rows);
  read_table_if(call, problem, args.table);
  write_copies(call, problem, args.fp8, 2 * problem.cols,
               {.out_shape = "[rows, 2 cols]", .transposed_shape = "[2 cols, rows]"},
               {.out_shape = "[rows, 2 cols]",
                .transposed_shape = "[max_token_blocks(groups, rows), 2 cols, 128]"});
  call.writes_if(!problem.fp8, "dgate", args.dgate, forms.rows);
  call.writes_if(!problem.fp8, "dup", args.dup, forms.rows);
  call.reads_if(problem.row_weight, "row_weight", args.row_weight, forms.per_row);
  call.writes_if(problem.row_weight, "d_row_weight", args.d_row_weight, forms.per_row);
  call.check_apart(workspace_bytes, workspace);
  check_contents(problem, args.table);
  return args;
}

GatedActivationForwardPlan plan_gated_activation_forward(const GatedActivationProblem& problem,
                                                         const PlanOptions& options) {
  check(problem);
  return make_plan<ForwardPass>(gated_activation_forward_implementations(), problem,
                                request_of(problem, options), options);
}

GatedActivationBackwardPlan plan_gated_activation_backward(const GatedActivationProblem& problem,
                                                           const PlanOptions& options) {
  check(problem);
  Request request = request_of(problem, options);
  request.forced_environment =
      forced_for_backward(request.forced_environment, gated_activation_forward_implementations(),
                          gated_activation_backward_implementations());
  return make_plan<BackwardPass>(gated_activation_backward_implementations(), problem, request,
                                 options);
}

void run(const GatedActivationForwardPlan& plan, const GatedActivationForwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("gated_activation_forward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

void run(const GatedActivationBackwardPlan& plan, const GatedActivationBackwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("gated_activation_backward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

}  // namespace octet
