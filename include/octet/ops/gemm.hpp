// gemm: d[M, N] = a[M, K] * b[N, K]^T, or that + bias[N], or d += that. Any M, N, K >= 1.
//
// FP8 operands are block-scaled; the contraction is cut into slices of 128:
//   slice    = sum over 128 k of a[m, k] * b[n, k]     (CPU: a sequential f32 FMA chain over k;
//                                                       Hopper: four k32 tensor-core steps)
//   1x128 . 128x128, 128x128 . 1x128:  acc = fma(slice, sa * sb, acc)
//   1x128 . 1x128:                     acc = fma(slice * sa, sb, acc), the order of cuBLASLt
// 1xall and allxall, in any pairing:  acc = slice + acc, and (acc * sa) * sb at the end
// 1x32 and 32x32 (mx), on the CPU:   slices of 32, acc = fma(slice, sa * sb, acc)
// f32, f16 and bf16 operands use the same slices of 128 with acc = slice + acc on the CPU; Hopper's tensor
// cores add 16-bit products in f32 over the whole contraction.
// fast_accumulation leaves FP8 products in the tensor cores, too, which keep about 14 bits of a sum: the
// error grows with K, and G2 fails from about 13,000 on. Only where scales are applied at the end.
// acc is f32, in slice order. The result is acc rounded to d's dtype; with a bias, acc + bias in
// f32, rounded once; with accumulate, d + acc in f32, rounded once. Same inputs, same configuration:
// same bits, every run and thread count.
//
// FP8: the contraction is contiguous in both operands, rows start on 16-byte boundaries (repack
// otherwise). 16- and 32-bit operands: either dimension may be the contiguous one.
#pragma once

#include <octet/plan.hpp>
#include <octet/quantized.hpp>

namespace octet {

// Which dimension of a matrix operand is contiguous: the contraction, or the rows of the result.
enum class Major : std::int32_t { k = 0, mn = 1 };

enum class GroupKind : std::int32_t { none = 0 };
enum class Activation : std::int32_t { none = 0 };

struct GemmOperand {
  Dtype dtype = Dtype::e4m3;
  BlockShape block = kUnscaled;  // 16- and 32-bit operands are unscaled, FP8 operands are not
  Major major = Major::k;
  Dtype scale_dtype = Dtype::f32;  // of scaled operands; mx blocks have ue8m0 whatever is said here

  friend bool operator==(const GemmOperand&, const GemmOperand&) = default;
};

struct GemmProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmOperand a{Dtype::e4m3, kBlock1x128, Major::k};
  GemmOperand b{Dtype::e4m3, kBlock128x128, Major::k};
  Dtype out_dtype = Dtype::bf16;  // f32, f16 or bf16
  bool accumulate = false;        // d += a b^T; f32 and bf16 only
  // Of a bias [N] that is added to every row: f32 or out_dtype. Empty: no bias. Not with accumulate.
  std::optional<Dtype> bias_dtype{};
  bool fast_accumulation = false;  // on CUDA; other devices ignore it
  // On CUDA, the most multiprocessors that a launch may take, to leave some for communication; 0:
  // all. Never changes results. Other devices ignore it, and so does cublaslt.
  std::int32_t max_multiprocessors = 0;
  Device device{};
  // Reserved for later versions; anything but the defaults is refused.
  GroupKind groups = GroupKind::none;
  Activation activation = Activation::none;
};

struct GemmArgs {
  QuantizedView a;    // [M, K]
  QuantizedView b;    // [N, K]
  TensorView d;       // [M, N], columns contiguous
  TensorView bias{};  // [N], contiguous; given exactly if the problem has a bias_dtype
};

using GemmPlan = Plan<GemmProblem>;

// "gemm --shape 512x1024x768 --a e4m3:1x128 --b e4m3:128x128 --out bf16 --device cpu"
OCTET_API std::string describe(const GemmProblem& problem);
OCTET_API GemmPlan plan_gemm(const GemmProblem& problem, const PlanOptions& = {});
OCTET_API void run(const GemmPlan& plan, const GemmArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

}  // namespace octet
