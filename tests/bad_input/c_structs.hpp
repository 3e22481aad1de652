// Converts C++ problems and arguments to C structs, so that one description of a bad call serves
// both APIs.
#pragma once

#include "c_api/read.hpp"

namespace octet::bad_input {

inline octet_device to_c(Device device) {
  return {static_cast<octet_device_type>(device.type), device.index};
}
inline octet_block to_c(BlockShape block) { return {block.rows, block.cols}; }
// Not inlined: otherwise GCC 12 warns that an empty optional is uninitialised.
[[gnu::noinline]] inline octet_block to_c(const std::optional<BlockShape>& block) {
  return block ? to_c(*block) : octet_no_copy();
}
// 0: none.
[[gnu::noinline]] inline octet_dtype to_c(const std::optional<Dtype>& dtype) {
  return dtype ? static_cast<octet_dtype>(*dtype) : 0;
}
inline octet_tensor to_c(const TensorView& view) {
  octet_tensor tensor{};
  tensor.data = view.data;
  tensor.dtype = static_cast<octet_dtype>(view.dtype);
  tensor.rank = view.rank;
  std::copy(view.shape.begin(), view.shape.end(), tensor.shape);
  std::copy(view.strides.begin(), view.strides.end(), tensor.strides);
  tensor.device = to_c(view.device);
  return tensor;
}
inline octet_quantized to_c(const QuantizedView& view) {
  return {to_c(view.values), to_c(view.scales), to_c(view.block), view.owns_padding, 0, {}};
}

inline octet_gemm_operand to_c(const GemmOperand& operand) {
  octet_gemm_operand c;
  octet_init_gemm_operand(&c);
  c.dtype = static_cast<octet_dtype>(operand.dtype);
  c.block = to_c(operand.block);
  c.major = static_cast<octet_major>(operand.major);
  c.scale_dtype = static_cast<octet_dtype>(operand.scale_dtype);
  return c;
}
inline octet_gemm_problem to_c(const GemmProblem& problem) {
  octet_gemm_problem c;
  octet_init_gemm_problem(&c);
  c.m = problem.m;
  c.n = problem.n;
  c.k = problem.k;
  c.a = to_c(problem.a);
  c.b = to_c(problem.b);
  c.out_dtype = static_cast<octet_dtype>(problem.out_dtype);
  c.accumulate = problem.accumulate;
  c.device = to_c(problem.device);
  c.group_kind = static_cast<octet_group_kind>(problem.groups);
  c.activation = static_cast<octet_activation>(problem.activation);
  c.bias_dtype = to_c(problem.bias_dtype);
  c.max_multiprocessors = problem.max_multiprocessors;
  c.fast_accumulation = problem.fast_accumulation;
  return c;
}
inline octet_gemm_args to_c(const GemmArgs& args) {
  octet_gemm_args c;
  OCTET_INIT(&c);
  c.a = to_c(args.a);
  c.b = to_c(args.b);
  c.d = to_c(args.d);
  c.bias = to_c(args.bias);
  return c;
}

inline octet_quantize_problem to_c(const QuantizeProblem& problem) {
  octet_quantize_problem c;
  octet_init_quantize_problem(&c);
  c.rows = problem.rows;
  c.cols = problem.cols;
  c.input_dtype = static_cast<octet_dtype>(problem.input_dtype);
  c.format = static_cast<octet_dtype>(problem.format);
  c.block = to_c(problem.block);
  c.transposed_block = to_c(problem.transposed_block);
  c.amax_floor = problem.amax_floor;
  c.pow2_scales = problem.pow2_scales;
  c.tail = static_cast<octet_group_tail>(problem.tail);
  c.batch = problem.batch;
  c.groups = problem.groups;
  c.source_rows = problem.source_rows;
  c.source_top_k = problem.source_top_k;
  c.given_scales = problem.given_scales;
  c.fold_mx = problem.fold_mx;
  c.mx_scale = static_cast<octet_mx_scale>(problem.mx_scale);
  c.device = to_c(problem.device);
  return c;
}
inline octet_quantize_args to_c(const QuantizeArgs& args) {
  octet_quantize_args c;
  OCTET_INIT(&c);
  c.input = to_c(args.input);
  c.out = to_c(args.out);
  c.transposed = to_c(args.transposed);
  c.table = to_c(args.table);
  c.source = to_c(args.source);
  return c;
}

inline octet_dequantize_problem to_c(const DequantizeProblem& problem) {
  octet_dequantize_problem c;
  octet_init_dequantize_problem(&c);
  c.rows = problem.rows;
  c.cols = problem.cols;
  c.format = static_cast<octet_dtype>(problem.format);
  c.block = to_c(problem.block);
  c.out_dtype = static_cast<octet_dtype>(problem.out_dtype);
  c.device = to_c(problem.device);
  return c;
}
inline octet_dequantize_args to_c(const DequantizeArgs& args) {
  octet_dequantize_args c;
  OCTET_INIT(&c);
  c.input = to_c(args.input);
  c.out = to_c(args.out);
  return c;
}

inline octet_repack_problem to_c(const RepackProblem& problem) {
  octet_repack_problem c;
  octet_init_repack_problem(&c);
  c.rows = problem.rows;
  c.cols = problem.cols;
  c.format = static_cast<octet_dtype>(problem.format);
  c.block = to_c(problem.block);
  c.device = to_c(problem.device);
  return c;
}
inline octet_repack_args to_c(const RepackArgs& args) {
  octet_repack_args c;
  OCTET_INIT(&c);
  c.input = to_c(args.input);
  c.out = to_c(args.out);
  return c;
}

// Fields that a linear layer and an MLP of such layers share.
template <class Problem, class CProblem>
void set_layer_fields(const Problem& problem, CProblem& c) {
  c.dtype = static_cast<octet_dtype>(problem.dtype);
  c.format = static_cast<octet_dtype>(problem.format);
  c.grad_format = static_cast<octet_dtype>(problem.grad_format);
  c.weights_quantized = problem.weights_quantized;
  c.training = problem.training;
  c.need_dx = problem.need_dx;
  c.need_dw = problem.need_dw;
  c.dw_dtype = static_cast<octet_dtype>(problem.dw_dtype);
  c.accumulate_dw = problem.accumulate_dw;
  c.wgrad_blocks = static_cast<octet_wgrad_blocks>(problem.wgrad_blocks);
  c.amax_floor = problem.amax_floor;
  c.pow2_scales = problem.pow2_scales;
  c.max_multiprocessors = problem.max_multiprocessors;
  c.device = to_c(problem.device);
}

// Of the layers whose scales may be shared in other ways than blockwise.
template <class Problem, class CProblem>
void set_granularity(const Problem& problem, CProblem& c) {
  c.granularity = static_cast<octet_granularity>(problem.granularity);
  c.fast_accumulation = problem.fast_accumulation;
  c.mx_scale = static_cast<octet_mx_scale>(problem.mx_scale);
}

inline octet_fp8_linear_problem to_c(const Fp8LinearProblem& problem) {
  octet_fp8_linear_problem c;
  octet_init_fp8_linear_problem(&c);
  c.m = problem.m;
  c.n = problem.n;
  c.k = problem.k;
  set_layer_fields(problem, c);
  set_granularity(problem, c);
  c.bias_dtype = to_c(problem.bias_dtype);
  c.dbias_dtype = to_c(problem.dbias_dtype);
  return c;
}
inline octet_fp8_linear_saved to_c(const Fp8LinearSaved& saved) {
  return {to_c(saved.x_t), to_c(saved.w_t), {}};
}
inline octet_fp8_linear_forward_args to_c(const Fp8LinearForwardArgs& args) {
  octet_fp8_linear_forward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.w = to_c(args.w);
  c.weights = {to_c(args.weights.w), to_c(args.weights.w_t), {}};
  c.y = to_c(args.y);
  c.saved = to_c(args.saved);
  c.bias = to_c(args.bias);
  return c;
}
inline octet_fp8_linear_backward_args to_c(const Fp8LinearBackwardArgs& args) {
  octet_fp8_linear_backward_args c;
  OCTET_INIT(&c);
  c.dy = to_c(args.dy);
  c.saved = to_c(args.saved);
  c.dx = to_c(args.dx);
  c.dw = to_c(args.dw);
  c.dbias = to_c(args.dbias);
  return c;
}

}  // namespace octet::bad_input
