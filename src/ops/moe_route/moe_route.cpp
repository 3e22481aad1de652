#include "core/call.hpp"
#include "core/message.hpp"
#include "ops/moe_route/problem.hpp"

#include <array>
#include <cmath>

namespace octet {
namespace {

constexpr std::string_view kOp = "moe_route";

std::string_view name(RouteScore score) {
  switch (score) {
    case RouteScore::softmax: return "softmax";
    case RouteScore::sigmoid: return "sigmoid";
  }
  return "unknown score";
}

std::string_view name(ExpertGroupScore score) {
  switch (score) {
    case ExpertGroupScore::best: return "best";
    case ExpertGroupScore::best_two: return "best_two";
  }
  return "unknown score";
}

// The matrices of a call.
struct Forms {
  TensorForm logits, scores, bias, indices, weights;

  explicit Forms(const MoeRouteProblem& problem)
      : logits(problem.dtype, {problem.tokens, problem.experts}, "[tokens, experts]"),
        scores(Dtype::f32, {problem.tokens, problem.experts}, "[tokens, experts]"),
        bias(Dtype::f32, {problem.experts}, "[experts]"),
        indices(Dtype::i32, {problem.tokens, problem.top_k}, "[tokens, top_k]"),
        weights(Dtype::f32, {problem.tokens, problem.top_k}, "[tokens, top_k]") {}
};

void check_groups(const MoeRouteProblem& problem) {
  const std::int64_t groups = problem.expert_groups;
  if (groups < 1 || groups > problem.experts || problem.experts % groups != 0) {
    refuse_argument(kOp, ": expert_groups must divide the ", problem.experts, " experts, got ",
                    groups);
  }
  if (problem.top_groups < 1 || problem.top_groups > groups) {
    refuse_argument(kOp, ": top_groups must be 1 to the ", groups, " expert_groups, got ",
                    problem.top_groups);
  }
  if (name(problem.group_score) == "unknown score") {
    refuse_argument(kOp, ": group_score must be best or best_two, got ",
                    static_cast<std::int32_t>(problem.group_score));
  }
  if (groups > 1 && groups == problem.experts &&
      problem.group_score == ExpertGroupScore::best_two) {
    refuse_argument(kOp, ": group_score best_two needs two experts per group, got ", groups,
                    " groups of 1; use best");
  }
}

void check_top_k(const MoeRouteProblem& problem) {
  if (problem.top_k < 1 || problem.top_k > kMaxTopK) {
    refuse_argument(kOp, ": top_k must be 1 to ", kMaxTopK, ", got ", problem.top_k);
  }
  if (problem.top_k > problem.experts) {
    refuse_argument(kOp, ": top_k must be at most the ", problem.experts, " experts, got ",
                    problem.top_k);
  }
  const std::int64_t group = problem.experts / problem.expert_groups;
  if (problem.top_k > problem.top_groups * group) {
    refuse_argument(kOp, ": top_k must be at most the ", problem.top_groups * group, " experts of ",
                    problem.top_groups, " groups, got ", problem.top_k);
  }
}

Request request_of(const MoeRouteProblem& problem, const PlanOptions& options) {
  return make_request(kOp, "other", describe(problem), options.backend);
}

}  // namespace

std::span<const MoeRouteForwardImplementation> moe_route_forward_implementations() {
  static const std::array list{kMoeRouteForwardCudaSm90Warps, kMoeRouteForwardCpuSimd,
                               kMoeRouteForwardCpuReference};
  return list;
}

std::span<const MoeRouteBackwardImplementation> moe_route_backward_implementations() {
  static const std::array list{kMoeRouteBackwardCudaSm90Warps, kMoeRouteBackwardCpuSimd,
                               kMoeRouteBackwardCpuReference};
  return list;
}

std::string describe(const MoeRouteProblem& problem) {
  std::string result =
      text("moe-route --shape ", problem.tokens, "x", problem.experts, " --top-k ", problem.top_k,
           " --dtype ", name(problem.dtype), " --score ", name(problem.score));
  if (problem.bias) result += " --bias";
  if (problem.expert_groups != 1) {
    result += text(" --expert-groups ", problem.expert_groups, " --top-groups ", problem.top_groups,
                   " --group-score ", name(problem.group_score));
  }
  if (!problem.normalize) result += " --no-normalize";
  if (problem.scale != 1) result += " --scale " + exact_text(problem.scale);
  return result + " --device " + name(problem.device);
}

void check(const MoeRouteProblem& problem) {
  check_count(kOp, "tokens", problem.tokens);
  if (problem.experts < 1 || problem.experts > kMaxExperts) {
    refuse_argument(kOp, ": experts must be 1 to ", kMaxExperts, ", got ", problem.experts);
  }
  check_groups(problem);
  check_top_k(problem);
  check_float({kOp, "dtype"}, problem.dtype);
  if (name(problem.score) == "unknown score") {
    refuse_argument(kOp, ": score must be softmax or sigmoid, got ",
                    static_cast<std::int32_t>(problem.score));
  }
  if (!std::isfinite(problem.scale) || problem.scale < 0) {
    refuse_argument(kOp, ": scale must be finite and at least 0, got ", problem.scale);
  }
  check_size(kOp, problem.tokens, problem.experts, Dtype::f32);
  check_device(kOp, problem.device);
}

MoeRouteForwardArgs check(const MoeRouteProblem& problem, MoeRouteForwardArgs args,
                          std::size_t workspace_bytes, const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  call.reads("logits", args.logits, forms.logits);
  call.reads_if(problem.bias, "bias", args.bias, forms.bias);
  call.writes("indices", args.indices, forms.indices);
  call.writes("weights", args.weights, forms.weights);
  if (args.scores.data != nullptr) call.writes("scores", args.scores, forms.scores);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

void check(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  call.reads("scores", args.scores, forms.scores);
  call.reads("indices", args.indices, forms.indices);
  call.reads("dweights", args.dweights, forms.weights);
  if (args.dscores.data != nullptr) call.reads("dscores", args.dscores, forms.scores);
  call.writes("dlogits", args.dlogits, forms.logits);
  call.check_apart(workspace_bytes, workspace);
}

MoeRouteForwardPlan plan_moe_route_forward(const MoeRouteProblem& problem,
                                           const PlanOptions& options) {
  check(problem);
  return make_plan<ForwardPass>(moe_route_forward_implementations(), problem,
                                request_of(problem, options), options);
}

MoeRouteBackwardPlan plan_moe_route_backward(const MoeRouteProblem& problem,
                                             const PlanOptions& options) {
  check(problem);
  return make_plan<BackwardPass>(moe_route_backward_implementations(), problem,
                                 request_of(problem, options), options);
}

void run(const MoeRouteForwardPlan& plan, const MoeRouteForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("moe_route_forward", plan.state.get());
  run_plan(plan, check(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

void run(const MoeRouteBackwardPlan& plan, const MoeRouteBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("moe_route_backward", plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
