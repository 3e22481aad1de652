// dequantize: out[r, c] = value[r, c] * scale[r / block.rows, c / block.cols], one f32 product,
// rounded to the output's dtype.
#pragma once

#include <octet/plan.hpp>
#include <octet/quantized.hpp>

namespace octet {

struct DequantizeProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype format = Dtype::e4m3;
  BlockShape block = kBlock1x128;
  Dtype out_dtype = Dtype::f32;  // f32, f16 or bf16
  Device device{};
};

struct DequantizeArgs {
  QuantizedView input;  // [rows, cols]; values and scales of any strides and alignment
  TensorView out;       // [rows, cols], columns contiguous
};

using DequantizePlan = Plan<DequantizeProblem>;

// "dequantize --shape 512x4096 --format e4m3 --block 1x128 --out f32 --device cpu"
OCTET_API std::string describe(const DequantizeProblem& problem);
OCTET_API DequantizePlan plan_dequantize(const DequantizeProblem& problem, const PlanOptions& = {});
OCTET_API void run(const DequantizePlan& plan, const DequantizeArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

}  // namespace octet
