#include "ops/moe_unpermute/problem.hpp"

#include "core/call.hpp"

namespace octet {
namespace {

constexpr std::string_view kOp = "moe_unpermute";

Request request_of(const MoeUnpermuteProblem& problem, const PlanOptions& options) {
  return make_request(kOp, "other", describe(problem), options.backend);
}

}  // namespace

std::span<const MoeUnpermuteForwardImplementation> moe_unpermute_forward_implementations() {
  static const auto list = rows_implementations<MoeUnpermuteProblem, MoeUnpermuteForwardArgs>();
  return list;
}

std::span<const MoeUnpermuteBackwardImplementation> moe_unpermute_backward_implementations() {
  static const auto list = rows_implementations<MoeUnpermuteProblem, MoeUnpermuteBackwardArgs>();
  return list;
}

std::string describe(const MoeUnpermuteProblem& problem) {
  return describe_rows("moe-unpermute", problem);
}

void check(const MoeUnpermuteProblem& problem) { check_rows(kOp, problem); }

MoeUnpermuteForwardArgs check(const MoeUnpermuteProblem& problem, MoeUnpermuteForwardArgs args,
                              std::size_t workspace_bytes, const Workspace& workspace) {
  const RowForms forms(problem);
  Call call(kOp, problem.device);
  call.reads("grouped", args.grouped, forms.grouped);
  call.reads_if(problem.weights, "weights", args.weights, forms.weights);
  call.reads("row_of", args.row_of, forms.row_of);
  call.writes("out", args.out, forms.tokens);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

MoeUnpermuteBackwardArgs check(const MoeUnpermuteProblem& problem, MoeUnpermuteBackwardArgs args,
                               std::size_t workspace_bytes, const Workspace& workspace) {
  const RowForms forms(problem);
  Call call(kOp, problem.device);
  call.reads("dout", args.dout, forms.tokens);
  call.reads_if(problem.weights, "grouped", args.grouped, forms.grouped);
  call.reads_if(problem.weights, "weights", args.weights, forms.weights);
  call.reads("row_of", args.row_of, forms.row_of);
  call.reads("source", args.source, forms.source);
  call.writes("dgrouped", args.dgrouped, forms.grouped);
  call.writes_if(problem.weights, "dweights", args.dweights, forms.weights);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

void run_pass(const MoeUnpermuteProblem& problem, const MoeUnpermuteForwardArgs& args,
              const RowSteps& steps) {
  steps.sum(SlotMaps(problem, args.row_of), {args.grouped, args.weights, args.out});
}

void run_pass(const MoeUnpermuteProblem& problem, const MoeUnpermuteBackwardArgs& args,
              const RowSteps& steps) {
  const SlotMaps maps(problem, args.row_of, args.source);
  steps.spread(maps, {args.dout, args.weights, args.dgrouped, problem.tail});
  if (problem.weights) steps.dot(maps, {args.dout, args.grouped, args.dweights});
}

void launch_sm90(const MoeUnpermuteProblem& problem, const MoeUnpermuteForwardArgs& args,
                 const RunContext& context) {
  launch_sm90_sum_rows({problem, args.row_of, {}, context}, {args.grouped, args.weights, args.out},
                       {});
}

void launch_sm90(const MoeUnpermuteProblem& problem, const MoeUnpermuteBackwardArgs& args,
                 const RunContext& context) {
  const RowsCall call(problem, args.row_of, args.source, context);
  if (!problem.weights) return launch_sm90_copy_rows(call, args.dout, args.dgrouped, {});
  launch_sm90_scale_rows(call, {args.dout, args.weights, args.dgrouped, problem.tail},
                         {args.dout, args.grouped, args.dweights});
}

MoeUnpermuteForwardPlan plan_moe_unpermute_forward(const MoeUnpermuteProblem& problem,
                                                   const PlanOptions& options) {
  check(problem);
  return make_plan<ForwardPass>(moe_unpermute_forward_implementations(), problem,
                                request_of(problem, options), options);
}

MoeUnpermuteBackwardPlan plan_moe_unpermute_backward(const MoeUnpermuteProblem& problem,
                                                     const PlanOptions& options) {
  check(problem);
  return make_plan<BackwardPass>(moe_unpermute_backward_implementations(), problem,
                                 request_of(problem, options), options);
}

void run(const MoeUnpermuteForwardPlan& plan, const MoeUnpermuteForwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("moe_unpermute_forward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

void run(const MoeUnpermuteBackwardPlan& plan, const MoeUnpermuteBackwardArgs& args,
         Workspace workspace, void* stream) {
  check_plan("moe_unpermute_backward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

}  // namespace octet
