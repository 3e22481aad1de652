#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kOp = "moe_route";
constexpr const char* kForward = "moe_route_forward";
constexpr const char* kBackward = "moe_route_backward";

static_assert(equal(OCTET_ROUTE_SOFTMAX, RouteScore::softmax));
static_assert(equal(OCTET_ROUTE_SIGMOID, RouteScore::sigmoid));
static_assert(equal(OCTET_EXPERT_GROUP_BEST, ExpertGroupScore::best));
static_assert(equal(OCTET_EXPERT_GROUP_BEST_TWO, ExpertGroupScore::best_two));
static_assert(OCTET_MAX_EXPERTS == kMaxExperts);
static_assert(OCTET_MAX_TOP_K == kMaxTopK);

MoeRouteProblem read_problem(const octet_moe_route_problem* given) {
  const auto c = read_struct(kOp, "problem", given);
  MoeRouteProblem problem;
  problem.tokens = c.tokens;
  problem.experts = c.experts;
  problem.top_k = c.top_k;
  problem.dtype = read_dtype(kOp, "logits", c.dtype);
  problem.score = static_cast<RouteScore>(c.score);
  problem.bias = read_flag(kOp, "bias", c.bias);
  problem.expert_groups = c.expert_groups;
  problem.top_groups = c.top_groups;
  problem.group_score = static_cast<ExpertGroupScore>(c.group_score);
  problem.normalize = read_flag(kOp, "normalize", c.normalize);
  problem.scale = c.scale;
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

MoeRouteForwardArgs read_forward(const MoeRouteProblem& problem,
                                 const octet_moe_route_forward_args* given) {
  const auto c = read_struct(kForward, "args", given);
  MoeRouteForwardArgs args;
  args.logits = read_tensor(kForward, "logits", c.logits);
  if (problem.bias) args.bias = read_tensor(kForward, "bias", c.bias);
  args.indices = read_tensor(kForward, "indices", c.indices);
  args.weights = read_tensor(kForward, "weights", c.weights);
  args.scores = read_tensor(kForward, "scores", c.scores);
  return args;
}

MoeRouteBackwardArgs read_backward(const MoeRouteProblem&,
                                   const octet_moe_route_backward_args* given) {
  const auto c = read_struct(kBackward, "args", given);
  MoeRouteBackwardArgs args;
  args.scores = read_tensor(kBackward, "scores", c.scores);
  args.indices = read_tensor(kBackward, "indices", c.indices);
  args.dweights = read_tensor(kBackward, "dweights", c.dweights);
  args.dscores = read_tensor(kBackward, "dscores", c.dscores);
  args.dlogits = read_tensor(kBackward, "dlogits", c.dlogits);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_moe_route_forward_plan(const octet_moe_route_problem* problem,
                                               const octet_plan_options* options,
                                               octet_plan** plan) {
  return plan_op(kOp, kForward, read_problem, octet::plan_moe_route_forward, problem, options,
                 plan);
}

octet_status octet_run_moe_route_forward(const octet_plan* plan,
                                         const octet_moe_route_forward_args* args, void* workspace,
                                         size_t workspace_bytes, void* stream) {
  return run_op<octet::MoeRouteForwardPlan>(kForward, read_forward, plan, args, workspace,
                                            workspace_bytes, stream);
}

octet_status octet_make_moe_route_backward_plan(const octet_moe_route_problem* problem,
                                                const octet_plan_options* options,
                                                octet_plan** plan) {
  return plan_op(kOp, kBackward, read_problem, octet::plan_moe_route_backward, problem, options,
                 plan);
}

octet_status octet_run_moe_route_backward(const octet_plan* plan,
                                          const octet_moe_route_backward_args* args,
                                          void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::MoeRouteBackwardPlan>(kBackward, read_backward, plan, args, workspace,
                                             workspace_bytes, stream);
}

}  // extern "C"
