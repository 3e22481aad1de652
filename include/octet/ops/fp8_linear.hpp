// fp8_linear: the FP8 linear layer, forward and backward.
//
//   forward          y[M, N]  = x[M, K] w[N, K]^T     x 1x128 along K       w 128x128
//                    or that + bias[N], added in f32 before y is rounded
//   data gradient    dx[M, K] = dy[M, N] w[N, K]      dy 1x128 along N      w^T, the same bytes
//   weight gradient  dw[N, K] = dy^T[N, M] x[M, K]    dy^T 1x128 along M    x^T 1x128 along M
//   bias gradient    dbias[N] = sum over M of dy      dy as given, f32 sums in a fixed order
//
// x and dy are quantised twice from one read; w is quantised once and stored twice. Products and
// casts are bit-identical to those of gemm.hpp and quantize.hpp.
// wgrad_blocks = square quantises x^T in 128x128 blocks instead, so that the weight gradient is a
// 1x128 . 128x128 product too.
//
// These are the blocks of granularity = blockwise. The others:
//
//   tensorwise  allxall everywhere: one scale per tensor, which both of its copies have
//   rowwise     1xall everywhere: every operand has a scale per row of its own orientation, so w and
//               w^T differ in their bytes, too. Both come from the original values.
//   mxfp8       1x32 and 32x32 mx blocks with power-of-two scales, folded to 1x128 and 128x128
//               (fold_mx of quantize.hpp): the layouts and products of blockwise
//
// Forward saves what backward needs in Fp8LinearSaved: views the caller allocates, in the layouts
// below.
#pragma once

#include <octet/ops/quantize.hpp>
#include <octet/plan.hpp>
#include <octet/quantized.hpp>

#include <string_view>

namespace octet {

// How the scales of a layer are shared.
enum class Granularity : std::int32_t { blockwise = 0, tensorwise = 1, rowwise = 2, mxfp8 = 3 };

OCTET_API std::string_view name(Granularity granularity);
OCTET_API std::optional<Granularity> parse_granularity(std::string_view text);

enum class WgradBlocks : std::int32_t { rows = 1, square = 2 };  // 1x128 ("1d"), 128x128 ("2d")

struct Fp8LinearProblem {
  std::int64_t m = 0;               // tokens
  std::int64_t n = 0;               // output features
  std::int64_t k = 0;               // input features
  Dtype dtype = Dtype::bf16;        // of x, w, y, dy and dx: bf16, f16 or f32
  Dtype format = Dtype::e4m3;       // of x and w
  Dtype grad_format = Dtype::e4m3;  // of dy
  bool weights_quantized = false;   // w is given as Fp8LinearWeights instead of `dtype`
  bool training = true;             // false: forward only, nothing is saved
  bool need_dx = true;
  bool need_dw = true;
  Dtype dw_dtype = Dtype::bf16;  // f32, f16 or bf16
  bool accumulate_dw = false;    // dw and dbias += into an f32 or bf16 main gradient
  WgradBlocks wgrad_blocks = WgradBlocks::rows;  // of blockwise and mxfp8
  float amax_floor = 0;                          // not of mxfp8, like pow2_scales
  bool pow2_scales = false;
  std::int32_t max_multiprocessors = 0;  // of the products, as in GemmProblem
  Device device{};
  std::optional<Dtype> bias_dtype{};   // of bias: f32 or dtype; empty: y has no bias
  std::optional<Dtype> dbias_dtype{};  // f32, f16 or bf16; empty: backward computes no dbias
  Granularity granularity = Granularity::blockwise;
  bool fast_accumulation = false;     // of tensorwise and rowwise products, as in GemmProblem
  MxScale mx_scale = MxScale::floor;  // of mxfp8
};

// Weights quantised ahead of time, with quantize: block = transposed_block = 128x128, with fold_mx
// for mxfp8; allxall for tensorwise and 1xall for rowwise.
struct Fp8LinearWeights {
  QuantizedView w;    // [N, K]
  QuantizedView w_t;  // [K, N]
};

struct Fp8LinearWeightsLayout {
  QuantizedLayout w;
  QuantizedLayout w_t;
};

// What forward saves for backward.
struct Fp8LinearSaved {
  QuantizedView x_t;  // [K, M] 1x128, or 128x128 with wgrad_blocks = square; allxall; 1xall
  QuantizedView w_t;  // [K, N], as in Fp8LinearWeights; the caller's own with weights_quantized
};

struct Fp8LinearSavedLayout {
  QuantizedLayout x_t;  // bytes == 0 if need_dw is false
  QuantizedLayout w_t;  // bytes == 0 with weights_quantized or if need_dx is false
};

struct Fp8LinearForwardArgs {
  TensorView x;              // [M, K]
  TensorView w;              // [N, K]; ignored with weights_quantized
  Fp8LinearWeights weights;  // ignored without weights_quantized
  TensorView y;              // [M, N]
  Fp8LinearSaved saved;      // written; ignored if training is false
  TensorView bias{};         // [N]; given exactly if the problem has a bias_dtype
};

struct Fp8LinearBackwardArgs {
  TensorView dy;         // [M, N]
  Fp8LinearSaved saved;  // read
  TensorView dx;         // [M, K]; ignored if need_dx is false
  TensorView dw;         // [N, K]; ignored if need_dw is false
  TensorView dbias{};    // [N]; ignored if the problem has no dbias_dtype
};

using Fp8LinearForwardPlan = Plan<Fp8LinearProblem, ForwardPass>;
using Fp8LinearBackwardPlan = Plan<Fp8LinearProblem, BackwardPass>;

// Implementations may be forced per operator, as with the environment variables.
struct Fp8LinearOptions {
  std::string gemm_backend{};
  std::string quantize_backend{};
  int threads = 0;
};

OCTET_API std::string describe(const Fp8LinearProblem& problem);
OCTET_API Fp8LinearSavedLayout fp8_linear_saved_layout(const Fp8LinearProblem& problem);
OCTET_API Fp8LinearWeightsLayout fp8_linear_weights_layout(const Fp8LinearProblem& problem);
OCTET_API Fp8LinearForwardPlan plan_fp8_linear_forward(const Fp8LinearProblem& problem,
                                                       const Fp8LinearOptions& = {});
OCTET_API Fp8LinearBackwardPlan plan_fp8_linear_backward(const Fp8LinearProblem& problem,
                                                         const Fp8LinearOptions& = {});
OCTET_API void run(const Fp8LinearForwardPlan& plan, const Fp8LinearForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const Fp8LinearBackwardPlan& plan, const Fp8LinearBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

// The convenience layer, for training: plans, workspace and saved state in one object, for one
// caller at a time. backward() is the gradient of the last forward(), and must run after it: on the
// same stream, or on one that waits for it. Neither allocates or waits, so both can be captured in
// a CUDA graph.
class OCTET_API Fp8Linear {
 public:
  explicit Fp8Linear(const Fp8LinearProblem& problem, const Fp8LinearOptions& options = {},
                     const Allocator& allocator = {});

  void forward(const TensorView& x, const TensorView& w, const TensorView& y,
               void* stream = nullptr);
  void backward(const TensorView& dy, const TensorView& dx, const TensorView& dw,
                void* stream = nullptr);
  // With a bias and its gradient.
  void forward(const TensorView& x, const TensorView& w, const TensorView& bias,
               const TensorView& y, void* stream = nullptr);
  void backward(const TensorView& dy, const TensorView& dx, const TensorView& dw,
                const TensorView& dbias, void* stream = nullptr);

  const Fp8LinearForwardPlan& forward_plan() const { return forward_; }
  const Fp8LinearBackwardPlan& backward_plan() const { return backward_; }
  // Views of what the last forward saved.
  Fp8LinearSaved saved() const { return {x_t_.view(), w_t_.view()}; }

 private:
  Fp8LinearForwardPlan forward_;
  Fp8LinearBackwardPlan backward_;
  QuantizedTensor x_t_;
  QuantizedTensor w_t_;
  Buffer workspace_;
  bool has_saved_ = false;
};

}  // namespace octet
