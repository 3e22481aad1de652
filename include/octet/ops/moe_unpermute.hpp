// moe_unpermute: the rows of every token, from all of its experts, added up. The maps are those of
// moe_maps; moe_permute is the way there.
//
//   forward    out[t, :] = round(sum over k of weights[t, k] * grouped[row_of[t, k], :])
//   backward   dgrouped[r, :] = round(weights[source[r]] * dout[source[r] / top_k, :])
//              dweights[t, k] = sum(dout[t, :] * grouped[row_of[t, k], :]), or 0
//
// Without `weights` every weight is 1, and no tensor of weights is read or written.
//
// The sum over k begins with 0 and adds in the order of k, in f32: s = fma(weight, row, s), or
// s + row. It is rounded once; it is never -0. The sum over the columns is a balanced tree of
// neighbours over the f32 products, as in rms_norm. So all outputs are the same bits (a NaN is a
// NaN) on every device, instruction set and thread count, and no gradient needs an atomic addition.
//
// Slots without a row add nothing: a token without rows is zero. Rows of dgrouped behind the last
// expert, whose source is -1, are zeroed or left untouched. The maps are read as in moe_permute.
#pragma once

#include <octet/ops/group_table.hpp>
#include <octet/plan.hpp>
#include <octet/tensor.hpp>

#include <string>

namespace octet {

struct MoeUnpermuteProblem {
  std::int64_t tokens = 0;  // tokens * top_k is at most 2^30
  std::int64_t top_k = 0;
  std::int64_t rows = 0;  // of the buffers: 1 to 2^30
  std::int64_t cols = 0;
  Dtype dtype = Dtype::bf16;         // of grouped, out, dout, dgrouped: f32, f16 or bf16
  bool weights = false;              // the rows of a token are weighted
  GroupTail tail = GroupTail::zero;  // of dgrouped
  Device device{};
};

struct MoeUnpermuteForwardArgs {
  TensorView grouped;  // [rows, cols]
  TensorView weights;  // [tokens, top_k], f32; ignored without weights
  TensorView row_of;   // [tokens, top_k], i32
  TensorView out;      // [tokens, cols]
};

struct MoeUnpermuteBackwardArgs {
  TensorView dout;      // [tokens, cols]
  TensorView grouped;   // [rows, cols], as forward read it; ignored without weights
  TensorView weights;   // [tokens, top_k], f32; ignored without weights
  TensorView row_of;    // [tokens, top_k], i32
  TensorView source;    // [rows], i32
  TensorView dgrouped;  // [rows, cols]
  TensorView dweights;  // [tokens, top_k], f32; ignored without weights
};

using MoeUnpermuteForwardPlan = Plan<MoeUnpermuteProblem, ForwardPass>;
using MoeUnpermuteBackwardPlan = Plan<MoeUnpermuteProblem, BackwardPass>;

// "moe-unpermute --shape 8192x8x7168 --rows 65536 --dtype bf16 --weights --device cpu"
OCTET_API std::string describe(const MoeUnpermuteProblem& problem);
OCTET_API MoeUnpermuteForwardPlan plan_moe_unpermute_forward(const MoeUnpermuteProblem& problem,
                                                             const PlanOptions& = {});
OCTET_API MoeUnpermuteBackwardPlan plan_moe_unpermute_backward(const MoeUnpermuteProblem& problem,
                                                               const PlanOptions& = {});
OCTET_API void run(const MoeUnpermuteForwardPlan& plan, const MoeUnpermuteForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const MoeUnpermuteBackwardPlan& plan, const MoeUnpermuteBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
