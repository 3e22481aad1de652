#include "torch/grouped.hpp"

#include "torch/error.hpp"
#include "torch/plan_cache.hpp"

#include <string>

namespace octet_torch {
namespace {

std::string text_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  return "[" + std::to_string(a) + ", " + std::to_string(b) + ", " + std::to_string(c) + "]";
}

}  // namespace

void check_shape(const octet_tensor& view, const char* name, const char* letters, std::int64_t a,
                 std::int64_t b, std::int64_t c) {
  if (view.shape[0] == a && view.shape[1] == b && view.shape[2] == c) return;
  refuse(std::string("octet: ") + name + " must be " + letters + " = " + text_of(a, b, c) +
         ", got " + text_of(view.shape[0], view.shape[1], view.shape[2]));
}

octet_tensor experts_view(const Tensor& w, const char* name, const char* letters) {
  const octet_tensor view = view_of(w, name, 3);
  if (view.shape[0] < 1 || view.shape[1] < 1 || view.shape[2] < 1) {
    refuse(std::string("octet: ") + name + " must be " + letters + " with elements, got " +
           text_of(view.shape[0], view.shape[1], view.shape[2]));
  }
  return view;
}

octet_quantized view_of(const octet_quantized_batch_layout& layout, const Tensor& memory,
                        const char* name, octet_device device) {
  auto* const data = static_cast<char*>(
      dense_memory(memory, shim.u8, static_cast<std::int64_t>(layout.bytes), name));
  octet_quantized view{};
  view.values = {data, layout.dtype, 3, {}, {}, device};
  view.scales = {data + layout.scales_offset, OCTET_F32, 3, {}, {}, device};
  const std::int64_t shape[] = {layout.batch, layout.rows, layout.cols};
  const std::int64_t strides[] = {layout.rows * layout.pitch, layout.pitch, 1};
  for (int i = 0; i < 3; ++i) {
    view.values.shape[i] = shape[i];
    view.values.strides[i] = strides[i];
    view.scales.shape[i] = layout.scale_shape[i];
    view.scales.strides[i] = layout.scale_strides[i];
  }
  view.block = layout.block;
  view.owns_padding = 1;
  return view;
}

Fp8Batch cast_experts(const Tensor& w, const char* name, octet_dtype format, Turned turned) {
  octet_quantize_args args;
  OCTET_INIT(&args);
  args.input = view_of(w, name, 3);
  octet_quantize_problem problem;
  octet_init_quantize_problem(&problem);
  problem.input_dtype = args.input.dtype;
  problem.batch = args.input.shape[0];
  problem.rows = args.input.shape[1];
  problem.cols = args.input.shape[2];
  problem.format = format;
  problem.block = turned == Turned::no ? square_block() : octet_no_copy();
  problem.transposed_block = turned == Turned::yes ? square_block() : octet_no_copy();
  problem.device = args.input.device;
  octet_quantized_batch_layout layout;
  OCTET_INIT(&layout);
  check(octet_make_quantized_batch_layout(
      problem.batch, turned == Turned::no ? problem.rows : problem.cols,
      turned == Turned::no ? problem.cols : problem.rows, format, square_block(), &layout));
  Fp8Batch out{empty({static_cast<std::int64_t>(layout.bytes)}, shim.u8, w), {}};
  out.view = view_of(layout, out.memory, name, problem.device);
  (turned == Turned::no ? args.out : args.transposed) = out.view;
  const CachedPlan plan = find_plan(problem, octet_make_quantize_plan);
  const Workspace workspace(plan.workspace_bytes, w);
  check(octet_run_quantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                           current_stream(problem.device)));
  return out;
}

octet_tensor experts_main_grad(const Tensor& main_grad, const char* name, const octet_tensor& w) {
  const octet_tensor view = view_of(main_grad, name, 3);
  check_shape(view, name, "the shape of its weight", w.shape[0], w.shape[1], w.shape[2]);
  const std::string argument = std::string("octet: ") + name;
  if (view.dtype == OCTET_F16) refuse_dtype(argument + " must be float32 or bfloat16, got float16");
  if (view.device.type != w.device.type || view.device.index != w.device.index) {
    refuse(argument + " must be on the device of the weight, " + octet_torch::text_of(w.device) +
           ", got " + octet_torch::text_of(view.device));
  }
  if (view.strides[2] != 1 || view.strides[1] < view.shape[2] ||
      view.strides[0] < view.shape[1] * view.strides[1]) {
    refuse(argument + " must have contiguous rows that do not overlap");
  }
  return view;
}

void* dense_memory(const Tensor& tensor, std::int32_t dtype, std::int64_t elements,
                   const char* name) {
  std::int32_t given = 0;
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  void* data = nullptr;
  shim.get_dtype(tensor.get(), &given);
  shim.get_dim(tensor.get(), &rank);
  shim.get_sizes(tensor.get(), &sizes);
  shim.get_strides(tensor.get(), &strides);
  shim.get_data(tensor.get(), &data);
  if (given == dtype && rank == 1 && sizes[0] == elements && (elements < 2 || strides[0] == 1)) {
    return data;
  }
  refuse(std::string("octet: ") + name + " must be a contiguous " +
         (dtype == shim.u8 ? "uint8" : "int32") + " tensor of shape [" + std::to_string(elements) +
         "], as forward wrote it");
}

}  // namespace octet_torch
