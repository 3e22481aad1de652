// Which casts and products a layer is made of. The scratch of the parts is used one after the
// other, so the largest serves all.
#include "core/message.hpp"
#include "ops/fp8_linear/state.hpp"

namespace octet {
namespace {

std::string describe_products(const std::string& quantize, const std::string& gemm) {
  return text("quantize=", quantize, " gemm=", gemm);
}

}  // namespace

Fp8LinearForwardPlan plan_fp8_linear_forward(const Fp8LinearProblem& problem,
                                             const Fp8LinearOptions& options) {
  check(problem);
  const PlanOptions quantize_options{options.quantize_backend, options.threads};
  const PlanOptions gemm_options{options.gemm_backend, options.threads};
  auto state = std::make_shared<ForwardState>();
  std::optional<BlockShape> x_t;
  if (saves_x(problem)) x_t = x_t_block(problem);
  state->quantize_x = plan_quantize(
      quantize_problem(problem, problem.m, problem.k, problem.format, kBlock1x128, x_t),
      quantize_options);
  state->x_layout = QuantizedLayout(problem.m, problem.k, problem.format, kBlock1x128);
  if (!problem.weights_quantized) {
    std::optional<BlockShape> w_t;
    if (saves_w(problem)) w_t = kBlock128x128;
    state->quantize_w = plan_quantize(
        quantize_problem(problem, problem.n, problem.k, problem.format, kBlock128x128, w_t),
        quantize_options);
    state->w_layout = QuantizedLayout(problem.n, problem.k, problem.format, kBlock128x128);
  }
  state->product = plan_gemm(fp8_products(problem).y, gemm_options);

  Fp8LinearForwardPlan plan;
  plan.problem = {problem};
  plan.implementation =
      describe_products(state->quantize_x.implementation, state->product.implementation);
  plan.configuration = state->product.configuration;
  plan.why = state->product.why;
  std::size_t scratch = std::max(state->quantize_x.workspace_bytes, state->product.workspace_bytes);
  if (state->quantize_w) scratch = std::max(scratch, state->quantize_w->workspace_bytes);
  plan.workspace_bytes = aligned_bytes(state->x_layout.bytes) +
                         aligned_bytes(state->w_layout.bytes) + aligned_bytes(scratch);
  plan.state = state;
  return plan;
}

Fp8LinearBackwardPlan plan_fp8_linear_backward(const Fp8LinearProblem& problem,
                                               const Fp8LinearOptions& options) {
  check(problem);
  if (!problem.training || (!problem.need_dx && !problem.need_dw)) {
    refuse_argument("fp8_linear: backward needs training = true and need_dx or need_dw");
  }
  const PlanOptions gemm_options{options.gemm_backend, options.threads};
  const LinearProducts products = fp8_products(problem);
  auto state = std::make_shared<BackwardState>();
  std::optional<BlockShape> row;
  std::optional<BlockShape> column;
  std::size_t scratch = 0;
  if (problem.need_dx) {
    row = kBlock1x128;
    state->dy_layout = QuantizedLayout(problem.m, problem.n, problem.grad_format, kBlock1x128);
    state->dx_product = plan_gemm(products.dx, gemm_options);
    scratch = std::max(scratch, state->dx_product->workspace_bytes);
  }
  if (problem.need_dw) {
    column = kBlock1x128;
    state->dy_t_layout = QuantizedLayout(problem.n, problem.m, problem.grad_format, kBlock1x128);
    state->dw_product = plan_gemm(products.dw, gemm_options);
    scratch = std::max(scratch, state->dw_product->workspace_bytes);
  }
  state->quantize_dy = plan_quantize(
      quantize_problem(problem, problem.m, problem.n, problem.grad_format, row, column),
      {options.quantize_backend, options.threads});
  scratch = std::max(scratch, state->quantize_dy.workspace_bytes);

  Fp8LinearBackwardPlan plan;
  plan.problem = {problem};
  const GemmPlan& product = problem.need_dw ? *state->dw_product : *state->dx_product;
  plan.implementation =
      describe_products(state->quantize_dy.implementation, product.implementation);
  plan.configuration = product.configuration;
  plan.why = product.why;
  plan.workspace_bytes = aligned_bytes(state->dy_layout.bytes) +
                         aligned_bytes(state->dy_t_layout.bytes) + aligned_bytes(scratch);
  plan.state = state;
  return plan;
}

}  // namespace octet
