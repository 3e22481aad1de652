// moe_permute and moe_unpermute.
#include "c_api/plan.hpp"

namespace octet::c_api {
namespace {

constexpr const char* kPermute = "moe_permute";
constexpr const char* kPermuteForward = "moe_permute_forward";
constexpr const char* kPermuteBackward = "moe_permute_backward";
constexpr const char* kUnpermute = "moe_unpermute";
constexpr const char* kUnpermuteForward = "moe_unpermute_forward";
constexpr const char* kUnpermuteBackward = "moe_unpermute_backward";

template <class Problem, class CProblem>
Problem read_fields(const char* op, const CProblem* given) {
  const auto c = read_struct(op, "problem", given);
  Problem problem;
  problem.tokens = c.tokens;
  problem.top_k = c.top_k;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.dtype = read_dtype(op, "grouped", c.dtype);
  problem.weights = read_flag(op, "weights", c.weights);
  problem.tail = static_cast<GroupTail>(c.tail);
  problem.device = read_device(op, "problem", c.device);
  return problem;
}

MoePermuteProblem read_permute(const octet_moe_permute_problem* given) {
  return read_fields<MoePermuteProblem>(kPermute, given);
}
MoeUnpermuteProblem read_unpermute(const octet_moe_unpermute_problem* given) {
  return read_fields<MoeUnpermuteProblem>(kUnpermute, given);
}

MoePermuteForwardArgs read_permute_forward(const MoePermuteProblem& problem,
                                           const octet_moe_permute_forward_args* given) {
  const auto c = read_struct(kPermuteForward, "args", given);
  MoePermuteForwardArgs args;
  args.x = read_tensor(kPermuteForward, "x", c.x);
  if (problem.weights) args.weights = read_tensor(kPermuteForward, "weights", c.weights);
  args.row_of = read_tensor(kPermuteForward, "row_of", c.row_of);
  args.source = read_tensor(kPermuteForward, "source", c.source);
  args.grouped = read_tensor(kPermuteForward, "grouped", c.grouped);
  if (problem.weights) args.row_weight = read_tensor(kPermuteForward, "row_weight", c.row_weight);
  return args;
}

MoePermuteBackwardArgs read_permute_backward(const MoePermuteProblem& problem,
                                             const octet_moe_permute_backward_args* given) {
  const auto c = read_struct(kPermuteBackward, "args", given);
  MoePermuteBackwardArgs args;
  args.dgrouped = read_tensor(kPermuteBackward, "dgrouped", c.dgrouped);
  args.row_of = read_tensor(kPermuteBackward, "row_of", c.row_of);
  args.dx = read_tensor(kPermuteBackward, "dx", c.dx);
  if (!problem.weights) return args;
  args.d_row_weight = read_tensor(kPermuteBackward, "d_row_weight", c.d_row_weight);
  args.dweights = read_tensor(kPermuteBackward, "dweights", c.dweights);
  return args;
}

MoeUnpermuteForwardArgs read_unpermute_forward(const MoeUnpermuteProblem& problem,
                                               const octet_moe_unpermute_forward_args* given) {
  const auto c = read_struct(kUnpermuteForward, "args", given);
  MoeUnpermuteForwardArgs args;
  args.grouped = read_tensor(kUnpermuteForward, "grouped", c.grouped);
  if (problem.weights) args.weights = read_tensor(kUnpermuteForward, "weights", c.weights);
  args.row_of = read_tensor(kUnpermuteForward, "row_of", c.row_of);
  args.out = read_tensor(kUnpermuteForward, "out", c.out);
  return args;
}

MoeUnpermuteBackwardArgs read_unpermute_backward(const MoeUnpermuteProblem& problem,
                                                 const octet_moe_unpermute_backward_args* given) {
  const auto c = read_struct(kUnpermuteBackward, "args", given);
  MoeUnpermuteBackwardArgs args;
  args.dout = read_tensor(kUnpermuteBackward, "dout", c.dout);
  args.row_of = read_tensor(kUnpermuteBackward, "row_of", c.row_of);
  args.source = read_tensor(kUnpermuteBackward, "source", c.source);
  args.dgrouped = read_tensor(kUnpermuteBackward, "dgrouped", c.dgrouped);
  if (!problem.weights) return args;
  args.grouped = read_tensor(kUnpermuteBackward, "grouped", c.grouped);
  args.weights = read_tensor(kUnpermuteBackward, "weights", c.weights);
  args.dweights = read_tensor(kUnpermuteBackward, "dweights", c.dweights);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_moe_permute_forward_plan(const octet_moe_permute_problem* problem,
                                                 const octet_plan_options* options,
                                                 octet_plan** plan) {
  return plan_op(kPermute, kPermuteForward, read_permute, octet::plan_moe_permute_forward, problem,
                 options, plan);
}

octet_status octet_run_moe_permute_forward(const octet_plan* plan,
                                           const octet_moe_permute_forward_args* args,
                                           void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::MoePermuteForwardPlan>(kPermuteForward, read_permute_forward, plan, args,
                                              workspace, workspace_bytes, stream);
}

octet_status octet_make_moe_permute_backward_plan(const octet_moe_permute_problem* problem,
                                                  const octet_plan_options* options,
                                                  octet_plan** plan) {
  return plan_op(kPermute, kPermuteBackward, read_permute, octet::plan_moe_permute_backward,
                 problem, options, plan);
}

octet_status octet_run_moe_permute_backward(const octet_plan* plan,
                                            const octet_moe_permute_backward_args* args,
                                            void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::MoePermuteBackwardPlan>(kPermuteBackward, read_permute_backward, plan, args,
                                               workspace, workspace_bytes, stream);
}

octet_status octet_make_moe_unpermute_forward_plan(const octet_moe_unpermute_problem* problem,
                                                   const octet_plan_options* options,
                                                   octet_plan** plan) {
  return plan_op(kUnpermute, kUnpermuteForward, read_unpermute, octet::plan_moe_unpermute_forward,
                 problem, options, plan);
}

octet_status octet_run_moe_unpermute_forward(const octet_plan* plan,
                                             const octet_moe_unpermute_forward_args* args,
                                             void* workspace, size_t workspace_bytes,
                                             void* stream) {
  return run_op<octet::MoeUnpermuteForwardPlan>(kUnpermuteForward, read_unpermute_forward, plan,
                                                args, workspace, workspace_bytes, stream);
}

octet_status octet_make_moe_unpermute_backward_plan(const octet_moe_unpermute_problem* problem,
                                                    const octet_plan_options* options,
                                                    octet_plan** plan) {
  return plan_op(kUnpermute, kUnpermuteBackward, read_unpermute, octet::plan_moe_unpermute_backward,
                 problem, options, plan);
}

octet_status octet_run_moe_unpermute_backward(const octet_plan* plan,
                                              const octet_moe_unpermute_backward_args* args,
                                              void* workspace, size_t workspace_bytes,
                                              void* stream) {
  return run_op<octet::MoeUnpermuteBackwardPlan>(kUnpermuteBackward, read_unpermute_backward, plan,
                                                 args, workspace, workspace_bytes, stream);
}

}  // extern "C"
