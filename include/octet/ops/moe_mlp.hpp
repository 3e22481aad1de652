// moe_mlp: the feed-forward half of a layer whose tokens go to some of many experts, from routing to
// output, in block-scaled FP8. Each expert is a gated MLP; the sizes of their groups of rows are
// never read by the host, and nothing is padded by the caller.
//
//   forward    indices, p = moe_route(logits)                           top_k experts and weights
//              row r is slot source[r], token t = source[r] / top_k     moe_maps, stable
//              gate_up[r, :] = x[t, :] w_gate_up[g]^T                   g: the expert of row r
//              h[r, :] = act(gate) * up * p[source[r]]                  gated_activation over groups
//              y[t, :] = round(sum over k of h[row_of[t, k], :] w_down[g]^T)     moe_unpermute
//   backward   dh[r, :] = dy[t, :] w_down[g]
//              d_gate_up, dp = the gradients of gate, up and the row's weight
//              dx[t, :] = round(sum over k of d_gate_up[row_of[t, k], :] w_gate_up[g])
//              dw_down[g] = sum of dy^T h,  dw_gate_up[g] = sum of d_gate_up^T x    rows of expert g
//              dlogits = the gradient of moe_route for dp, and for dscores
//
// The probability multiplies h, before Down: the rows that are added up need no weights, and its
// gradient falls out of the activation's. x and dy are gathered by the casts; no copy of a token per
// expert is made in 16 bits. All steps are the operators of the same names, with their bits:
// quantize with groups and source_top_k, grouped_gemm, gated_activation with groups.
//
// Without `routing` the experts and weights of every token are given instead of logits, and backward
// writes the gradient of the weights: for routers of other kinds, and for the tokens that a rank
// has received. Indices may then be -1, or experts of other ranks (first_expert, local_experts);
// such slots add nothing. Sums run in the order of k and of tokens, so results are the same bits
// whichever rank computes them.
#pragma once

#include <octet/ops/fp8_grouped_linear.hpp>
#include <octet/ops/gated_activation.hpp>
#include <octet/ops/moe_maps.hpp>
#include <octet/ops/moe_route.hpp>

#include <optional>

namespace octet {

// The options of moe_route.
struct MoeRouting {
  Dtype dtype = Dtype::f32;  // of logits and dlogits: f32, f16 or bf16
  RouteScore score = RouteScore::softmax;
  bool bias = false;
  std::int64_t expert_groups = 1;
  std::int64_t top_groups = 1;
  ExpertGroupScore group_score = ExpertGroupScore::best_two;
  bool normalize = true;
  float scale = 1;

  friend bool operator==(const MoeRouting&, const MoeRouting&) = default;
};

struct MoeMlpProblem {
  std::int64_t tokens = 0;  // at least 1; tokens * top_k is at most 2^30
  std::int64_t f = 0;       // features between the products
  std::int64_t k = 0;       // features of x and y
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::optional<MoeRouting> routing{MoeRouting{}};  // empty: indices and weights are given
  std::int64_t first_expert = 0;                    // of those that are here
  std::int64_t local_experts = 0;                   // 0: all experts are here
  std::int64_t rows = 0;      // of the buffers, 1 to 2^30; 0: tokens * top_k, always enough
  std::int64_t capacity = 0;  // rows of an expert at most, the others are dropped; 0: any number
  Dtype dtype = Dtype::bf16;  // of x, weights, gate_up, y, dy and dx: bf16, f16 or f32
  GateActivation activation = GateActivation::silu;
  Dtype format = Dtype::e4m3;       // of x, h and weights
  Dtype grad_format = Dtype::e4m3;  // of dy and d_gate_up
  bool weights_quantized = false;   // weights are given as MoeMlpWeights
  bool training = true;             // false: forward only, nothing is saved
  bool need_dx = true;
  bool need_dw = true;
  Dtype dw_dtype = Dtype::bf16;  // f32, f16 or bf16
  bool accumulate_dw = false;    // dw += into f32 or bf16 main gradients
  WgradBlocks wgrad_blocks = WgradBlocks::rows;
  float amax_floor = 0;
  bool pow2_scales = false;
  std::int64_t expected_rows = 0;        // as in GroupedGemmProblem
  std::int32_t max_multiprocessors = 0;  // of the products, as in GroupedGemmProblem
  Device device{};
};

// Weights quantised ahead of time, with quantize: batch, block = transposed_block = 128x128.
struct MoeMlpWeights {
  Fp8GroupedLinearWeights gate_up;  // [experts, 2F, K], [experts, K, 2F]
  Fp8GroupedLinearWeights down;     // [experts, K, F], [experts, F, K]
};

// What forward saves for backward, and what it says about the routing. `experts` of a shape are
// those that are here.
struct MoeMlpSaved {
  TensorView scores;          // [tokens, all experts], f32; with routing
  TensorView indices;         // [tokens, top_k], i32; with routing
  TensorView row_of;          // [tokens, top_k], i32
  TensorView source;          // [rows], i32
  TensorView sizes;           // [experts], i32: the rows of each
  TensorView table;           // [group_table_words(experts, rows)], i32
  TensorView status;          // [kMoeMapsStatusWords], i32, for check_moe_maps()
  TensorView row_weight;      // [rows], f32
  TensorView gate_up;         // [rows, 2F] of dtype
  QuantizedView x_t;          // token blocks [blocks, K, 128], 1x128 or, with square, 128x128
  QuantizedView w_gate_up_t;  // [experts, K, 2F] 128x128
  QuantizedView h_t;          // token blocks [blocks, F, 128], as x_t
  QuantizedView w_down_t;     // [experts, F, K] 128x128
  // With weights_quantized, backward takes the caller's own transposes as w_*_t.
};

// One piece of memory for all of it, aligned to kAlignment. Empty views for what is not saved: x_t
// and h_t without need_dw, transposed weights without need_dx (w_gate_up_t) or with
// weights_quantized.
struct OCTET_API MoeMlpSavedLayout {
  MoeMlpProblem problem;
  std::size_t bytes = 0;

  MoeMlpSaved view(void* memory) const;  // on the problem's device
};

struct MoeMlpForwardArgs {
  TensorView x;           // [tokens, K]
  TensorView logits;      // [tokens, experts], of the routing's dtype; ignored without routing
  TensorView bias;        // [experts], f32; ignored without a bias for the choice
  TensorView indices;     // [tokens, top_k], i32, contiguous; ignored with routing
  TensorView weights;     // [tokens, top_k], f32, contiguous; ignored with routing
  TensorView w_gate_up;   // [experts here, 2F, K]: Wg above Wu; ignored with weights_quantized
  TensorView w_down;      // [experts here, K, F]; ignored with weights_quantized
  MoeMlpWeights experts;  // ignored without weights_quantized
  TensorView y;           // [tokens, K]
  MoeMlpSaved saved;      // written; ignored if training is false
};

struct MoeMlpBackwardArgs {
  TensorView dy;          // [tokens, K]
  TensorView dscores;     // [tokens, all experts], f32: of auxiliary losses; empty: none
  MoeMlpSaved saved;      // read
  TensorView dx;          // [tokens, K]; ignored if need_dx is false
  TensorView dlogits;     // [tokens, experts]; ignored without routing
  TensorView dweights;    // [tokens, top_k], f32, contiguous; ignored with routing
  TensorView dw_gate_up;  // [experts here, 2F, K]; ignored if need_dw is false
  TensorView dw_down;     // [experts here, K, F]; ignored if need_dw is false
};

using MoeMlpForwardPlan = Plan<MoeMlpProblem, ForwardPass>;
using MoeMlpBackwardPlan = Plan<MoeMlpProblem, BackwardPass>;

// "moe-mlp --shape 8192x2048x7168 --experts 256 --top-k 8 ..."; the shape is TOKENSxFxK.
OCTET_API std::string describe(const MoeMlpProblem& problem);
OCTET_API MoeMlpSavedLayout moe_mlp_saved_layout(const MoeMlpProblem& problem);
// gemm_backend of the options is that of grouped_gemm; the glue has the first implementation that
// takes it.
OCTET_API MoeMlpForwardPlan plan_moe_mlp_forward(const MoeMlpProblem& problem,
                                                 const Fp8LinearOptions& = {});
OCTET_API MoeMlpBackwardPlan plan_moe_mlp_backward(const MoeMlpProblem& problem,
                                                   const Fp8LinearOptions& = {});
OCTET_API void run(const MoeMlpForwardPlan& plan, const MoeMlpForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const MoeMlpBackwardPlan& plan, const MoeMlpBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

// The convenience layer, with routing, for training: plans, workspace and saved state in one object,
// as Fp8GroupedLinear. Neither pass allocates or waits, so both can be captured in a CUDA graph.
class OCTET_API MoeMlp {
 public:
  explicit MoeMlp(const MoeMlpProblem& problem, const Fp8LinearOptions& options = {},
                  const Allocator& allocator = {});

  // `bias`: for the choice of experts; empty if the problem has none.
  void forward(const TensorView& x, const TensorView& logits, const TensorView& bias,
               const TensorView& w_gate_up, const TensorView& w_down, const TensorView& y,
               void* stream = nullptr);
  void backward(const TensorView& dy, const TensorView& dx, const TensorView& dlogits,
                const TensorView& dw_gate_up, const TensorView& dw_down, void* stream = nullptr);

  const MoeMlpForwardPlan& forward_plan() const { return forward_; }
  const MoeMlpBackwardPlan& backward_plan() const { return backward_; }
  // Views of what the last forward saved: scores, indices and sizes among them.
  MoeMlpSaved saved() const;

 private:
  MoeMlpForwardPlan forward_;
  MoeMlpBackwardPlan backward_;
  Buffer saved_;
  Buffer workspace_;
  bool has_saved_ = false;
};

}  // namespace octet
