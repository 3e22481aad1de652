#include "torch/layer.hpp"

#include "torch/error.hpp"
#include "torch/plan_cache.hpp"

#include <string>

namespace octet_torch {

namespace {

octet_block block_of(const Fp8& matrix) { return matrix ? matrix.view.block : octet_no_copy(); }

// Memory for [rows, cols]; octet_no_copy(): none. In one piece where it is not returned.
Fp8 empty_fp8(std::int64_t rows, std::int64_t cols, octet_dtype format, octet_block block,
              bool returned, const Tensor& like) {
  if (block.rows == octet_no_copy().rows) return {};
  const octet_quantized_layout layout = layout_of(rows, cols, format, block);
  if (returned || rows == 0 || cols == 0) {
    Quantized memory = empty_quantized(layout, like);
    const octet_quantized view = view_of(memory, layout, "out");
    return {std::move(memory), view};
  }
  Workspace memory(layout.bytes, like);
  octet_quantized view{};
  check(octet_make_quantized_view(&layout, memory.data(), device_of(like), &view));
  return {{memory.release(), Tensor()}, view};
}

octet_gemm_operand operand_of(const Fp8& matrix) {
  octet_gemm_operand operand;
  octet_init_gemm_operand(&operand);
  operand.dtype = matrix.view.values.dtype;
  operand.block = matrix.view.block;
  return operand;
}

}  // namespace

Scaling::Scaling(std::int64_t number) {
  constexpr octet_granularity kGranularities[] = {
      OCTET_BLOCKWISE, OCTET_BLOCKWISE, OCTET_TENSORWISE, OCTET_ROWWISE, OCTET_MXFP8, OCTET_MXFP8};
  const bool known = number >= 1 && number <= 18;
  const std::int64_t kind = known ? (number - 1) % 6 + 1 : 0;
  const std::int64_t variant = known ? (number - 1) / 6 : 0;
  const std::int64_t variants = kind < 3 ? 1 : kind < 5 ? 2 : 3;
  if (!known || variant >= variants) {
    refuse("octet: wgrad must be 1 to 6, 9 to 12, 17 or 18, got " + std::to_string(number));
  }
  granularity_ = kGranularities[kind - 1];
  square_ = kind == 2 || kind == 6;
  fast_accumulation_ = kind < 5 && variant == 1;
  if (folds_mx()) mx_scale_ = static_cast<octet_mx_scale>(variant);
}

octet_block Scaling::or_whole(octet_block block) const {
  if (granularity_ == OCTET_TENSORWISE) return octet_block_of(OCTET_ALL, OCTET_ALL);
  return granularity_ == OCTET_ROWWISE ? octet_block_of(1, OCTET_ALL) : block;
}

octet_block Scaling::rows() const { return or_whole(row_block()); }
octet_block Scaling::weights() const { return or_whole(square_block()); }
octet_block Scaling::transposed() const { return square_ ? square_block() : rows(); }

octet_block transposed_block(octet_wgrad_blocks wgrad) {
  if (wgrad == OCTET_WGRAD_SQUARE) return square_block();
  if (wgrad == OCTET_WGRAD_ROWS) return row_block();
  refuse("octet: wgrad must be 1 (1x128 blocks) or 2 (128x128), got " + std::to_string(wgrad));
}

void Fp8::release(StackValue* values, StackValue* scales, const Tensor& like) {
  if (!*this) memory = {absent(shim.u8, like), absent(shim.f32, like)};
  *values = memory.values.release();
  *scales = memory.scales.release();
}

Copies empty_copies(std::int64_t rows, std::int64_t cols, octet_dtype format, octet_block block,
                    octet_block transposed_block, const Tensor& like) {
  return {empty_fp8(rows, cols, format, block, true, like),
          empty_fp8(cols, rows, format, transposed_block, true, like)};
}

octet_fp8_output output_of(const Copies& copies, octet_dtype format) {
  octet_fp8_output output;
  octet_init_fp8_output(&output);
  output.enabled = 1;
  output.format = format;
  output.block = block_of(copies.row);
  output.transposed_block = block_of(copies.column);
  return output;
}

octet_fp8_copies views_of(const Copies& copies) {
  octet_fp8_copies views{};
  if (copies.row) views.out = copies.row.view;
  if (copies.column) views.transposed = copies.column.view;
  return views;
}

Tensor carrier_like(const octet_tensor& result, const Tensor& like) {
  return carrier(result.shape[0], result.shape[1], torch_dtype(result.dtype), like);
}

Fp8 given_fp8(Quantized tensors, std::int64_t rows, std::int64_t cols, octet_dtype format,
              octet_block block, const char* name) {
  if (tensors.values.get() == nullptr || tensors.scales.get() == nullptr) return {};
  const octet_quantized view = view_of(tensors, layout_of(rows, cols, format, block), name);
  return {std::move(tensors), view};
}

Copies cast(const Tensor& x, const char* name, Encoding encoding, octet_block block,
            octet_block transposed_block, Returned returned) {
  const octet_tensor input = view_of(x, name, 2);
  const std::int64_t rows = input.shape[0], cols = input.shape[1];
  const octet_dtype format = encoding.format;
  Copies out{empty_fp8(rows, cols, format, block, returned == Returned::both, x),
             empty_fp8(cols, rows, format, transposed_block, returned != Returned::none, x)};
  cast_into(x, name, encoding, out);
  return out;
}

void cast_into(const Tensor& x, const char* name, Encoding encoding, const Copies& out) {
  octet_quantize_args args;
  OCTET_INIT(&args);
  args.input = view_of(x, name, 2);
  octet_quantize_problem problem;
  octet_init_quantize_problem(&problem);
  problem.input_dtype = args.input.dtype;
  problem.rows = args.input.shape[0];
  problem.cols = args.input.shape[1];
  problem.format = encoding.format;
  problem.fold_mx = encoding.fold_mx ? 1 : 0;
  problem.mx_scale = encoding.mx_scale;
  problem.block = block_of(out.row);
  problem.transposed_block = block_of(out.column);
  problem.device = args.input.device;
  if (problem.rows == 0 || problem.cols == 0) return;
  const octet_fp8_copies views = views_of(out);
  args.out = views.out;
  args.transposed = views.transposed;
  const CachedPlan plan = find_plan(problem, octet_make_quantize_plan);
  const Workspace workspace(plan.workspace_bytes, x);
  check(octet_run_quantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                           current_stream(problem.device)));
}

void multiply(const Fp8& a, const Fp8& b, const octet_tensor& d, const ProductOptions& options,
              const Tensor& like) {
  octet_gemm_problem problem;
  octet_init_gemm_problem(&problem);
  problem.m = a.view.values.shape[0];
  problem.n = b.view.values.shape[0];
  problem.k = a.view.values.shape[1];
  if (problem.m == 0) return;  // no tokens
  problem.a = operand_of(a);
  problem.b = operand_of(b);
  problem.out_dtype = d.dtype;
  problem.accumulate = options.accumulate ? 1 : 0;
  problem.fast_accumulation = options.fast_accumulation ? 1 : 0;
  problem.device = d.device;
  octet_gemm_args args;
  OCTET_INIT(&args);
  args.a = a.view;
  args.b = b.view;
  args.d = d;
  if (options.bias != nullptr && options.bias->get() != nullptr) {
    args.bias = view_of(*options.bias, "bias", 1);
    problem.bias_dtype = args.bias.dtype;
  }
  const CachedPlan plan = find_plan(problem, octet_make_gemm_plan);
  const Workspace workspace(plan.workspace_bytes, like);
  check(octet_run_gemm(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                       current_stream(problem.device)));
}

void check_shape(const octet_tensor& view, const char* name, const char* letters, std::int64_t rows,
                 std::int64_t cols) {
  if (view.shape[0] == rows && view.shape[1] == cols) return;
  const auto text = [](std::int64_t a, std::int64_t b) {
    return "[" + std::to_string(a) + ", " + std::to_string(b) + "]";
  };
  refuse(std::string("octet: ") + name + " must be " + letters + " = " + text(rows, cols) +
         ", got " + text(view.shape[0], view.shape[1]));
}

octet_tensor main_grad_view(const Tensor& main_grad, const char* name, const char* letters,
                            const octet_tensor& w) {
  const octet_tensor view = view_of(main_grad, name, 2);
  check_shape(view, name, letters, w.shape[0], w.shape[1]);
  const std::string argument = std::string("octet: ") + name;
  if (view.dtype == OCTET_F16) refuse_dtype(argument + " must be float32 or bfloat16, got float16");
  if (view.device.type != w.device.type || view.device.index != w.device.index) {
    refuse(argument + " must be on the device of the weight, " + text_of(w.device) + ", got " +
           text_of(view.device));
  }
  if (view.strides[1] != 1 || (view.shape[0] > 1 && view.strides[0] < view.shape[1])) {
    refuse(argument + " must have contiguous rows that do not overlap");
  }
  return view;
}

}  // namespace octet_torch
