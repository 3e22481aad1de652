// Plans the glue, casts, products and activation of the layer, and the pieces of its workspace.
#include "core/message.hpp"
#include "core/workspace.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "ops/moe_mlp/parts.hpp"

#include <algorithm>
#include <initializer_list>

namespace octet {
namespace {

// Plans the parts; keeps the largest scratch that one of them needs, since they run one after the
// other.
class Parts {
 public:
  explicit Parts(const Fp8LinearOptions& options) : options_(options) {}

  QuantizePlan quantize(const QuantizeProblem& problem) {
    return counted(plan_quantize(problem, {options_.quantize_backend, options_.threads}));
  }
  GroupedGemmPlan multiply(const GroupedGemmProblem& problem) {
    return counted(plan_grouped_gemm(problem, {options_.gemm_backend, options_.threads}));
  }
  // The glue and the activation have no backend of their own to choose.
  template <class Problem, class AnyPlan>
  AnyPlan plan(const Problem& problem, AnyPlan (*make)(const Problem&, const PlanOptions&)) {
    return counted(make(problem, {"", options_.threads}));
  }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  template <class AnyPlan>
  AnyPlan counted(AnyPlan plan) {
    scratch_bytes_ = std::max(scratch_bytes_, plan.workspace_bytes);
    return plan;
  }

  Fp8LinearOptions options_;
  std::size_t scratch_bytes_ = 0;
};

std::size_t workspace_bytes(std::initializer_list<std::size_t> pieces) {
  std::size_t sum = 0;
  for (const std::size_t bytes : pieces) sum += aligned_bytes(bytes);
  return sum;
}

std::size_t matrix_bytes(Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols * size_bytes(dtype));
}

std::string describe_parts(const std::string& quantize, const std::string& activation,
                           const std::string& gemm, const std::string& unpermute) {
  return text("quantize=", quantize, " activation=", activation, " grouped_gemm=", gemm,
              unpermute.empty() ? "" : " unpermute=", unpermute);
}

}  // namespace

MoeMlpForwardPlan plan_moe_mlp_forward(const MoeMlpProblem& problem,
                                       const Fp8LinearOptions& options) {
  auto state = std::make_shared<MoeMlpForwardState>();
  const MoeMlpSavedLayout saved = moe_mlp_saved_layout(problem);  // which checks the problem
  const Fp8GroupedLinearProblem gate_up = gate_up_layer(problem);
  const Fp8GroupedLinearProblem down = down_layer(problem);
  Parts parts(options);
  if (problem.routing) {
    state->route = parts.plan(route_of(problem), plan_moe_route_forward);
    state->weights_bytes = matrix_bytes(Dtype::f32, problem.tokens, problem.top_k);
  }
  state->maps = parts.plan(maps_of(problem), plan_moe_maps);
  state->row_weight = parts.plan(weights_to_rows(problem), plan_moe_permute_forward);
  state->quantize_x = parts.quantize(gather_x(problem));
  if (!problem.weights_quantized) {
    state->quantize_w_gate_up = parts.quantize(cast_of_w(gate_up));
    state->quantize_w_down = parts.quantize(cast_of_w(down));
    state->w_gate_up = weight_copies_of(state->quantize_w_gate_up->problem).w;
    state->w_down = weight_copies_of(state->quantize_w_down->problem).w;
  }
  state->gate_up = parts.multiply(fp8_products(gate_up).y);
  state->activation = parts.plan(activation_forward(problem), plan_gated_activation_forward);
  state->down = parts.multiply(fp8_products(down).y);
  state->unpermute = parts.plan(rows_to_tokens(problem), plan_moe_unpermute_forward);
  state->saved_bytes = problem.training ? 0 : saved.bytes;
  state->x = copies_of(state->quantize_x.problem).rows;
  state->h = copies_of(cast_of_x(down)).rows;
  state->rows_bytes = matrix_bytes(problem.dtype, buffer_rows(problem), problem.k);

  MoeMlpForwardPlan plan;
  plan.problem = {problem};
  plan.implementation =
      describe_parts(state->quantize_x.implementation, state->activation.implementation,
                     state->gate_up.implementation, state->unpermute.implementation);
  plan.configuration = state->gate_up.configuration;
  plan.why = state->gate_up.why;
  plan.workspace_bytes = workspace_bytes(
      {state->saved_bytes, state->weights_bytes, state->x.bytes, state->w_gate_up.bytes,
       state->h.bytes, state->w_down.bytes, state->rows_bytes, parts.scratch_bytes()});
  plan.state = state;
  return plan;
}

MoeMlpBackwardPlan plan_moe_mlp_backward(const MoeMlpProblem& problem,
                                         const Fp8LinearOptions& options) {
  check(problem);
  if (!problem.training || !(problem.need_dx || problem.need_dw)) {
    refuse_argument("moe_mlp: backward needs training = true and need_dx or need_dw = true");
  }
  auto state = std::make_shared<MoeMlpBackwardState>();
  const GroupedLinearProducts gate_up = fp8_products(gate_up_layer(problem));
  const GroupedLinearProducts down = fp8_products(down_layer(problem));
  const std::int64_t rows = buffer_rows(problem);
  Parts parts(options);
  state->quantize_dy = parts.quantize(gather_dy(problem));
  state->dy = copies_of(state->quantize_dy.problem);
  state->dh = parts.multiply(down.dx);
  state->dh_bytes = matrix_bytes(problem.dtype, rows, problem.f);
  if (problem.need_dw) state->dw_down = parts.multiply(down.dw);
  state->activation = parts.plan(activation_backward(problem), plan_gated_activation_backward);
  state->d_gate_up = copies_of(cast_of_dy(gate_up_layer(problem)));
  state->d_row_weight_bytes = matrix_bytes(Dtype::f32, rows, 1);
  if (problem.need_dw) state->dw_gate_up = parts.multiply(gate_up.dw);
  if (problem.need_dx) {
    state->dx = parts.multiply(gate_up.dx);
    state->unpermute = parts.plan(rows_to_tokens(problem), plan_moe_unpermute_forward);
    state->rows_bytes = matrix_bytes(problem.dtype, rows, problem.k);
  }
  state->dweights = parts.plan(weights_to_rows(problem), plan_moe_permute_backward);
  if (problem.routing) {
    state->route = parts.plan(route_of(problem), plan_moe_route_backward);
    state->dweights_bytes = matrix_bytes(Dtype::f32, problem.tokens, problem.top_k);
  }

  MoeMlpBackwardPlan plan;
  plan.problem = {problem};
  plan.implementation = describe_parts(state->quantize_dy.implementation,
                                       state->activation.implementation, state->dh.implementation,
                                       state->unpermute ? state->unpermute->implementation : "");
  plan.configuration = state->dh.configuration;
  plan.why = state->dh.why;
  plan.workspace_bytes = workspace_bytes(
      {state->dy.rows.bytes, state->dy.token_blocks.bytes, state->dh_bytes,
       state->d_gate_up.rows.bytes, state->d_gate_up.token_blocks.bytes, state->d_row_weight_bytes,
       state->dweights_bytes, state->rows_bytes, parts.scratch_bytes()});
  plan.state = state;
  return plan;
}

}  // namespace octet
