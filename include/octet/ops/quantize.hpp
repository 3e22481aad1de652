// quantize: 16- or 32-bit floats to block-scaled FP8, in either orientation or both, from one read.
//
//   per block:  a = max(amax over the finite values, amax_floor), exact in f32
//               a == 0:  s = scale = 1
//               else:    a = max(a, limit * 2^-126),  s = limit / a,  scale = a / limit
//               pow2_scales: scale is rounded up to a power of two, s = 1 / scale
//   values:     q = round_to_nearest_even(x * s), finite values saturate at limit (448 or 57344)
//               NaN -> 0x7F; infinities -> 0x7F in e4m3, 0x7C / 0xFC in e5m2
//
//   input        [rows, cols]  f32, f16 or bf16; columns contiguous
//   out          [rows, cols]  FP8 with `block`
//   transposed   [cols, rows]  FP8 with `transposed_block`, given in the coordinates of that copy
//
// So 1x128 along the columns is block = 1x128, 1x128 along the rows is transposed_block = 1x128 (or
// block = 128x1 if no transpose is needed), both together are "dual", and weights are 128x128 in
// both, which share their bytes and scales. Results are the same bits on every device, instruction
// set and thread count.
#pragma once

#include <octet/plan.hpp>
#include <octet/quantized.hpp>

#include <optional>

namespace octet {

struct QuantizeProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype input_dtype = Dtype::bf16;
  Dtype format = Dtype::e4m3;
  std::optional<BlockShape> block = kBlock1x128;  // empty: no copy in the input's orientation
  std::optional<BlockShape> transposed_block{};   // empty: no transposed copy
  float amax_floor = 0;                           // 0 to 1e18
  bool pow2_scales = false;
  Device device{};
};

struct QuantizeArgs {
  TensorView input;          // [rows, cols]
  QuantizedView out;         // [rows, cols]; ignored without a block
  QuantizedView transposed;  // [cols, rows]; ignored without a transposed_block
};

using QuantizePlan = Plan<QuantizeProblem>;

// "quantize --shape 512x4096 --dtype bf16 --format e4m3 --block 1x128 --device cpu"
OCTET_API std::string describe(const QuantizeProblem& problem);
OCTET_API QuantizePlan plan_quantize(const QuantizeProblem& problem, const PlanOptions& = {});
OCTET_API void run(const QuantizePlan& plan, const QuantizeArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

}  // namespace octet
