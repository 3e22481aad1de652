// quantize and dequantize: floats to block-scaled FP8 and back.
#include "torch/error.hpp"
#include "torch/operators.hpp"
#include "torch/plan_cache.hpp"
#include "torch/quantized.hpp"

namespace octet_torch {

namespace {

// (x, format, block_rows, block_cols, transposed, pow2_scales, amax_floor) -> values, scales
void quantize(StackValue* stack) {
  const Tensor x(stack[0]);
  const octet_tensor input = view_of(x, "x", 2);
  const auto format = static_cast<octet_dtype>(int_at(stack, 1));
  const octet_block block = octet_block_of(int_at(stack, 2), int_at(stack, 3));
  const bool transposed = bool_at(stack, 4);
  octet_quantize_problem problem;
  octet_init_quantize_problem(&problem);
  problem.input_dtype = input.dtype;
  problem.rows = input.shape[0];
  problem.cols = input.shape[1];
  problem.format = format;
  problem.block = transposed ? octet_no_copy() : block;
  problem.transposed_block = transposed ? block : octet_no_copy();
  problem.pow2_scales = bool_at(stack, 5) ? 1 : 0;
  problem.amax_floor = static_cast<float>(double_at(stack, 6));
  problem.device = input.device;
  const CachedPlan plan = find_plan(problem, octet_make_quantize_plan);

  const auto layout = transposed ? layout_of(problem.cols, problem.rows, format, block)
                                 : layout_of(problem.rows, problem.cols, format, block);
  Quantized out = empty_quantized(layout, x);
  octet_quantize_args args;
  OCTET_INIT(&args);
  args.input = input;
  (transposed ? args.transposed : args.out) = view_of(out, layout, "out");
  const Workspace workspace(plan.workspace_bytes, x);
  check(octet_run_quantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                           current_stream(problem.device)));
  stack[0] = out.values.release();
  stack[1] = out.scales.release();
}

// (values, scales, rows, cols, format, block_rows, block_cols, dtype) -> x
void dequantize(StackValue* stack) {
  const Quantized input{Tensor(stack[0]), Tensor(stack[1])};
  octet_dequantize_problem problem;
  octet_init_dequantize_problem(&problem);
  problem.rows = int_at(stack, 2);
  problem.cols = int_at(stack, 3);
  problem.format = static_cast<octet_dtype>(int_at(stack, 4));
  problem.block = octet_block_of(int_at(stack, 5), int_at(stack, 6));
  problem.out_dtype = static_cast<octet_dtype>(int_at(stack, 7));
  problem.device = view_of(input.scales, "scales").device;
  const CachedPlan plan = find_plan(problem, octet_make_dequantize_plan);

  const auto layout = layout_of(problem.rows, problem.cols, problem.format, problem.block);
  octet_dequantize_args args;
  OCTET_INIT(&args);
  args.input = view_of(input, layout, "q");
  Tensor x = empty({problem.rows, problem.cols}, torch_dtype(problem.out_dtype), input.values);
  args.out = view_of(x, "x");
  const Workspace workspace(plan.workspace_bytes, input.values);
  check(octet_run_dequantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                             current_stream(problem.device)));
  stack[0] = x.release();
}

constexpr Operator kOperators[] = {
    {"quantize(Tensor x, int format, int block_rows, int block_cols, bool transposed, "
     "bool pow2_scales, float amax_floor) -> (Tensor values, Tensor scales)",
     &boxed<quantize>},
    {"dequantize(Tensor values, Tensor scales, SymInt rows, SymInt cols, int format, "
     "int block_rows, int block_cols, int dtype) -> Tensor",
     &boxed<dequantize>},
};

}  // namespace

Operators quantize_operators() { return kOperators; }

}  // namespace octet_torch
