// Plans the casts and products of a layer. They run one after the other and share one piece of
// scratch memory, as large as the largest needs.
#include "core/message.hpp"
#include "core/workspace.hpp"
#include "ops/fp8_linear/parts.hpp"

#include <algorithm>

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
  auto state = std::make_shared<Fp8LinearForwardState>();
  state->quantize_x = plan_quantize(cast_of_x(problem), quantize_options);
  state->x_layout = out_layout(state->quantize_x.problem);
  if (!problem.weights_quantized) {
    state->quantize_w = plan_quantize(cast_of_w(problem), quantize_options);
    state->w_layout = out_layout(state->quantize_w->problem);
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
  const bool has_products = problem.need_dx || problem.need_dw;
  if (!problem.training || (!has_products && !problem.dbias_dtype)) {
    refuse_argument(
        "fp8_linear: backward needs training = true and need_dx, need_dw or a dbias_dtype");
  }
  const PlanOptions gemm_options{options.gemm_backend, options.threads};
  const LinearProducts products = fp8_products(problem);
  auto state = std::make_shared<Fp8LinearBackwardState>();
  std::size_t scratch = 0;
  if (has_products) {
    state->quantize_dy =
        plan_quantize(cast_of_dy(problem), {options.quantize_backend, options.threads});
    state->dy_layout = out_layout(state->quantize_dy->problem);
    state->dy_t_layout = transposed_layout(state->quantize_dy->problem);
    scratch = state->quantize_dy->workspace_bytes;
  }
  if (problem.need_dx) {
    state->dx_product = plan_gemm(products.dx, gemm_options);
    scratch = std::max(scratch, state->dx_product->workspace_bytes);
  }
  if (problem.need_dw) {
    state->dw_product = plan_gemm(products.dw, gemm_options);
    scratch = std::max(scratch, state->dw_product->workspace_bytes);
  }
  if (problem.dbias_dtype) {
    state->dbias = BiasGradient(problem, options.threads);
    scratch = std::max(scratch, state->dbias->workspace_bytes());
  }

  Fp8LinearBackwardPlan plan;
  plan.problem = {problem};
  if (has_products) {
    const GemmPlan& product = problem.need_dw ? *state->dw_product : *state->dx_product;
    plan.implementation =
        describe_products(state->quantize_dy->implementation, product.implementation);
    plan.configuration = product.configuration;
    plan.why = product.why;
  }
  if (state->dbias) {
    plan.implementation += text(has_products ? " " : "", "dbias=", state->dbias->implementation());
  }
  plan.workspace_bytes = aligned_bytes(state->dy_layout.bytes) +
                         aligned_bytes(state->dy_t_layout.bytes) + aligned_bytes(scratch);
  plan.state = state;
  return plan;
}

}  // namespace octet
