// The glue of a mixture of experts. Indices and maps are whatever the arena holds.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline void route_forward(Input& input, const octet_plan* plan, Memory& memory,
                          const octet_moe_route_problem& p) {
  auto args = with_tail<octet_moe_route_forward_args>();
  octet_moe_route_forward_args& a = args.known;
  a.logits = input.tensor(p.dtype, p.tokens, p.experts);
  if (p.bias != 0) a.bias = input.tensor(OCTET_F32, {p.experts});
  a.indices = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.weights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  if (input.coin()) a.scores = input.tensor(OCTET_F32, p.tokens, p.experts);
  memory.run(input, plan, octet_run_moe_route_forward, args);
}

inline void route_backward(Input& input, const octet_plan* plan, Memory& memory,
                           const octet_moe_route_problem& p) {
  auto args = with_tail<octet_moe_route_backward_args>();
  octet_moe_route_backward_args& a = args.known;
  a.scores = input.tensor(OCTET_F32, p.tokens, p.experts);
  a.indices = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.dweights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  if (input.coin()) a.dscores = input.tensor(OCTET_F32, p.tokens, p.experts);
  a.dlogits = input.tensor(p.dtype, p.tokens, p.experts);
  memory.run(input, plan, octet_run_moe_route_backward, args);
}

inline void fuzz_moe_route(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_moe_route_problem);
  octet_moe_route_problem& p = problem.known;
  p.tokens = input.spoilt() ? 0 : input.extent();
  p.dtype = input.float_dtype();
  p.expert_groups = input.coin() ? 1 : input.few();
  const bool few_groups = p.expert_groups > 0 && p.expert_groups < 100;
  p.experts =
      few_groups && !input.spoilt() ? p.expert_groups * (2 + input.choice(5)) : input.extent();
  p.top_groups = input.coin() ? 1 : input.few();
  p.top_k = input.few();
  p.score = input.number(OCTET_ROUTE_SOFTMAX, OCTET_ROUTE_SIGMOID);
  p.group_score = input.number(OCTET_EXPERT_GROUP_BEST, OCTET_EXPERT_GROUP_BEST_TWO);
  p.bias = input.flag();
  p.normalize = input.flag();
  p.scale = input.spoilt() ? input.real() : 1;
  p.device = input.device();
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_plan_options::backend, octet_make_moe_route_forward_plan,
                octet_make_moe_route_backward_plan);
  if (pass.plan == nullptr || is_long({p.tokens, p.experts})) return;
  pass.run(input, route_forward, route_backward, memory, p);
}

inline void fuzz_moe_maps(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_moe_maps_problem);
  octet_moe_maps_problem& p = problem.known;
  p.tokens = input.spoilt() ? 0 : input.extent();
  p.top_k = input.few();
  p.groups = input.extent();
  p.first_expert = input.few();
  p.experts = input.spoilt() || p.groups > 300 ? input.extent() : p.groups + 5;
  p.rows = input.extent();
  p.capacity = input.few();
  p.indices_dtype = input.coin() ? OCTET_I32 : OCTET_I64;
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_moe_maps_plan);
  if (plan == nullptr || is_long({p.tokens, p.top_k, p.rows})) return;
  int64_t words = 0;
  if (octet_group_table_words(p.groups, p.rows, &words) != OCTET_OK) __builtin_trap();
  auto args = with_tail<octet_moe_maps_args>();
  octet_moe_maps_args& a = args.known;
  a.indices = input.tensor(p.indices_dtype, p.tokens, p.top_k);
  a.row_of = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.source = input.tensor(OCTET_I32, {p.rows});
  a.sizes = input.tensor(OCTET_I32, {p.groups});
  a.table = input.tensor(OCTET_I32, {words});
  a.status = input.tensor(OCTET_I32, {OCTET_MOE_MAPS_STATUS_WORDS});
  memory.run(input, plan.get(), octet_run_moe_maps, args);
}

template <class Problem>
void read_rows(Input& input, Problem* p) {
  p->tokens = input.spoilt() ? 0 : input.extent();
  p->top_k = input.few();
  p->rows = input.extent();
  p->cols = input.extent();
  p->dtype = input.float_dtype();
  p->weights = input.flag();
  p->tail = input.number(OCTET_TAIL_ZERO, OCTET_TAIL_UNTOUCHED);
  p->device = input.device();
}

inline void permute_forward(Input& input, const octet_plan* plan, Memory& memory,
                            const octet_moe_permute_problem& p) {
  auto args = with_tail<octet_moe_permute_forward_args>();
  octet_moe_permute_forward_args& a = args.known;
  a.x = input.tensor(p.dtype, p.tokens, p.cols);
  a.row_of = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.source = input.tensor(OCTET_I32, {p.rows});
  a.grouped = input.tensor(p.dtype, p.rows, p.cols);
  if (p.weights != 0) a.weights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  if (p.weights != 0) a.row_weight = input.tensor(OCTET_F32, {p.rows});
  memory.run(input, plan, octet_run_moe_permute_forward, args);
}

inline void permute_backward(Input& input, const octet_plan* plan, Memory& memory,
                             const octet_moe_permute_problem& p) {
  auto args = with_tail<octet_moe_permute_backward_args>();
  octet_moe_permute_backward_args& a = args.known;
  a.dgrouped = input.tensor(p.dtype, p.rows, p.cols);
  a.row_of = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.dx = input.tensor(p.dtype, p.tokens, p.cols);
  if (p.weights != 0) a.d_row_weight = input.tensor(OCTET_F32, {p.rows});
  if (p.weights != 0) a.dweights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  memory.run(input, plan, octet_run_moe_permute_backward, args);
}

inline void fuzz_moe_permute(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_moe_permute_problem);
  octet_moe_permute_problem& p = problem.known;
  read_rows(input, &p);
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_plan_options::backend, octet_make_moe_permute_forward_plan,
                octet_make_moe_permute_backward_plan);
  if (pass.plan == nullptr || is_long({p.tokens, p.top_k, p.rows, p.cols})) return;
  pass.run(input, permute_forward, permute_backward, memory, p);
}

inline void unpermute_forward(Input& input, const octet_plan* plan, Memory& memory,
                              const octet_moe_unpermute_problem& p) {
  auto args = with_tail<octet_moe_unpermute_forward_args>();
  octet_moe_unpermute_forward_args& a = args.known;
  a.grouped = input.tensor(p.dtype, p.rows, p.cols);
  a.row_of = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.out = input.tensor(p.dtype, p.tokens, p.cols);
  if (p.weights != 0) a.weights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  memory.run(input, plan, octet_run_moe_unpermute_forward, args);
}

inline void unpermute_backward(Input& input, const octet_plan* plan, Memory& memory,
                               const octet_moe_unpermute_problem& p) {
  auto args = with_tail<octet_moe_unpermute_backward_args>();
  octet_moe_unpermute_backward_args& a = args.known;
  a.dout = input.tensor(p.dtype, p.tokens, p.cols);
  a.row_of = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.source = input.tensor(OCTET_I32, {p.rows});
  a.dgrouped = input.tensor(p.dtype, p.rows, p.cols);
  if (p.weights != 0) {
    a.grouped = input.tensor(p.dtype, p.rows, p.cols);
    a.weights = input.tensor(OCTET_F32, p.tokens, p.top_k);
    a.dweights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  }
  memory.run(input, plan, octet_run_moe_unpermute_backward, args);
}

inline void fuzz_moe_unpermute(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_moe_unpermute_problem);
  octet_moe_unpermute_problem& p = problem.known;
  read_rows(input, &p);
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_plan_options::backend, octet_make_moe_unpermute_forward_plan,
                octet_make_moe_unpermute_backward_plan);
  if (pass.plan == nullptr || is_long({p.tokens, p.top_k, p.rows, p.cols})) return;
  pass.run(input, unpermute_forward, unpermute_backward, memory, p);
}

// A layer of experts. It has many tensors, so extents are small.
inline octet_moe_mlp_problem moe_mlp_problem(Input& input) {
  octet_moe_mlp_problem p;
  octet_init_moe_mlp_problem(&p);
  p.tokens = input.few();
  p.f = input.few();
  p.k = input.few();
  p.experts = input.few();
  p.top_k = input.number(1, 2);
  p.dtype = input.float_dtype();
  p.routing = input.flag();
  p.score = input.number(OCTET_ROUTE_SOFTMAX, OCTET_ROUTE_SIGMOID);
  p.bias = input.flag();
  if (input.spoilt()) p.first_expert = input.number(-1, 3);
  if (input.spoilt()) p.local_experts = input.number(-1, 3);
  if (input.spoilt()) p.rows = input.number(-1, 9);
  if (input.spoilt()) p.capacity = input.number(-1, 9);
  p.activation = input.number(OCTET_GATE_SILU, OCTET_GATE_RELU_SQUARED);
  p.format = input.fp8_dtype();
  p.grad_format = input.fp8_dtype();
  p.weights_quantized = input.flag();
  read_training(input, &p);
  p.device = input.device();
  return p;
}

inline octet_quantized moe_weights(Input& input, const octet_moe_mlp_problem& p, std::int64_t rows,
                                   std::int64_t cols) {
  const std::int64_t experts = p.local_experts > 0 ? p.local_experts : p.experts;
  return input.quantized_batch(p.format, experts, rows, cols, octet_block_of(128, 128));
}

// Mostly the views of the layout over memory of the arena, whose contents are anything.
inline octet_moe_mlp_saved moe_saved(Input& input, const octet_moe_mlp_problem& p) {
  octet_moe_mlp_saved saved{};
  std::uint64_t bytes = 0;
  if (octet_moe_mlp_saved_bytes(&p, &bytes) != OCTET_OK) return saved;
  const octet_tensor memory = input.tensor(OCTET_F32, {static_cast<std::int64_t>(bytes / 4)});
  if (memory.data == nullptr || memory.rank != 1 || memory.strides[0] != 1 ||
      memory.shape[0] != static_cast<std::int64_t>(bytes / 4) || memory.dtype != OCTET_F32) {
    return saved;
  }
  check_status(octet_view_moe_mlp_saved(&p, memory.data, &saved));
  if (p.weights_quantized != 0) {
    saved.w_gate_up_t = moe_weights(input, p, p.k, 2 * p.f);
    saved.w_down_t = moe_weights(input, p, p.f, p.k);
  }
  return saved;
}

inline void fuzz_moe_mlp_forward(Input& input, const octet_plan* plan, Memory& memory,
                                 const octet_moe_mlp_problem& p) {
  const std::int64_t experts = p.local_experts > 0 ? p.local_experts : p.experts;
  octet_moe_mlp_forward_args a;
  OCTET_INIT(&a);
  a.x = input.tensor(p.dtype, p.tokens, p.k);
  a.logits = input.tensor(p.logits_dtype, p.tokens, p.experts);
  a.bias = input.tensor(OCTET_F32, {p.experts});
  a.indices = input.tensor(OCTET_I32, p.tokens, p.top_k);
  a.weights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  a.w_gate_up = input.tensor(p.dtype, {experts, 2 * p.f, p.k});
  a.w_down = input.tensor(p.dtype, {experts, p.k, p.f});
  if (p.weights_quantized != 0) {
    a.experts.gate_up.w = moe_weights(input, p, 2 * p.f, p.k);
    a.experts.down.w = moe_weights(input, p, p.k, p.f);
  }
  a.y = input.tensor(p.dtype, p.tokens, p.k);
  a.saved = moe_saved(input, p);
  memory.run(input, plan, octet_run_moe_mlp_forward, a);
}

inline void fuzz_moe_mlp_backward(Input& input, const octet_plan* plan, Memory& memory,
                                  const octet_moe_mlp_problem& p) {
  const std::int64_t experts = p.local_experts > 0 ? p.local_experts : p.experts;
  octet_moe_mlp_backward_args a;
  OCTET_INIT(&a);
  a.dy = input.tensor(p.dtype, p.tokens, p.k);
  a.saved = moe_saved(input, p);
  a.dx = input.tensor(p.dtype, p.tokens, p.k);
  a.dlogits = input.tensor(p.logits_dtype, p.tokens, p.experts);
  a.dweights = input.tensor(OCTET_F32, p.tokens, p.top_k);
  a.dw_gate_up = input.tensor(p.dw_dtype, {experts, 2 * p.f, p.k});
  a.dw_down = input.tensor(p.dw_dtype, {experts, p.k, p.f});
  memory.run(input, plan, octet_run_moe_mlp_backward, a);
}

inline void fuzz_moe_mlp(Input& input, Memory& memory) {
  auto problem = with_tail<octet_moe_mlp_problem>();
  octet_moe_mlp_problem& p = problem.known;
  p = moe_mlp_problem(input);
  input.grow(&problem);
  const PlannedPass pass =
      plan_pass(input, p, &octet_fp8_linear_options::gemm_backend, octet_make_moe_mlp_forward_plan,
                octet_make_moe_mlp_backward_plan);
  if (pass.plan == nullptr) return;
  pass.run(input, fuzz_moe_mlp_forward, fuzz_moe_mlp_backward, memory, p);
}

}  // namespace octet::fuzz
