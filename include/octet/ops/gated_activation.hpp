// gated_activation: y = act(gate) * up, optionally times a weight per row; f32 inside.
//
//   silu           act(g) = g / (1 + exp(-g))
//   gelu_tanh      act(g) = g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3)))
//   gelu_erf       act(g) = g / 2 * (1 + erf(g / sqrt(2)))
//   relu_squared   act(g) = max(g, 0)^2
//
//   forward    y = round((act(gate) * up) * p)           p = row_weight[r], or 1
//   backward   e = dy * p
//              dgate = round(e * up * act'(gate))
//              dup = round(e * act(gate))
//              d_row_weight[r] = sum over the columns of dy * (act(gate) * up), in f32
//
// gate and up are views of two tensors, or of the two halves of the columns of one tensor
// [rows, 2 cols]. Implementations agree to within a few f32 roundings; the same call gives the same
// bits.
//
// With `fp8` forward writes y as FP8, and backward both gradients as one FP8 tensor [rows, 2 cols],
// dgate before dup: bit-identical to quantize of the 16- or 32-bit result. On Hopper one pass writes
// blocks of 128 (cuda_sm90_tile), or, forward, a scale per row of at most 32768 columns
// (cuda_sm90_row_cast).
// rows may be 0; with fp8 it is at least 1.
//
// Groups are runs of rows of the same buffers, such as the tokens of experts; a group table says
// where each begins (octet/ops/group_table.hpp). Each group has the bits of the operator on its
// rows alone, and rows behind the last group are never read. FP8 copies are then those of quantize
// over groups (octet/ops/quantize.hpp): `out` unpadded in 1x128 blocks, `transposed` in token
// blocks, [max_token_blocks(groups, rows), cols, 128]. `tail` says what becomes of the rows of
// outputs behind the last group, d_row_weight included.
#pragma once

#include <octet/ops/fp8_output.hpp>
#include <octet/ops/group_table.hpp>
#include <octet/plan.hpp>
#include <octet/tensor.hpp>

namespace octet {

enum class GateActivation : std::int32_t {
  silu = 1,
  gelu_tanh = 2,
  gelu_erf = 3,
  relu_squared = 4
};

struct GatedActivationProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;      // of each of gate, up and y
  Dtype dtype = Dtype::bf16;  // of gate, up, y and their gradients: f32, f16 or bf16
  GateActivation activation = GateActivation::silu;
  bool row_weight = false;
  std::optional<Fp8Output> fp8{};
  std::int64_t groups = 0;           // 1 to 1024 groups of at most 2^30 rows; 0: no groups
  GroupTail tail = GroupTail::zero;  // with groups
  Device device{};
};

struct GatedActivationForwardArgs {
  TensorView gate;        // [rows, cols], columns contiguous, as in all matrices
  TensorView up;          // [rows, cols]
  TensorView row_weight;  // [rows], f32; ignored without row_weight
  TensorView y;           // [rows, cols]; ignored with fp8
  Fp8Copies fp8;          // of [rows, cols]; ignored without fp8
  TensorView table{};     // of the groups and rows; ignored without groups
};

struct GatedActivationBackwardArgs {
  TensorView dy;            // [rows, cols]
  TensorView gate;          // [rows, cols]
  TensorView up;            // [rows, cols]
  TensorView row_weight;    // [rows], f32; ignored without row_weight
  TensorView dgate;         // [rows, cols]; ignored with fp8
  TensorView dup;           // [rows, cols]; ignored with fp8
  Fp8Copies fp8;            // of [rows, 2 cols], dgate | dup; ignored without fp8
  TensorView d_row_weight;  // [rows], f32; written with row_weight
  TensorView table{};       // of the groups and rows; ignored without groups
};

using GatedActivationForwardPlan = Plan<GatedActivationProblem, ForwardPass>;
using GatedActivationBackwardPlan = Plan<GatedActivationProblem, BackwardPass>;

// "silu"; "unknown activation" for an unknown number.
OCTET_API std::string_view name(GateActivation activation);
OCTET_API std::optional<GateActivation> parse_gate_activation(std::string_view text);

// "gated-activation --shape 8192x14336 --activation silu --dtype bf16 --device cpu"; with groups,
// "--groups 8 --tail untouched" after the shape
OCTET_API std::string describe(const GatedActivationProblem& problem);
OCTET_API GatedActivationForwardPlan
plan_gated_activation_forward(const GatedActivationProblem& problem, const PlanOptions& = {});
OCTET_API GatedActivationBackwardPlan
plan_gated_activation_backward(const GatedActivationProblem& problem, const PlanOptions& = {});
OCTET_API void run(const GatedActivationForwardPlan& plan, const GatedActivationForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const GatedActivationBackwardPlan& plan, const GatedActivationBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
