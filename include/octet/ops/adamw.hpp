// adamw: one step of AdamW (decoupled weight decay) over one tensor, in place:
//
//   g' = g * grad_scale                                 grad_scale 1 where there is none
//   m' = beta1 * m + (1 - beta1) * g'
//   v' = beta2 * v + (1 - beta2) * g'^2
//   w' = w * (1 - lr * weight_decay) - lr / c1 * m' / (sqrt(v') / sqrt(c2) + eps)
//
// with c1 = 1 - beta1^step and c2 = 1 - beta2^step. With a master copy, w is read from it, w' is
// written to it, and w becomes w' rounded.
//
// Numerics: f32 inside, and one rounding to nearest even per stored value: w' is computed from m'
// and v' before they are rounded. The order of operations is fixed, so that every implementation
// has the same bits (a NaN is a NaN, whatever its payload). With the factors computed in f64 on the
// host and rounded to f32 once,
//
//   decay = 1 - lr * weight_decay    rest1 = 1 - beta1          rest2 = 1 - beta2
//   step_size = lr / c1              root_factor = 1 / sqrt(c2)
//
//   g' = g * grad_scale
//   m' = fma(beta1, m, rest1 * g')
//   v' = fma(beta2, v, (rest2 * g') * g')
//   w' = fma(-step_size, m' / fma(sqrt(v'), root_factor, eps), w * decay)
//
// where division and square root are those of IEEE 754, and subnormals are kept.
//
// A parameter that is a matrix may be written in FP8 as well, so that no quantiser has to read it
// again: row-major, transposed or both, with the bits of quantize.hpp on w' as it is stored. Unlike
// the FP8 outputs of other operators these copies are written besides w, not in its place.
#pragma once

#include <octet/ops/fp8_output.hpp>
#include <octet/plan.hpp>
#include <octet/tensor.hpp>

namespace octet {

struct AdamWProblem {
  std::int64_t count = 0;             // elements; 0 is allowed
  Dtype dtype = Dtype::bf16;          // of w: f32, f16 or bf16
  Dtype grad_dtype = Dtype::bf16;     // of g: f32, f16 or bf16
  Dtype moments_dtype = Dtype::bf16;  // of m and v: f32 or bf16
  bool master = false;                // w has a master copy in f32
  bool grad_scale = false;            // g is multiplied by a scalar that lies on the device
  // With fp8, w is [rows, cols] and count is rows * cols; otherwise both are ignored.
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::optional<Fp8Output> fp8{};  // w' in FP8 as well
  Device device{};
};

struct AdamWArgs {
  TensorView w;           // [count], contiguous, as are all others
  TensorView g;           // [count]
  TensorView m;           // [count]
  TensorView v;           // [count]
  TensorView master;      // [count], f32; ignored without master
  TensorView grad_scale;  // [1], f32; ignored without grad_scale
  // The factors and the step are values of the call: a captured graph repeats those it was captured
  // with.
  double lr = 1e-3;      // this and the other factors: finite, at least 0
  double beta1 = 0.9;    // less than 1
  double beta2 = 0.999;  // less than 1
  double eps = 1e-8;
  double weight_decay = 1e-2;
  std::int64_t step = 1;  // 1 in the first call
  Fp8Copies fp8{};        // of w' [rows, cols]; ignored without fp8
};

using AdamWPlan = Plan<AdamWProblem>;

// "adamw --shape 1x4096 --dtype bf16 --grad-dtype bf16 --moments bf16 --device cpu"; with fp8 the
// shape is that of the matrix
OCTET_API std::string describe(const AdamWProblem& problem);
OCTET_API AdamWPlan plan_adamw(const AdamWProblem& problem, const PlanOptions& = {});
OCTET_API void run(const AdamWPlan& plan, const AdamWArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

}  // namespace octet
