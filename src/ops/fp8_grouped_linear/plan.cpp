// Plans and runs the casts and products of grouped layers, one after the other. They share one
// piece of scratch memory, as large as the largest needs. Every argument is checked before anything
// is written; the parts are not checked again.
#include "core/call.hpp"
#include "core/workspace.hpp"
#include "dispatch/implementation.hpp"
#include "ops/fp8_grouped_linear/parts.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "ops/group_table/problem.hpp"

#include <algorithm>
#include <array>

namespace octet {
namespace {

constexpr std::string_view kForward = "fp8_grouped_linear_forward";
constexpr std::string_view kBackward = "fp8_grouped_linear_backward";

std::string describe_parts(const std::string& quantize, const std::string& gemm) {
  return text("quantize=", quantize, " grouped_gemm=", gemm);
}

bool saves_x(const Fp8GroupedLinearProblem& problem) { return problem.training && problem.need_dw; }
bool saves_w(const Fp8GroupedLinearProblem& problem) { return problem.training && problem.need_dx; }

QuantizedBatchForm x_t_form(const Fp8GroupedLinearProblem& problem) {
  return {problem.format,
          max_token_blocks(problem.groups, problem.rows),
          problem.k,
          kTokenBlock,
          problem.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : kBlock1x128,
          "[max_token_blocks(groups, rows), K, 128]"};
}
QuantizedBatchForm w_t_form(const Fp8GroupedLinearProblem& problem) {
  return {problem.format, problem.groups, problem.k, problem.n, kBlock128x128, "[groups, K, N]"};
}

void check(const Fp8GroupedLinearForwardPlan& plan, const Fp8GroupedLinearForwardArgs& args,
           const Workspace& workspace) {
  const Fp8GroupedLinearProblem& problem = plan.problem;
  const auto [groups, rows, n, k] = std::array{problem.groups, problem.rows, problem.n, problem.k};
  Call call(kForward, problem.device);
  call.reads("x", args.x, MatrixForm{problem.dtype, rows, k, "[rows, K]"});
  if (problem.weights_quantized) {
    call.reads("weights.w", args.weights.w,
               QuantizedBatchForm{problem.format, groups, n, k, kBlock128x128, "[groups, N, K]"});
  } else {
    call.reads("w", args.w, TensorForm(problem.dtype, {groups, n, k}, "[groups, N, K]"));
  }
  read_table(call, args.table, groups, rows);
  call.writes("y", args.y, MatrixForm{problem.dtype, rows, n, "[rows, N]"});
  if (saves_x(problem)) call.writes("saved.x_t", args.saved.x_t, x_t_form(problem));
  if (saves_w(problem) && !problem.weights_quantized) {
    call.writes("saved.w_t", args.saved.w_t, w_t_form(problem));
  }
  call.check_apart(plan.workspace_bytes, workspace);
}

void check(const Fp8GroupedLinearBackwardPlan& plan, const Fp8GroupedLinearBackwardArgs& args,
           const Workspace& workspace) {
  const Fp8GroupedLinearProblem& problem = plan.problem;
  const auto [groups, rows, n, k] = std::array{problem.groups, problem.rows, problem.n, problem.k};
  Call call(kBackward, problem.device);
  call.reads("dy", args.dy, MatrixForm{problem.dtype, rows, n, "[rows, N]"});
  if (saves_x(problem)) call.reads("saved.x_t", args.saved.x_t, x_t_form(problem));
  if (saves_w(problem)) call.reads("saved.w_t", args.saved.w_t, w_t_form(problem));
  read_table(call, args.table, groups, rows);
  if (problem.need_dx) call.writes("dx", args.dx, MatrixForm{problem.dtype, rows, k, "[rows, K]"});
  call.check_apart();  // errors of dx come before those of dw
  if (problem.need_dw) {
    call.writes("dw", args.dw, TensorForm(problem.dw_dtype, {groups, n, k}, "[groups, N, K]"));
  }
  call.check_apart(plan.workspace_bytes, workspace);
}

}  // namespace

Fp8GroupedLinearForwardPlan plan_fp8_grouped_linear_forward(const Fp8GroupedLinearProblem& problem,
                                                            const Fp8LinearOptions& options) {
  check(problem);
  const PlanOptions quantize_options{options.quantize_backend, options.threads};
  auto state = std::make_shared<Fp8GroupedLinearForwardState>();
  state->quantize_x = plan_quantize(cast_of_x(problem), quantize_options);
  state->x_layout = copies_of(state->quantize_x.problem).rows;
  std::size_t scratch = state->quantize_x.workspace_bytes;
  if (!problem.weights_quantized) {
    state->quantize_w = plan_quantize(cast_of_w(problem), quantize_options);
    state->w_layout = weight_copies_of(state->quantize_w->problem).w;
    scratch = std::max(scratch, state->quantize_w->workspace_bytes);
  }
  state->product =
      plan_grouped_gemm(fp8_products(problem).y, {options.gemm_backend, options.threads});
  scratch = std::max(scratch, state->product.workspace_bytes);

  Fp8GroupedLinearForwardPlan plan;
  plan.problem = {problem};
  plan.implementation =
      describe_parts(state->quantize_x.implementation, state->product.implementation);
  plan.configuration = state->product.configuration;
  plan.why = state->product.why;
  plan.workspace_bytes = aligned_bytes(state->x_layout.bytes) +
                         aligned_bytes(state->w_layout.bytes) + aligned_bytes(scratch);
  plan.state = state;
  return plan;
}

Fp8GroupedLinearBackwardPlan plan_fp8_grouped_linear_backward(
    const Fp8GroupedLinearProblem& problem, const Fp8LinearOptions& options) {
  check(problem);
  if (!problem.training || !(problem.need_dx || problem.need_dw)) {
    refuse_argument(
        "fp8_grouped_linear: backward needs training = true and need_dx or need_dw = true");
  }
  const PlanOptions gemm_options{options.gemm_backend, options.threads};
  const GroupedLinearProducts products = fp8_products(problem);
  auto state = std::make_shared<Fp8GroupedLinearBackwardState>();
  state->quantize_dy =
      plan_quantize(cast_of_dy(problem), {options.quantize_backend, options.threads});
  state->dy = copies_of(state->quantize_dy.problem);
  std::size_t scratch = state->quantize_dy.workspace_bytes;
  if (problem.need_dx) {
    state->dx_product = plan_grouped_gemm(products.dx, gemm_options);
    scratch = std::max(scratch, state->dx_product->workspace_bytes);
  }
  if (problem.need_dw) {
    state->dw_product = plan_grouped_gemm(products.dw, gemm_options);
    scratch = std::max(scratch, state->dw_product->workspace_bytes);
  }

  Fp8GroupedLinearBackwardPlan plan;
  plan.problem = {problem};
  const GroupedGemmPlan& product = problem.need_dw ? *state->dw_product : *state->dx_product;
  plan.implementation = describe_parts(state->quantize_dy.implementation, product.implementation);
  plan.configuration = product.configuration;
  plan.why = product.why;
  plan.workspace_bytes = aligned_bytes(state->dy.rows.bytes) +
                         aligned_bytes(state->dy.token_blocks.bytes) + aligned_bytes(scratch);
  plan.state = state;
  return plan;
}

void run(const Fp8GroupedLinearForwardPlan& plan, const Fp8GroupedLinearForwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan(kForward, plan.state.get());
  check(plan, args, workspace);

  const auto& state = *static_cast<const Fp8GroupedLinearForwardState*>(plan.state.get());
  const Device device = plan.problem.device;
  WorkspaceCarver carver(workspace);
  const QuantizedView x = state.x_layout.view(carver.take(state.x_layout.bytes), device);
  void* w_memory = carver.take(state.w_layout.bytes);
  QuantizedView w = args.weights.w;
  run_plan(state.quantize_x, QuantizeArgs{args.x, x, args.saved.x_t, args.table}, carver.rest(),
           stream);
  if (state.quantize_w) {
    w = state.w_layout.view(w_memory, device);
    run_plan(*state.quantize_w, QuantizeArgs{args.w, w, args.saved.w_t}, carver.rest(), stream);
  }
  run_plan(state.product, GroupedGemmArgs{x, w, args.y, args.table}, carver.rest(), stream);
}

void run(const Fp8GroupedLinearBackwardPlan& plan, const Fp8GroupedLinearBackwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan(kBackward, plan.state.get());
  check(plan, args, workspace);

  const auto& state = *static_cast<const Fp8GroupedLinearBackwardState*>(plan.state.get());
  const Device device = plan.problem.device;
  WorkspaceCarver carver(workspace);
  QuantizedView dy;
  QuantizedView dy_t;
  if (void* memory = carver.take(state.dy.rows.bytes)) dy = state.dy.rows.view(memory, device);
  if (void* memory = carver.take(state.dy.token_blocks.bytes)) {
    dy_t = state.dy.token_blocks.view(memory, device);
  }
  const Workspace scratch = carver.rest();
  run_plan(state.quantize_dy, QuantizeArgs{args.dy, dy, dy_t, args.table}, scratch, stream);
  if (state.dx_product) {
    run_plan(*state.dx_product, GroupedGemmArgs{dy, args.saved.w_t, args.dx, args.table}, scratch,
             stream);
  }
  if (state.dw_product) {
    run_plan(*state.dw_product, GroupedGemmArgs{dy_t, args.saved.x_t, args.dw, args.table}, scratch,
             stream);
  }
}

}  // namespace octet
