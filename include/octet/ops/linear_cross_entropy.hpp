// linear_cross_entropy: the head of a language model and its loss, without a tensor of all logits.
//
//   logits[M, V] = x[M, K] w[V, K]^T                 rounded to dtype
//   lse[m]       = log(sum over v of exp(logits[m, v]))                                 f32
//   loss[m]      = lse[m] - logits[m, target[m]];  0 if target[m] == ignore_index       f32
//   mean divides the sum by the tokens that are not ignored; NaN if all are.
//   dlogits      = (exp(logits - lse) - onehot(target)) * g, rounded to dtype; 0 if ignored
//                  g: loss_grad, for mean divided by the same count
//   dx[M, K] = dlogits w;  dw[V, K] = dlogits^T x
//
// Tokens are taken in chunks. For sum and mean, forward computes the gradients too, in the same pass
// over the chunks: dlogits overwrite the logits of the chunk. For none, backward takes a gradient per
// token and computes the logits again; it takes the other reductions as well.
//
// `fp8`: products and casts of fp8_linear.hpp, dlogits in the place of dy. Otherwise products in
// dtype. With fp8, and on the CPU, the loss has the same bits whatever the chunks; so have the
// gradients as long as dw is one product (below). Plain products on a GPU are cuBLASLt's, whose sums
// depend on the size of a chunk.
//
// How dw is summed: with fp8, dlogits^T of up to 4 * K tokens stay in FP8 in the workspace (no more
// bytes than an f32 dw), and dw is one product of all of them. Plain products are one per chunk.
// Where there are several they are added up in f32: in dw if it is f32, else in the workspace.
//
// A target outside of [0, V) that is not ignore_index is refused on the CPU; on a GPU it makes the
// token's loss and gradients NaN, since nothing waits for the device.
// f16 gradients of a mean may underflow: scale the loss, with loss_grad.
#pragma once

#include <octet/ops/fp8_linear.hpp>

namespace octet {

enum class LossReduction : std::int32_t { none = 0, sum = 1, mean = 2 };

struct LinearCrossEntropyProblem {
  std::int64_t m = 0;                // tokens
  std::int64_t v = 0;                // words of the vocabulary
  std::int64_t k = 0;                // features
  Dtype dtype = Dtype::bf16;         // of x, w, logits and dx: bf16, f16 or f32
  Dtype target_dtype = Dtype::i64;   // i64 or i32
  std::int64_t ignore_index = -100;  // a target that is not counted
  LossReduction reduction = LossReduction::mean;
  bool fp8 = false;
  Dtype format = Dtype::e4m3;       // with fp8: of x and w
  Dtype grad_format = Dtype::e4m3;  // with fp8: of dlogits
  bool weights_quantized = false;   // with fp8: w is given as Fp8LinearWeights
  bool training = true;             // false: the loss only
  bool need_dx = true;
  bool need_dw = true;
  Dtype dw_dtype = Dtype::bf16;  // f32, f16 or bf16
  bool accumulate_dw = false;    // dw += into an f32 main gradient
  WgradBlocks wgrad_blocks = WgradBlocks::rows;
  float amax_floor = 0;
  bool pow2_scales = false;
  // Tokens of a chunk: a multiple of 128, or 0: as many as keep its logits within 512 MiB; with
  // plain products and a 16-bit dw all, where their logits are no larger than an f32 dw.
  std::int64_t max_chunk_rows = 0;
  std::int32_t max_multiprocessors = 0;  // of the products, as in GemmProblem
  Device device{};
};

struct LinearCrossEntropyForwardArgs {
  TensorView x;              // [M, K]
  TensorView w;              // [V, K]; ignored with weights_quantized
  Fp8LinearWeights weights;  // [V, K], [K, V]; ignored without weights_quantized
  TensorView targets;        // [M]
  TensorView loss_grad;      // [1] f32, multiplied into dx and dw; no data: 1
  TensorView loss;           // [1] f32, or [M] with LossReduction::none
  TensorView lse;            // [M] f32, 0 for ignored tokens; no data: not written
  // Gradients, with training and a reduction.
  TensorView dx;  // [M, K]; ignored if need_dx is false
  TensorView dw;  // [V, K]; ignored if need_dw is false
};

struct LinearCrossEntropyBackwardArgs {
  TensorView x;              // as in forward
  TensorView w;              // as in forward
  Fp8LinearWeights weights;  // as in forward
  TensorView targets;        // as in forward
  TensorView loss_grad;      // [M] f32 with LossReduction::none; else [1], or no data: 1
  TensorView lse;            // [M] f32, what forward wrote; no data: computed again
  TensorView dx;             // [M, K]; ignored if need_dx is false
  TensorView dw;             // [V, K]; ignored if need_dw is false
};

using LinearCrossEntropyForwardPlan = Plan<LinearCrossEntropyProblem, ForwardPass>;
using LinearCrossEntropyBackwardPlan = Plan<LinearCrossEntropyProblem, BackwardPass>;

// "linear-cross-entropy --shape 8192x128256x4096 --dtype fp8 --reduction mean --device cpu"
OCTET_API std::string describe(const LinearCrossEntropyProblem& problem);
OCTET_API LinearCrossEntropyForwardPlan plan_linear_cross_entropy_forward(
    const LinearCrossEntropyProblem& problem, const Fp8LinearOptions& = {});
OCTET_API LinearCrossEntropyBackwardPlan plan_linear_cross_entropy_backward(
    const LinearCrossEntropyProblem& problem, const Fp8LinearOptions& = {});
OCTET_API void run(const LinearCrossEntropyForwardPlan& plan,
                   const LinearCrossEntropyForwardArgs& args, Workspace workspace = {},
                   void* stream = nullptr);
OCTET_API void run(const LinearCrossEntropyBackwardPlan& plan,
                   const LinearCrossEntropyBackwardArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

}  // namespace octet
