// quantize and dequantize: floats to block-scaled FP8 and back.
#include "torch/error.hpp"
#include "torch/layer.hpp"
#include "torch/plan_cache.hpp"

namespace octet_torch {

namespace {

// (x, format, block_rows, block_cols, transposed, pow2_scales, amax_floor, fold_mx, mx_scale)
// -> values, scales
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
  problem.fold_mx = bool_at(stack, 7) ? 1 : 0;
  problem.mx_scale = static_cast<octet_mx_scale>(int_at(stack, 8));
  problem.device = input.device;
  const auto layout = transposed ? layout_of(problem.cols, problem.rows, format, block)
                                 : layout_of(problem.rows, problem.cols, format, block);
  Quantized out = empty_quantized(layout, x, {problem.amax_floor, problem.pow2_scales != 0});
  if (problem.rows != 0 && problem.cols != 0) {
    const CachedPlan plan = find_plan(problem, octet_make_quantize_plan);
    octet_quantize_args args;
    OCTET_INIT(&args);
    args.input = input;
    (transposed ? args.transposed : args.out) = view_of(out, layout, "out");
    const Workspace workspace(plan.workspace_bytes, x);
    check(octet_run_quantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                             current_stream(problem.device)));
  }
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
  problem.device = device_of(input.scales);
  const auto layout = layout_of(problem.rows, problem.cols, problem.format, problem.block);
  octet_dequantize_args args;
  OCTET_INIT(&args);
  args.input = view_of(input, layout, "q");
  Tensor x = empty({problem.rows, problem.cols}, torch_dtype(problem.out_dtype), input.values);
  if (problem.rows != 0 && problem.cols != 0) {
    const CachedPlan plan = find_plan(problem, octet_make_dequantize_plan);
    args.out = view_of(x, "x");
    const Workspace workspace(plan.workspace_bytes, input.values);
    check(octet_run_dequantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                               current_stream(problem.device)));
  }
  stack[0] = x.release();
}

// (x, format, wgrad, save_x) -> values, scales, t_values, t_scales
void cast_activation(StackValue* stack) {
  const Tensor x(stack[0]);
  const Scaling scaling(int_at(stack, 2));
  Copies out = cast(x, "x", {static_cast<octet_dtype>(int_at(stack, 1)), scaling}, scaling.rows(),
                    bool_at(stack, 3) ? scaling.transposed() : octet_no_copy(), Returned::both);
  out.row.release(&stack[0], &stack[1], x);
  out.column.release(&stack[2], &stack[3], x);
}

// (w, values, scales, t_values, t_scales, format, wgrad) -> (): w [N, K] and w^T, into buffers
void cast_weight_(StackValue* stack) {
  const Tensor w(stack[0]);
  const auto format = static_cast<octet_dtype>(int_at(stack, 5));
  Quantized row{Tensor(stack[1]), Tensor(stack[2])}, column{Tensor(stack[3]), Tensor(stack[4])};
  const Scaling scaling(int_at(stack, 6));
  const octet_tensor view = view_of(w, "w", 2);
  const std::int64_t n = view.shape[0], k = view.shape[1];
  cast_into(w, "w", {format, scaling},
            {given_fp8(std::move(row), n, k, format, scaling.weights(), "w"),
             given_fp8(std::move(column), k, n, format, scaling.weights(), "w_t")});
}

constexpr Operator kOperators[] = {
    {"quantize(Tensor x, int format, int block_rows, int block_cols, bool transposed, "
     "bool pow2_scales, float amax_floor, bool fold_mx, int mx_scale=0) -> "
     "(Tensor values, Tensor scales)",
     &boxed<quantize>},
    {"cast_activation(Tensor x, int format, int wgrad, bool save_x) -> "
     "(Tensor values, Tensor scales, Tensor t_values, Tensor t_scales)",
     &boxed<cast_activation>},
    {"cast_weight_(Tensor w, Tensor(a!) values, Tensor(b!) scales, Tensor(c!) t_values, "
     "Tensor(d!) t_scales, int format, int wgrad) -> ()",
     &boxed<cast_weight_>},
    {"dequantize(Tensor values, Tensor scales, SymInt rows, SymInt cols, int format, "
     "int block_rows, int block_cols, int dtype) -> Tensor",
     &boxed<dequantize>},
};

}  // namespace

Operators quantize_operators() { return kOperators; }

}  // namespace octet_torch
