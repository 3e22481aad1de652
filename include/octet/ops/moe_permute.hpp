// moe_permute: a copy of every token for each of its experts, the rows of one expert side by side.
// The maps are those of moe_maps; moe_unpermute brings the rows back.
//
//   forward    grouped[r, :] = x[source[r] / top_k, :]                  bytes are copied
//              row_weight[r] = weights[source[r]]
//   backward   dx[t, :] = round(sum over k of dgrouped[row_of[t, k], :])
//              dweights[t, k] = d_row_weight[row_of[t, k]], or 0
//
// `weights` is for an operator over the rows that applies them, such as a gated_activation with
// row_weight. Without it no tensor of weights is read or written.
//
// The sum over k begins with 0, adds in the order of k, in f32, and is rounded once; it is never
// -0. So all outputs are the same bits (a NaN is a NaN) on every device, instruction set and thread
// count, and the gradient needs no atomic addition.
//
// Rows behind the last expert, whose source is -1, are zeroed or left untouched, with their
// row_weight. Slots without a row add nothing: a token without rows has a gradient of zero. The two
// maps must agree, row_of[source[r]] = r, as those of moe_maps do. A source or row that is out of
// range counts as -1, and so does a source that row_of contradicts: nothing outside the tensors is
// touched. tokens may be 0.
#pragma once

#include <octet/ops/group_table.hpp>
#include <octet/plan.hpp>
#include <octet/tensor.hpp>

#include <string>

namespace octet {

struct MoePermuteProblem {
  std::int64_t tokens = 0;  // tokens * top_k is at most 2^30
  std::int64_t top_k = 0;
  std::int64_t rows = 0;  // of the buffers: 1 to 2^30
  std::int64_t cols = 0;
  Dtype dtype = Dtype::bf16;         // of x, grouped, dx, dgrouped: f32, f16 or bf16
  bool weights = false;              // row_weight is written
  GroupTail tail = GroupTail::zero;  // of grouped and row_weight
  Device device{};
};

struct MoePermuteForwardArgs {
  TensorView x;           // [tokens, cols], columns contiguous, as in all matrices
  TensorView weights;     // [tokens, top_k], f32; ignored without weights
  TensorView row_of;      // [tokens, top_k], i32
  TensorView source;      // [rows], i32
  TensorView grouped;     // [rows, cols]
  TensorView row_weight;  // [rows], f32; ignored without weights
};

struct MoePermuteBackwardArgs {
  TensorView dgrouped;      // [rows, cols]
  TensorView d_row_weight;  // [rows], f32; ignored without weights
  TensorView row_of;        // [tokens, top_k], i32
  TensorView dx;            // [tokens, cols]
  TensorView dweights;      // [tokens, top_k], f32; ignored without weights
};

using MoePermuteForwardPlan = Plan<MoePermuteProblem, ForwardPass>;
using MoePermuteBackwardPlan = Plan<MoePermuteProblem, BackwardPass>;

// "moe-permute --shape 8192x8x7168 --rows 65536 --dtype bf16 --device cpu"
OCTET_API std::string describe(const MoePermuteProblem& problem);
OCTET_API MoePermuteForwardPlan plan_moe_permute_forward(const MoePermuteProblem& problem,
                                                         const PlanOptions& = {});
OCTET_API MoePermuteBackwardPlan plan_moe_permute_backward(const MoePermuteProblem& problem,
                                                           const PlanOptions& = {});
OCTET_API void run(const MoePermuteForwardPlan& plan, const MoePermuteForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const MoePermuteBackwardPlan& plan, const MoePermuteBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
