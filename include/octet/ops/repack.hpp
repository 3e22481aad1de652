// repack: copies a quantised tensor of any strides into another layout, usually a foreign one into
// ours: values and scales keep their numbers, padding is cleared. Use it when gemm refuses an FP8
// operand for its pointer, pitch or strides.
#pragma once

#include <octet/plan.hpp>
#include <octet/quantized.hpp>

namespace octet {

struct RepackProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype format = Dtype::e4m3;
  BlockShape block = kBlock1x128;
  Device device{};
};

struct RepackArgs {
  QuantizedView input;  // [rows, cols], any strides, any alignment
  QuantizedView out;    // [rows, cols], columns contiguous
};

using RepackPlan = Plan<RepackProblem>;

// "repack --shape 512x4096 --format e4m3 --block 1x128 --device cpu"
OCTET_API std::string describe(const RepackProblem& problem);
OCTET_API RepackPlan plan_repack(const RepackProblem& problem, const PlanOptions& = {});
OCTET_API void run(const RepackPlan& plan, const RepackArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

}  // namespace octet
