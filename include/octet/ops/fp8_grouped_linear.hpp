// fp8_grouped_linear: the block-scaled FP8 linear layers of groups of rows, such as the experts of a
// mixture, forward and backward. Row t belongs to group g of the group table; each group is
// fp8_linear on its rows alone, in every bit, and nothing is padded by the caller.
//
//   forward          y[t]  = x[t] w_g^T          x 1x128 along K         w [groups, N, K], 128x128
//   data gradient    dx[t] = dy[t] w_g           dy 1x128 along N        w^T, the same bytes
//   weight gradient  dw_g  = dy_g^T x_g          dy^T, x^T in token blocks of 1x128
//
// wgrad_blocks = square quantises x^T in 128x128 blocks. Casts and products are those of
// quantize.hpp (groups for x and dy, a batch for w) and grouped_gemm.hpp.
//
// An empty group gets dw_g = 0, or keeps it with accumulate_dw. Rows of y and dx behind the last
// group become zeros, or stay as they are with tail = untouched.
#pragma once

#include <octet/ops/fp8_linear.hpp>
#include <octet/ops/group_table.hpp>

namespace octet {

struct Fp8GroupedLinearProblem {
  std::int64_t groups = 0;          // 1 to 1024
  std::int64_t rows = 0;            // T, of the buffers: 1 to 2^30
  std::int64_t n = 0;               // output features
  std::int64_t k = 0;               // input features
  Dtype dtype = Dtype::bf16;        // of x, w, y, dy and dx: bf16, f16 or f32
  Dtype format = Dtype::e4m3;       // of x and w
  Dtype grad_format = Dtype::e4m3;  // of dy
  bool weights_quantized = false;   // w is given as Fp8GroupedLinearWeights instead of `dtype`
  bool training = true;             // false: forward only, nothing is saved
  bool need_dx = true;
  bool need_dw = true;
  Dtype dw_dtype = Dtype::bf16;  // f32, f16 or bf16
  bool accumulate_dw = false;    // dw += into an f32 or bf16 main gradient
  WgradBlocks wgrad_blocks = WgradBlocks::rows;
  float amax_floor = 0;
  bool pow2_scales = false;
  GroupTail tail = GroupTail::zero;      // of y and dx
  std::int64_t expected_rows = 0;        // as in GroupedGemmProblem
  std::int32_t max_multiprocessors = 0;  // of the products, as in GroupedGemmProblem
  Device device{};
};

// Weights quantised ahead of time, with quantize: batch, block = transposed_block = 128x128.
struct Fp8GroupedLinearWeights {
  QuantizedView w;    // [groups, N, K] 128x128
  QuantizedView w_t;  // [groups, K, N] 128x128
};

struct Fp8GroupedLinearWeightsLayout {
  QuantizedBatchLayout w;
  QuantizedBatchLayout w_t;
};

// What forward saves for backward.
struct Fp8GroupedLinearSaved {
  // Token blocks [max_token_blocks(groups, rows), K, 128], 1x128 or, with square, 128x128.
  QuantizedView x_t;
  QuantizedView w_t;  // [groups, K, N] 128x128; the caller's own w_t with weights_quantized
};

struct Fp8GroupedLinearSavedLayout {
  QuantizedBatchLayout x_t;  // bytes == 0 if need_dw is false
  QuantizedBatchLayout w_t;  // bytes == 0 with weights_quantized or if need_dx is false
};

struct Fp8GroupedLinearForwardArgs {
  TensorView x;                     // [T, K]
  TensorView w;                     // [groups, N, K]; ignored with weights_quantized
  Fp8GroupedLinearWeights weights;  // ignored without weights_quantized
  TensorView y;                     // [T, N]
  Fp8GroupedLinearSaved saved;      // written; ignored if training is false
  TensorView table;                 // of the groups and T rows, made by group_table
};

struct Fp8GroupedLinearBackwardArgs {
  TensorView dy;                // [T, N]
  Fp8GroupedLinearSaved saved;  // read
  TensorView dx;                // [T, K]; ignored if need_dx is false
  TensorView dw;                // [groups, N, K]; ignored if need_dw is false
  TensorView table;             // the one that forward had
};

using Fp8GroupedLinearForwardPlan = Plan<Fp8GroupedLinearProblem, ForwardPass>;
using Fp8GroupedLinearBackwardPlan = Plan<Fp8GroupedLinearProblem, BackwardPass>;

// "grouped-gemm --dtype fp8 --groups 8 --shape 4096x1024x768 ..."; the shape is TxNxK.
OCTET_API std::string describe(const Fp8GroupedLinearProblem& problem);
OCTET_API Fp8GroupedLinearSavedLayout
fp8_grouped_linear_saved_layout(const Fp8GroupedLinearProblem& problem);
OCTET_API Fp8GroupedLinearWeightsLayout
fp8_grouped_linear_weights_layout(const Fp8GroupedLinearProblem& problem);
// gemm_backend of the options is that of grouped_gemm.
OCTET_API Fp8GroupedLinearForwardPlan plan_fp8_grouped_linear_forward(
    const Fp8GroupedLinearProblem& problem, const Fp8LinearOptions& = {});
OCTET_API Fp8GroupedLinearBackwardPlan plan_fp8_grouped_linear_backward(
    const Fp8GroupedLinearProblem& problem, const Fp8LinearOptions& = {});
OCTET_API void run(const Fp8GroupedLinearForwardPlan& plan, const Fp8GroupedLinearForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const Fp8GroupedLinearBackwardPlan& plan,
                   const Fp8GroupedLinearBackwardArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

// The convenience layer, for training: plans, workspace and saved state in one object, for one
// caller at a time. backward() is the gradient of the last forward(), and must run after it: on the
// same stream, or on one that waits for it. Neither allocates or waits, so both can be captured in
// a CUDA graph.
class OCTET_API Fp8GroupedLinear {
 public:
  explicit Fp8GroupedLinear(const Fp8GroupedLinearProblem& problem,
                            const Fp8LinearOptions& options = {}, const Allocator& allocator = {});

  void forward(const TensorView& x, const TensorView& w, const TensorView& table,
               const TensorView& y, void* stream = nullptr);
  void backward(const TensorView& dy, const TensorView& table, const TensorView& dx,
                const TensorView& dw, void* stream = nullptr);

  const Fp8GroupedLinearForwardPlan& forward_plan() const { return forward_; }
  const Fp8GroupedLinearBackwardPlan& backward_plan() const { return backward_; }
  // Views of what the last forward saved.
  Fp8GroupedLinearSaved saved() const { return {x_t_.view(), w_t_.view()}; }

 private:
  Fp8GroupedLinearForwardPlan forward_;
  Fp8GroupedLinearBackwardPlan backward_;
  QuantizedTensor x_t_;
  QuantizedTensor w_t_;
  Buffer workspace_;
  bool has_saved_ = false;
};

}  // namespace octet
