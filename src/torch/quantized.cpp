#include "torch/quantized.hpp"

#include "torch/error.hpp"
#include "torch/plan_cache.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace octet_torch {

namespace {

struct Extents {
  std::int64_t rows, cols;
};

Extents physical_values(const octet_quantized_layout& layout) {
  return {layout.rows, layout.pitch};
}

// Of the two strides of the scales one is 1, the other the padded length of a line.
Extents physical_scales(const octet_quantized_layout& layout) {
  const int contiguous = layout.scale_strides[0] == 1 ? 0 : 1;
  return {layout.scale_shape[1 - contiguous], layout.scale_strides[1 - contiguous]};
}

// Blocks of 32, whose scales are ue8m0: a byte each.
bool has_mx_scales(const octet_quantized_layout& layout) { return layout.block.cols == 32; }

std::string text_of(Extents extents) {
  return "[" + std::to_string(extents.rows) + ", " + std::to_string(extents.cols) + "]";
}

// The data of a dense matrix of exactly these extents.
void* dense_data(const Tensor& tensor, std::int32_t dtype, Extents wanted, const std::string& name,
                 const char* dtype_name) {
  std::int32_t given = 0;
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  void* data = nullptr;
  shim.get_dtype(tensor.get(), &given);
  shim.get_dim(tensor.get(), &rank);
  shim.get_sizes(tensor.get(), &sizes);
  shim.get_strides(tensor.get(), &strides);
  shim.get_data(tensor.get(), &data);
  const bool shape = rank == 2 && sizes[0] == wanted.rows && sizes[1] == wanted.cols;
  const bool dense =
      shape && (wanted.rows * wanted.cols == 0 ||
                (strides[1] == 1 && (wanted.rows == 1 || strides[0] == wanted.cols)));
  if (given == dtype && dense) return data;
  std::string shape_given = "[";
  for (std::int64_t i = 0; i < rank; ++i) {
    shape_given += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  refuse("octet: " + name + " must be a contiguous " + dtype_name + " tensor of shape " +
         text_of(wanted) + ", got " + shape_given + "]" +
         (given != dtype ? " of another dtype"
          : shape        ? " with other strides"
                         : ""));
}

// The scales of whole rows, columns or a tensor without elements. octet casts no such matrix, so one
// row or column of zeros is cast in its place: its largest magnitude is 0 as well.
Tensor scales_of_zeros(const octet_quantized_layout& layout, const Tensor& like,
                       const ScaleOptions& options) {
  octet_quantize_problem problem;
  octet_init_quantize_problem(&problem);
  problem.input_dtype = OCTET_BF16;  // every device casts it
  problem.rows = std::max<std::int64_t>(layout.rows, 1);
  problem.cols = std::max<std::int64_t>(layout.cols, 1);
  problem.format = layout.dtype;
  problem.block = layout.block;
  problem.transposed_block = octet_no_copy();
  problem.amax_floor = options.amax_floor;
  problem.pow2_scales = options.pow2_scales ? 1 : 0;
  problem.device = device_of(like);
  const Tensor zeros = empty({problem.rows, problem.cols}, shim.bf16, like);
  set_to_zero(zeros);
  const octet_quantized_layout cast =
      layout_of(problem.rows, problem.cols, layout.dtype, layout.block);
  Quantized out = empty_quantized(cast, like);
  octet_quantize_args args;
  OCTET_INIT(&args);
  args.input = view_of(zeros, "zeros");
  args.out = view_of(out, cast, "out");
  const CachedPlan plan = find_plan(problem, octet_make_quantize_plan);
  const Workspace workspace(plan.workspace_bytes, like);
  check(octet_run_quantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                           current_stream(problem.device)));
  return std::move(out.scales);
}

}  // namespace

octet_quantized_layout layout_of(std::int64_t rows, std::int64_t cols, octet_dtype format,
                                 octet_block block) {
  octet_quantized_layout layout;
  OCTET_INIT(&layout);
  check(octet_make_quantized_layout(rows == 0 ? 1 : rows, cols == 0 ? 1 : cols, format, block,
                                    &layout));
  const int contiguous = layout.scale_strides[0] == 1 ? 0 : 1;
  const auto remove = [&](int dimension) {
    layout.scale_shape[dimension] = 0;
    if (contiguous == dimension) layout.scale_strides[1 - dimension] = 0;
  };
  if (rows == 0) {
    layout.rows = 0;
    if (block.rows != OCTET_ALL) remove(0);
  }
  if (cols == 0) {
    layout.cols = layout.pitch = 0;
    if (block.cols != OCTET_ALL) remove(1);
  }
  return layout;
}

Quantized empty_quantized(const octet_quantized_layout& layout, const Tensor& like,
                          const ScaleOptions& options) {
  const Extents values = physical_values(layout), scales = physical_scales(layout);
  Quantized out{
      empty({values.rows, values.cols}, shim.u8, like),
      empty({scales.rows, scales.cols}, has_mx_scales(layout) ? shim.u8 : shim.f32, like)};
  const bool is_empty = layout.rows == 0 || layout.cols == 0;
  if (is_empty && scales.rows * scales.cols != 0) {
    out.scales = scales_of_zeros(layout, like, options);
  }
  return out;
}

octet_quantized view_of(const Quantized& quantized, const octet_quantized_layout& layout,
                        const char* name) {
  const std::string text = name;
  void* const values =
      dense_data(quantized.values, shim.u8, physical_values(layout), text + ".values", "uint8");
  const bool mx = has_mx_scales(layout);
  void* const scales =
      dense_data(quantized.scales, mx ? shim.u8 : shim.f32, physical_scales(layout),
                 text + ".scales", mx ? "uint8" : "float32");
  const octet_device device = device_of(quantized.scales);
  octet_quantized view{};
  view.values = octet_matrix(values, layout.dtype, layout.rows, layout.cols, device);
  view.values.strides[0] = layout.pitch;
  view.scales = octet_matrix(scales, mx ? OCTET_UE8M0 : OCTET_F32, layout.scale_shape[0],
                             layout.scale_shape[1], device);
  std::copy_n(layout.scale_strides, 2, view.scales.strides);
  view.block = layout.block;
  view.owns_padding = 1;
  return view;
}

}  // namespace octet_torch
