// gated_mlp: h = act(x Wg^T) * (x Wu^T), and with `down` also y = h Wd^T: the feed-forward half of
// a layer in one call, in plain 16- or 32-bit products or in block-scaled FP8 (`fp8`).
//
//   forward    gate_up[M, 2F] = x[M, K] w_gate_up[2F, K]^T     one product for both
//              h[M, F]  = act(gate) * up                       gated_activation.hpp
//              y[M, K]  = h w_down[K, F]^T                     with down
//   backward   dh = dy w_down;  dw_down = dy^T h               with down
//              d_gate_up = the gradients of gate and up
//              dx[M, K] = d_gate_up w_gate_up;  dw_gate_up[2F, K] = d_gate_up^T x
//
// FP8 products, casts and wgrad_blocks are those of fp8_linear.hpp: blockwise, x, h, dy and d_gate_up
// are quantised 1x128 both ways, weights 128x128. The activation writes h, and its backward
// d_gate_up, as FP8 in one pass: no 16-bit h or d_gate_up is stored. The bits are those of the chain
// of single operators, which `unfused` runs.
// Blockwise layers have that one pass, and so have rowwise layers without weight gradients (in inference,
// or with frozen weights), forward and, on the CPU, backward. All others run the chain: the scale of a column or of a whole tensor is known
// only after the last row, and only the quantiser writes mx blocks.
// Without `down` the FP8 layer writes h in FP8 for the products that follow, and its backward takes
// dh in `dtype`.
#pragma once

#include <octet/ops/fp8_linear.hpp>
#include <octet/ops/gated_activation.hpp>

namespace octet {

struct GatedMlpProblem {
  std::int64_t m = 0;         // tokens
  std::int64_t f = 0;         // features between the products
  std::int64_t k = 0;         // features of x and y
  Dtype dtype = Dtype::bf16;  // of x, weights, gate_up, y and gradients: bf16, f16 or f32
  GateActivation activation = GateActivation::silu;
  bool down = false;
  bool fp8 = false;
  Dtype format = Dtype::e4m3;       // with fp8: of x, h and weights
  Dtype grad_format = Dtype::e4m3;  // with fp8: of dy and d_gate_up
  bool weights_quantized = false;   // with fp8: weights are given as GatedMlpWeights
  bool training = true;             // false: forward only, nothing is saved
  bool need_dx = true;
  bool need_dw = true;
  Dtype dw_dtype = Dtype::bf16;  // f32, f16 or bf16
  bool accumulate_dw = false;    // dw += into f32 or bf16 main gradients
  WgradBlocks wgrad_blocks = WgradBlocks::rows;
  float amax_floor = 0;
  bool pow2_scales = false;
  bool unfused = false;  // FP8 through 16-bit h and d_gate_up, for comparison: same bits
  std::int32_t max_multiprocessors = 0;  // of the products, as in GemmProblem
  Device device{};
  Granularity granularity = Granularity::blockwise;  // with fp8
  bool fast_accumulation = false;     // of tensorwise and rowwise products, as in GemmProblem
  MxScale mx_scale = MxScale::floor;  // of mxfp8
};

// Weights quantised ahead of time, as those of fp8_linear.
struct GatedMlpWeights {
  Fp8LinearWeights gate_up;  // [2F, K], [K, 2F]
  Fp8LinearWeights down;     // [K, F], [F, K]; ignored without down
};

// What forward saves for backward.
struct GatedMlpSaved {
  TensorView x;               // plain: the caller's x, which backward reads again
  TensorView gate_up;         // [M, 2F] of dtype
  QuantizedView x_t;          // fp8: [K, M] 1x128, or 128x128 with wgrad_blocks = square
  QuantizedView w_gate_up_t;  // fp8: [K, 2F] 128x128
  TensorView h;               // plain with down: [M, F]
  QuantizedView h_t;          // fp8 with down: [F, M], as x_t
  QuantizedView w_down_t;     // fp8 with down: [F, K] 128x128
  // With weights_quantized, backward takes the caller's own transposes as w_*_t.
};

// 0 bytes for a view that forward does not write.
struct GatedMlpSavedLayout {
  std::size_t gate_up_bytes = 0;  // dense [M, 2F]
  std::size_t h_bytes = 0;        // dense [M, F]
  QuantizedLayout x_t;            // for dw, like h and h_t
  QuantizedLayout w_gate_up_t;    // for dx; 0 bytes with weights_quantized; like w_down_t
  QuantizedLayout h_t;
  QuantizedLayout w_down_t;
};

struct GatedMlpForwardArgs {
  TensorView x;             // [M, K]
  TensorView w_gate_up;     // [2F, K]: Wg above Wu; ignored with weights_quantized
  TensorView w_down;        // [K, F]; ignored without down or with weights_quantized
  GatedMlpWeights weights;  // ignored without weights_quantized
  TensorView h;             // [M, F]; written by the plain layer without down
  // Written by the FP8 layer without down: [M, F] 1x128, and [F, M] as saved.x_t if a dw follows.
  Fp8Copies h_fp8;
  TensorView y;         // [M, K]; written with down
  GatedMlpSaved saved;  // written; ignored if training is false
};

struct GatedMlpBackwardArgs {
  TensorView dy;          // [M, K] with down; ignored without
  TensorView dh;          // [M, F] without down; ignored with
  TensorView w_gate_up;   // plain: the same as in forward
  TensorView w_down;      // plain with down: the same as in forward
  GatedMlpSaved saved;    // read
  TensorView dx;          // [M, K]; ignored if need_dx is false
  TensorView dw_gate_up;  // [2F, K]; ignored if need_dw is false
  TensorView dw_down;     // [K, F]; with down; ignored if need_dw is false
};

using GatedMlpForwardPlan = Plan<GatedMlpProblem, ForwardPass>;
using GatedMlpBackwardPlan = Plan<GatedMlpProblem, BackwardPass>;

// Launches and bytes moved by a plan: every tensor of every launch counts once, one that is
// accumulated into counts twice; values and scales without their padding.
struct GatedMlpCost {
  std::int64_t launches = 0;
  std::int64_t bytes = 0;
};

// "gated-mlp --shape 8192x14336x4096 --dtype fp8 --down --activation silu --device cpu"
OCTET_API std::string describe(const GatedMlpProblem& problem);
OCTET_API GatedMlpSavedLayout gated_mlp_saved_layout(const GatedMlpProblem& problem);
OCTET_API GatedMlpCost cost(const GatedMlpForwardPlan& plan);
OCTET_API GatedMlpCost cost(const GatedMlpBackwardPlan& plan);
OCTET_API GatedMlpForwardPlan plan_gated_mlp_forward(const GatedMlpProblem& problem,
                                                     const Fp8LinearOptions& = {});
OCTET_API GatedMlpBackwardPlan plan_gated_mlp_backward(const GatedMlpProblem& problem,
                                                       const Fp8LinearOptions& = {});
OCTET_API void run(const GatedMlpForwardPlan& plan, const GatedMlpForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const GatedMlpBackwardPlan& plan, const GatedMlpBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

// The convenience layer, FP8 with down, for training: plans, workspace and saved state in one
// object, as Fp8Linear.
class OCTET_API Fp8Mlp {
 public:
  explicit Fp8Mlp(const GatedMlpProblem& problem, const Fp8LinearOptions& options = {},
                  const Allocator& allocator = {});

  void forward(const TensorView& x, const TensorView& w_gate_up, const TensorView& w_down,
               const TensorView& y, void* stream = nullptr);
  void backward(const TensorView& dy, const TensorView& dx, const TensorView& dw_gate_up,
                const TensorView& dw_down, void* stream = nullptr);

  const GatedMlpForwardPlan& forward_plan() const { return forward_; }
  const GatedMlpBackwardPlan& backward_plan() const { return backward_; }
  // Views of what the last forward saved.
  GatedMlpSaved saved() const;

 private:
  GatedMlpForwardPlan forward_;
  GatedMlpBackwardPlan backward_;
  Tensor gate_up_;
  QuantizedTensor x_t_;
  QuantizedTensor w_gate_up_t_;
  QuantizedTensor h_t_;
  QuantizedTensor w_down_t_;
  Buffer workspace_;
  bool has_saved_ = false;
};

}  // namespace octet
