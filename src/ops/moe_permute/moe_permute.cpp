#include "ops/moe_permute/problem.hpp"

#include "core/call.hpp"

namespace octet {
namespace {

constexpr std::string_view kOp = "moe_permute";

Request request_of(const MoePermuteProblem& problem, const PlanOptions& options) {
  return make_request(kOp, "other", describe(problem), options.backend);
}

// One number per row or slot: row_weight[r] = weights[slot], and back.
void spread_weights(const SlotMaps& maps, const TensorView& weights, GroupTail tail,
                    const TensorView& row_weight) {
  const auto* from = static_cast<const float*>(weights.data);
  auto* to = static_cast<float*>(row_weight.data);
  for (std::int64_t row = 0; row < maps.rows(); ++row) {
    const std::int64_t slot = maps.slot(row);
    if (slot >= 0) {
      to[row] = from[slot / maps.top_k() * weights.strides[0] + slot % maps.top_k()];
    } else if (tail == GroupTail::zero) {
      to[row] = 0;
    }
  }
}

void gather_weights(const SlotMaps& maps, const TensorView& d_row_weight,
                    const TensorView& dweights) {
  const auto* from = static_cast<const float*>(d_row_weight.data);
  auto* to = static_cast<float*>(dweights.data);
  for (std::int64_t token = 0; token < maps.tokens(); ++token) {
    for (std::int64_t k = 0; k < maps.top_k(); ++k) {
      const std::int64_t row = maps.row(token, k);
      to[token * dweights.strides[0] + k] = row >= 0 ? from[row] : 0;
    }
  }
}

}  // namespace

std::span<const MoePermuteForwardImplementation> moe_permute_forward_implementations() {
  static const auto list = rows_implementations<MoePermuteProblem, MoePermuteForwardArgs>();
  return list;
}

std::span<const MoePermuteBackwardImplementation> moe_permute_backward_implementations() {
  static const auto list = rows_implementations<MoePermuteProblem, MoePermuteBackwardArgs>();
  return list;
}

std::string describe(const MoePermuteProblem& problem) {
  return describe_rows("moe-permute", problem);
}

void check(const MoePermuteProblem& problem) { check_rows(kOp, problem); }

MoePermuteForwardArgs check(const MoePermuteProblem& problem, MoePermuteForwardArgs args,
                            std::size_t workspace_bytes, const Workspace& workspace) {
  const RowForms forms(problem);
  Call call(kOp, problem.device);
  call.reads("x", args.x, forms.tokens);
  call.reads_if(problem.weights, "weights", args.weights, forms.weights);
  call.reads("row_of", args.row_of, forms.row_of);
  call.reads("source", args.source, forms.source);
  call.writes("grouped", args.grouped, forms.grouped);
  call.writes_if(problem.weights, "row_weight", args.row_weight, forms.row_weight);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

MoePermuteBackwardArgs check(const MoePermuteProblem& problem, MoePermuteBackwardArgs args,
                             std::size_t workspace_bytes, const Workspace& workspace) {
  const RowForms forms(problem);
  Call call(kOp, problem.device);
  call.reads("dgrouped", args.dgrouped, forms.grouped);
  call.reads_if(problem.weights, "d_row_weight", args.d_row_weight, forms.row_weight);
  call.reads("row_of", args.row_of, forms.row_of);
  call.writes("dx", args.dx, forms.tokens);
  call.writes_if(problem.weights, "dweights", args.dweights, forms.weights);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

void run_pass(const MoePermuteProblem& problem, const MoePermuteForwardArgs& args,
              const RowSteps& steps) {
  const SlotMaps maps(problem, args.row_of, args.source);
  steps.spread(maps, {args.x, {}, args.grouped, problem.tail});
  if (problem.weights) spread_weights(maps, args.weights, problem.tail, args.row_weight);
}

void run_pass(const MoePermuteProblem& problem, const MoePermuteBackwardArgs& args,
              const RowSteps& steps) {
  const SlotMaps maps(problem, args.row_of);
  steps.sum(maps, {args.dgrouped, {}, args.dx});
  if (problem.weights) gather_weights(maps, args.d_row_weight, args.dweights);
}

void launch_sm90(const MoePermuteProblem& problem, const MoePermuteForwardArgs& args,
                 const RunContext& context) {
  launch_sm90_copy_rows({problem, args.row_of, args.source, context}, args.x, args.grouped,
                        {args.weights, args.row_weight});
}

void launch_sm90(const MoePermuteProblem& problem, const MoePermuteBackwardArgs& args,
                 const RunContext& context) {
  launch_sm90_sum_rows({problem, args.row_of, {}, context}, {args.dgrouped, {}, args.dx},
                       {args.dweights, args.d_row_weight});
}

MoePermuteForwardPlan plan_moe_permute_forward(const MoePermuteProblem& problem,
                                               const PlanOptions& options) {
  check(problem);
  return make_plan<ForwardPass>(moe_permute_forward_implementations(), problem,
                                request_of(problem, options), options);
}

MoePermuteBackwardPlan plan_moe_permute_backward(const MoePermuteProblem& problem,
                                                 const PlanOptions& options) {
  check(problem);
  return make_plan<BackwardPass>(moe_permute_backward_implementations(), problem,
                                 request_of(problem, options), options);
}

void run(const MoePermuteForwardPlan& plan, const MoePermuteForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("moe_permute_forward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

void run(const MoePermuteBackwardPlan& plan, const MoePermuteBackwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("moe_permute_backward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

}  // namespace octet
