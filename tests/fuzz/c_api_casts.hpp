// Quantised tensors: quantize, dequantize, repack and their layouts.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline void fuzz_quantize(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_quantize_problem);
  octet_quantize_problem& p = problem.known;
  p.rows = input.extent();
  p.cols = input.extent();
  p.input_dtype = input.float_dtype();
  p.format = input.fp8_dtype();
  p.block = input.block();
  p.transposed_block = input.block();
  p.amax_floor = input.real();
  p.pow2_scales = input.flag();
  if (input.coin()) p.given_scales = input.flag();
  if (input.coin()) p.fold_mx = input.flag();
  if (input.coin()) p.mx_scale = static_cast<octet_mx_scale>(input.few());
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_quantize_plan);
  if (plan == nullptr || is_long({p.rows, p.cols})) return;
  auto args = with_tail<octet_quantize_args>();
  args.known.input = input.tensor(p.input_dtype, p.rows, p.cols);
  args.known.out = input.quantized(p.format, p.rows, p.cols, p.block);
  args.known.transposed = input.quantized(p.format, p.cols, p.rows, p.transposed_block);
  memory.run(input, plan.get(), octet_run_quantize, args);
}

inline void fuzz_dequantize(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_dequantize_problem);
  octet_dequantize_problem& p = problem.known;
  p.rows = input.extent();
  p.cols = input.extent();
  p.format = input.fp8_dtype();
  p.block = input.block();
  p.out_dtype = input.float_dtype();
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_dequantize_plan);
  if (plan == nullptr || is_long({p.rows, p.cols})) return;
  auto args = with_tail<octet_dequantize_args>();
  args.known.input = input.quantized(p.format, p.rows, p.cols, p.block);
  args.known.out = input.tensor(p.out_dtype, p.rows, p.cols);
  memory.run(input, plan.get(), octet_run_dequantize, args);
}

inline void fuzz_repack(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_repack_problem);
  octet_repack_problem& p = problem.known;
  p.rows = input.extent();
  p.cols = input.extent();
  p.format = input.fp8_dtype();
  p.block = input.block();
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_repack_plan);
  if (plan == nullptr || is_long({p.rows, p.cols})) return;
  auto args = with_tail<octet_repack_args>();
  args.known.input = input.quantized(p.format, p.rows, p.cols, p.block);
  args.known.out = input.quantized(p.format, p.rows, p.cols, p.block);
  memory.run(input, plan.get(), octet_run_repack, args);
}

inline void fuzz_batch_layout(Input& input, Memory& memory) {
  octet_quantized_batch_layout layout;
  std::memset(&layout, 0, sizeof layout);
  const octet_status made =
      input.coin()
          ? octet_make_quantized_batch_layout(input.extent(), input.extent(), input.extent(),
                                              input.number(0, 7), input.block(), &layout)
          : octet_make_token_block_layout(input.extent(), input.extent(), input.number(0, 7),
                                          input.block(), &layout);
  check_status(made);
  if (made == OCTET_OK && layout.bytes < layout.scales_offset) give_up("a layout that wraps");
  if (input.spoilt()) layout.rows = input.extent();
  if (input.spoilt()) layout.token_blocks = input.flag();
  octet_quantized view;
  check_status(octet_make_quantized_batch_view(&layout, memory.arena() + input.choice(3) * 128,
                                               input.device(), &view));
}

inline void fuzz_layout(Input& input, Memory& memory) {
  if (input.coin()) return fuzz_batch_layout(input, memory);
  octet_quantized_layout layout;
  std::memset(&layout, 0, sizeof layout);
  const octet_status made = octet_make_quantized_layout(input.extent(), input.extent(),
                                                        input.number(0, 7), input.block(), &layout);
  check_status(made);
  if (made == OCTET_OK && layout.bytes < layout.scales_offset) give_up("a layout that wraps");
  if (input.spoilt()) layout.rows = input.extent();
  octet_quantized view;
  check_status(octet_make_quantized_view(&layout, memory.arena() + input.choice(3) * 128,
                                         input.device(), &view));
}

}  // namespace octet::fuzz
