// The glue of a mixture of experts: moe_route chooses experts, moe_maps gives every choice a row,
// moe_gather and moe_sum carry tokens to their rows and back, each the gradient of the other.
#include "torch/error.hpp"
#include "torch/grouped.hpp"
#include "torch/plan_cache.hpp"

namespace octet_torch {

namespace {

// (top_k, score, expert_groups, top_groups, group_score, normalize, scale) from stack[first] on.
octet_moe_route_problem route_of(const octet_tensor& logits, const StackValue* stack, int first,
                                 bool bias) {
  octet_moe_route_problem problem;
  octet_init_moe_route_problem(&problem);
  problem.dtype = logits.dtype;
  problem.tokens = logits.shape[0];
  problem.experts = logits.shape[1];
  problem.top_k = int_at(stack, first);
  problem.score = static_cast<octet_route_score>(int_at(stack, first + 1));
  problem.bias = bias ? 1 : 0;
  problem.expert_groups = int_at(stack, first + 2);
  problem.top_groups = int_at(stack, first + 3);
  problem.group_score = static_cast<octet_expert_group_score>(int_at(stack, first + 4));
  problem.normalize = bool_at(stack, first + 5) ? 1 : 0;
  problem.scale = static_cast<float>(double_at(stack, first + 6));
  problem.device = logits.device;
  return problem;
}

// (logits, bias, top_k, score, expert_groups, top_groups, group_score, normalize, scale)
// -> weights, indices, scores
void moe_route_forward(StackValue* stack) {
  const Tensor logits(stack[0]), bias = optional_at(stack, 1);
  octet_moe_route_forward_args args;
  OCTET_INIT(&args);
  args.logits = view_of(logits, "logits", 2);
  if (bias.get() != nullptr) args.bias = view_of(bias, "bias", 1);
  const octet_moe_route_problem problem = route_of(args.logits, stack, 2, bias.get() != nullptr);
  const CachedPlan plan = find_plan(problem, octet_make_moe_route_forward_plan);
  Tensor weights = empty({problem.tokens, problem.top_k}, shim.f32, logits);
  Tensor indices = empty({problem.tokens, problem.top_k}, shim.i32, logits);
  Tensor scores = empty({problem.tokens, problem.experts}, shim.f32, logits);
  args.weights = view_of(weights, "weights");
  args.indices = index_view_of(indices, "indices", 2);
  args.scores = view_of(scores, "scores");
  const Workspace workspace(plan.workspace_bytes, logits);
  check(octet_run_moe_route_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                    current_stream(problem.device)));
  stack[0] = weights.release();
  stack[1] = indices.release();
  stack[2] = scores.release();
}

// (scores, indices, dweights, dscores, dtype, top_k, ..., scale) -> dlogits
void moe_route_backward(StackValue* stack) {
  const Tensor scores(stack[0]), indices(stack[1]), dweights(stack[2]);
  const Tensor dscores = optional_at(stack, 3);
  octet_moe_route_backward_args args;
  OCTET_INIT(&args);
  args.scores = view_of(scores, "scores", 2);
  args.indices = index_view_of(indices, "indices", 2);
  args.dweights = view_of(dweights, "dweights", 2);
  if (dscores.get() != nullptr) args.dscores = view_of(dscores, "dscores", 2);
  octet_moe_route_problem problem = route_of(args.scores, stack, 5, false);
  problem.dtype = static_cast<octet_dtype>(int_at(stack, 4));
  const CachedPlan plan = find_plan(problem, octet_make_moe_route_backward_plan);
  Tensor dlogits = empty({problem.tokens, problem.experts}, torch_dtype(problem.dtype), scores);
  args.dlogits = view_of(dlogits, "dlogits");
  const Workspace workspace(plan.workspace_bytes, scores);
  check(octet_run_moe_route_backward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                     current_stream(problem.device)));
  stack[0] = dlogits.release();
}

// (indices, experts) -> row_of, source, sizes
void moe_maps(StackValue* stack) {
  const Tensor indices(stack[0]);
  octet_moe_maps_args args;
  OCTET_INIT(&args);
  args.indices = index_view_of(indices, "indices", 2);
  octet_moe_maps_problem problem;
  octet_init_moe_maps_problem(&problem);
  problem.indices_dtype = args.indices.dtype;
  problem.tokens = args.indices.shape[0];
  problem.top_k = args.indices.shape[1];
  problem.experts = problem.groups = int_at(stack, 1);
  const std::int64_t slots = problem.tokens * problem.top_k;
  problem.rows = slots > 0 ? slots : 1;
  problem.device = args.indices.device;
  const CachedPlan plan = find_plan(problem, octet_make_moe_maps_plan);
  std::int64_t words = 0;
  check(octet_group_table_words(problem.groups, problem.rows, &words));
  Tensor row_of = empty({problem.tokens, problem.top_k}, shim.i32, indices);
  Tensor source = empty({problem.rows}, shim.i32, indices);
  Tensor sizes = empty({problem.groups}, shim.i32, indices);
  const Tensor table = empty({words}, shim.i32, indices);
  const Tensor status = empty({OCTET_MOE_MAPS_STATUS_WORDS}, shim.i32, indices);
  args.row_of = index_view_of(row_of, "row_of", 2);
  args.source = index_view_of(source, "source", 1);
  args.sizes = index_view_of(sizes, "sizes", 1);
  args.table = index_view_of(table, "table", 1);
  args.status = index_view_of(status, "status", 1);
  const Workspace workspace(plan.workspace_bytes, indices);
  check(octet_run_moe_maps(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                           current_stream(problem.device)));
  // On CUDA a bad index counts as -1: nothing waits for the device.
  if (problem.device.type == OCTET_CPU) check(octet_check_moe_maps(&args.status, nullptr));
  stack[0] = row_of.release();
  stack[1] = source.release();
  stack[2] = sizes.release();
}

// (x [tokens, cols], row_of [tokens, top_k], source [rows]) -> rows [rows, cols]
void moe_gather(StackValue* stack) {
  const Tensor x(stack[0]), row_of(stack[1]), source(stack[2]);
  octet_moe_permute_forward_args args;
  OCTET_INIT(&args);
  args.x = view_of(x, "x", 2);
  args.row_of = index_view_of(row_of, "row_of", 2);
  args.source = index_view_of(source, "source", 1);
  octet_moe_permute_problem problem;
  octet_init_moe_permute_problem(&problem);
  problem.dtype = args.x.dtype;
  problem.tokens = args.row_of.shape[0];
  problem.top_k = args.row_of.shape[1];
  problem.rows = args.source.shape[0];
  problem.cols = args.x.shape[1];
  problem.device = args.x.device;
  const CachedPlan plan = find_plan(problem, octet_make_moe_permute_forward_plan);
  Tensor rows = empty({problem.rows, problem.cols}, torch_dtype(problem.dtype), x);
  args.grouped = view_of(rows, "rows");
  const Workspace workspace(plan.workspace_bytes, x);
  check(octet_run_moe_permute_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                      current_stream(problem.device)));
  stack[0] = rows.release();
}

// (rows [rows, cols], row_of [tokens, top_k], source [rows]) -> out [tokens, cols]
void moe_sum(StackValue* stack) {
  const Tensor rows(stack[0]), row_of(stack[1]), source(stack[2]);  // source: for backward
  octet_moe_unpermute_forward_args args;
  OCTET_INIT(&args);
  args.grouped = view_of(rows, "rows", 2);
  args.row_of = index_view_of(row_of, "row_of", 2);
  octet_moe_unpermute_problem problem;
  octet_init_moe_unpermute_problem(&problem);
  problem.dtype = args.grouped.dtype;
  problem.tokens = args.row_of.shape[0];
  problem.top_k = args.row_of.shape[1];
  problem.rows = args.grouped.shape[0];
  problem.cols = args.grouped.shape[1];
  problem.device = args.grouped.device;
  const CachedPlan plan = find_plan(problem, octet_make_moe_unpermute_forward_plan);
  Tensor out = empty({problem.tokens, problem.cols}, torch_dtype(problem.dtype), rows);
  args.out = view_of(out, "out");
  const Workspace workspace(plan.workspace_bytes, rows);
  check(octet_run_moe_unpermute_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                        current_stream(problem.device)));
  stack[0] = out.release();
}

// score, group_score, dtype: octet_route_score, octet_expert_group_score, octet_dtype.
constexpr Operator kOperators[] = {
    {"moe_route_forward(Tensor logits, Tensor? bias, int top_k, int score, int expert_groups, "
     "int top_groups, int group_score, bool normalize, float scale) "
     "-> (Tensor weights, Tensor indices, Tensor scores)",
     &boxed<moe_route_forward>},
    {"moe_route_backward(Tensor scores, Tensor indices, Tensor dweights, Tensor? dscores, "
     "int dtype, int top_k, int score, int expert_groups, int top_groups, int group_score, "
     "bool normalize, float scale) -> Tensor dlogits",
     &boxed<moe_route_backward>},
    {"moe_maps(Tensor indices, int experts) -> (Tensor row_of, Tensor source, Tensor sizes)",
     &boxed<moe_maps>},
    {"moe_gather(Tensor x, Tensor row_of, Tensor source) -> Tensor rows", &boxed<moe_gather>},
    {"moe_sum(Tensor rows, Tensor row_of, Tensor source) -> Tensor out", &boxed<moe_sum>},
};

}  // namespace

Operators moe_operators() { return kOperators; }

}  // namespace octet_torch
