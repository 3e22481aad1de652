// rms_norm: each row divided by its root mean square, times a weight per column; f32 inside.
//
//   forward    h = x, or round(x + residual)
//              rstd = 1 / sqrt(sum(h * h) / cols + eps)
//              w = g, or 1 + g
//              y = round((h * rstd) * w)
//   backward   t = dy * w
//              k = (sum(t * h) / cols * rstd) * rstd
//              dx = round(fma(-h, k, t) * rstd), or round(that + dsum)
//              dresidual = dx
//              dg[c] = sum over the rows of dy * (h * rstd), in f32, rounded once to its dtype
//
// Every operation is one IEEE f32 rounding, and a sum over a row is a balanced tree of neighbours:
// s[i] = s[2i] + s[2i + 1], zero-filled past the end, until one is left; at least one zero is
// added, so a sum is never -0. So y, sum, rstd and dx are the same bits (a NaN is a NaN) on every
// device, instruction set and thread count. The order of the sum over the rows is fixed by the
// implementation and the device: the same call gives the same bits there.
//
// With `fp8` y is written as FP8 instead, bit-identical to quantize of y. On Hopper one pass writes
// blocks of 128 (cuda_sm90_tile), or a scale per row of at most 16384 columns (cuda_sm90_row_cast).
// rows may be 0 (dg is then zero); with fp8 it is at least 1.
#pragma once

#include <octet/ops/fp8_output.hpp>
#include <octet/plan.hpp>
#include <octet/tensor.hpp>

namespace octet {

struct RmsNormProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype dtype = Dtype::bf16;  // of x, residual, sum, y, dy, dsum, dx, dresidual: f32, f16, bf16
  Dtype weight_dtype = Dtype::bf16;  // of g: f32, f16 or bf16
  float eps = 1e-6f;                 // finite, >= 0
  bool residual = false;             // x + residual is normed, and written to sum
  bool one_plus_weight = false;      // w = 1 + g
  bool training = true;              // rstd is written, for backward
  Dtype dg_dtype = Dtype::f32;       // f32, f16 or bf16
  std::optional<Fp8Output> fp8{};
  Device device{};
};

struct RmsNormForwardArgs {
  TensorView x;         // [rows, cols], columns contiguous, as in all matrices
  TensorView residual;  // [rows, cols]; ignored without residual
  TensorView g;         // [cols]
  TensorView y;         // [rows, cols]; ignored with fp8
  Fp8Copies fp8;        // ignored without fp8
  TensorView sum;       // [rows, cols]; written with residual
  TensorView rstd;      // [rows], f32; written if training is true
};

struct RmsNormBackwardArgs {
  TensorView dy;    // [rows, cols]
  TensorView h;     // [rows, cols]: x, or the sum that forward wrote
  TensorView g;     // [cols]
  TensorView rstd;  // [rows], f32
  // [rows, cols]: the gradient arriving at h from elsewhere (the residual stream); empty: none
  TensorView dsum;
  TensorView dx;         // [rows, cols]
  TensorView dresidual;  // [rows, cols]: a second copy of dx; no data: not written
  TensorView dg;         // [cols]
};

using RmsNormForwardPlan = Plan<RmsNormProblem, ForwardPass>;
using RmsNormBackwardPlan = Plan<RmsNormProblem, BackwardPass>;

// "rms-norm --shape 16384x4096 --dtype bf16 --weight bf16 --device cpu"
OCTET_API std::string describe(const RmsNormProblem& problem);
OCTET_API RmsNormForwardPlan plan_rms_norm_forward(const RmsNormProblem& problem,
                                                   const PlanOptions& = {});
OCTET_API RmsNormBackwardPlan plan_rms_norm_backward(const RmsNormProblem& problem,
                                                     const PlanOptions& = {});
OCTET_API void run(const RmsNormForwardPlan& plan, const RmsNormForwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);
OCTET_API void run(const RmsNormBackwardPlan& plan, const RmsNormBackwardArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
