// Operators over groups.
#pragma once

#include "fuzz/c_api_call.hpp"

namespace octet::fuzz {

inline void fuzz_group_table(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_group_table_problem);
  octet_group_table_problem& p = problem.known;
  p.given = input.spoilt() ? input.choice(9) : 1 + input.choice(3);
  p.groups = input.extent();
  p.rows = input.extent();
  p.sizes_dtype = input.coin() ? OCTET_I32 : OCTET_I64;
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_group_table_plan);
  if (plan == nullptr || is_long({p.groups, p.rows})) return;
  int64_t words = 0;
  if (octet_group_table_words(p.groups, p.rows, &words) != OCTET_OK) __builtin_trap();
  auto args = with_tail<octet_group_table_args>();
  octet_group_table_args& a = args.known;
  a.sizes = input.tensor(p.sizes_dtype, {p.groups + (p.given == OCTET_GROUP_OFFSETS ? 1 : 0)});
  a.table = input.tensor(OCTET_I32, {words});
  memory.run(input, plan.get(), octet_run_group_table, args);
}

// A table that was made for as many groups and rows, or whatever the arena holds.
inline octet_tensor group_table(Input& input, int64_t groups, int64_t rows) {
  int64_t words = 0;
  if (octet_group_table_words(groups, rows, &words) != OCTET_OK) __builtin_trap();
  const octet_tensor table = input.tensor(OCTET_I32, {words});
  if (input.spoilt()) return table;
  std::vector<std::int32_t> sizes(static_cast<std::size_t>(groups));
  for (std::int32_t& size : sizes) size = input.number(0, 9);
  octet_group_table_problem problem;
  octet_init_group_table_problem(&problem);
  problem.groups = groups;
  problem.rows = rows;
  octet_group_table_args args;
  OCTET_INIT(&args);
  args.sizes = octet_vector(sizes.data(), OCTET_I32, groups, octet_cpu());
  args.table = table;
  const Plan plan = plan_with(
      [&](octet_plan** out) { return octet_make_group_table_plan(&problem, nullptr, out); });
  check_status(octet_run_group_table(plan.get(), &args, nullptr, 0, nullptr));
  return table;
}

// quantize over a batch, or over groups.
inline void fuzz_quantize_groups(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_quantize_problem);
  octet_quantize_problem& p = problem.known;
  p.rows = input.extent();
  p.cols = input.extent();
  p.input_dtype = input.float_dtype();
  p.format = input.fp8_dtype();
  p.transposed_block = input.coin() ? octet_block_of(1, 128) : octet_block_of(128, 128);
  if (input.spoilt()) p.block = input.block();
  if (input.spoilt()) p.transposed_block = input.block();
  p.pow2_scales = input.flag();
  const bool batch = input.coin();
  if (batch || input.spoilt()) p.batch = input.number(1, 5);
  if (!batch || input.spoilt()) p.groups = input.number(1, 5);
  if ((!batch && input.coin()) || input.spoilt()) p.source_rows = input.extent();
  if ((p.source_rows > 0 && input.coin()) || input.spoilt()) p.source_top_k = input.few();
  p.tail = input.number(OCTET_TAIL_ZERO, OCTET_TAIL_UNTOUCHED);
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_quantize_plan);
  if (plan == nullptr || is_long({p.batch + p.groups, p.rows + 128, p.cols}) ||
      is_long({p.source_rows, p.cols})) {
    return;
  }
  auto args = with_tail<octet_quantize_args>();
  octet_quantize_args& a = args.known;
  if (p.batch > 0) {
    a.input = input.tensor(p.input_dtype, {p.batch, p.rows, p.cols});
    a.out = input.quantized_batch(p.format, p.batch, p.rows, p.cols, p.block);
    a.transposed = input.quantized_batch(p.format, p.batch, p.cols, p.rows, p.transposed_block);
  } else if (p.groups > 0) {
    int64_t blocks = 0;
    if (octet_max_token_blocks(p.groups, p.rows, &blocks) != OCTET_OK) __builtin_trap();
    a.input = input.tensor(p.input_dtype, p.source_rows > 0 ? p.source_rows : p.rows, p.cols);
    a.out = input.quantized(p.format, p.rows, p.cols, p.block);
    a.transposed = input.quantized_batch(p.format, blocks, p.cols, 128, p.transposed_block);
    a.table = group_table(input, p.groups, p.rows);
    a.source = input.tensor(OCTET_I32, {p.rows});
    // A source that lies in the arena as it should gets rows that are mostly there.
    if (a.source.data != nullptr && a.source.rank == 1 && a.source.strides[0] == 1 &&
        a.source.shape[0] == p.rows && a.source.dtype == OCTET_I32) {
      for (int64_t r = 0; r < p.rows; ++r) {
        const std::int32_t row = input.number(0, 3);
        std::memcpy(static_cast<char*>(a.source.data) + 4 * r, &row, sizeof row);
      }
    }
  }
  memory.run(input, plan.get(), octet_run_quantize, args);
}

inline void fuzz_grouped_gemm(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_grouped_gemm_problem);
  octet_grouped_gemm_problem& p = problem.known;
  const bool over_rows = input.coin();
  p.over = over_rows ? OCTET_GROUPED_OVER_ROWS : OCTET_GROUPED_OVER_CONTRACTION;
  if (input.spoilt()) p.over = input.number(0, 3);
  p.groups = input.few();
  p.rows = input.extent();
  p.n = input.extent();
  p.k = input.extent();
  const bool fp8 = input.coin();
  p.a.dtype = fp8 ? input.fp8_dtype() : input.float_dtype();
  p.b.dtype = fp8 ? input.fp8_dtype() : p.a.dtype;
  p.a.block = input.spoilt() ? input.block() : fp8 ? octet_block_of(1, 128) : octet_unscaled();
  const octet_block b_block = octet_block_of(input.coin() ? 1 : 128, 128);
  p.b.block = input.spoilt() ? input.block() : fp8 ? b_block : octet_unscaled();
  p.a.major = fp8 ? 0 : !over_rows || input.coin();
  p.b.major = fp8 ? 0 : !over_rows || input.coin();
  p.out_dtype = input.float_dtype();
  p.accumulate = over_rows && !input.spoilt() ? 0 : input.flag();
  p.tail = input.number(OCTET_TAIL_ZERO, OCTET_TAIL_UNTOUCHED);
  p.expected_rows = input.spoilt() ? input.extent() : 0;
  p.max_multiprocessors = input.spoilt() ? input.number(-1, 200) : 0;
  p.device = input.device();
  input.grow(&problem);
  const Plan plan = plan_one(input, p, octet_make_grouped_gemm_plan);
  if (plan == nullptr || is_long({p.groups, p.rows + 128, p.n, p.k})) return;
  int64_t blocks = 0;
  if (octet_max_token_blocks(p.groups, p.rows, &blocks) != OCTET_OK) __builtin_trap();
  // An operand of the shape [rows, cols], whichever dimension is contiguous.
  const auto matrix = [&](octet_dtype dtype, int64_t rows, int64_t cols) {
    octet_quantized view{};
    view.values = input.tensor(dtype, rows, cols);
    return view;
  };
  auto args = with_tail<octet_grouped_gemm_args>();
  octet_grouped_gemm_args& a = args.known;
  if (p.over == OCTET_GROUPED_OVER_ROWS) {
    a.a = fp8 ? input.quantized(p.a.dtype, p.rows, p.k, p.a.block) : matrix(p.a.dtype, p.rows, p.k);
    a.b = input.quantized_batch(p.b.dtype, p.groups, p.n, p.k, p.b.block);
    a.d = input.tensor(p.out_dtype, p.rows, p.n);
  } else {
    a.a = fp8 ? input.quantized_batch(p.a.dtype, blocks, p.n, 128, p.a.block)
              : matrix(p.a.dtype, p.rows, p.n);
    a.b = fp8 ? input.quantized_batch(p.b.dtype, blocks, p.k, 128, p.b.block)
              : matrix(p.b.dtype, p.rows, p.k);
    a.d = input.tensor(p.out_dtype, {p.groups, p.n, p.k});
  }
  a.table = group_table(input, p.groups, p.rows);
  memory.run(input, plan.get(), octet_run_grouped_gemm, args);
}

inline void fuzz_grouped_layer(Input& input, Memory& memory) {
  auto problem = with_tail(octet_init_fp8_grouped_linear_problem);
  octet_fp8_grouped_linear_problem& p = problem.known;
  p.groups = input.few();
  p.rows = input.extent();
  p.n = input.extent();
  p.k = input.extent();
  p.dtype = input.float_dtype();
  p.format = input.fp8_dtype();
  p.grad_format = input.fp8_dtype();
  p.weights_quantized = input.flag();
  read_training(input, &p);
  p.tail = input.number(OCTET_TAIL_ZERO, OCTET_TAIL_UNTOUCHED);
  p.device = input.device();
  input.grow(&problem);
  octet_fp8_grouped_linear_saved_layout saved_layout;
  check_status(octet_make_fp8_grouped_linear_saved_layout(&p, &saved_layout));
  const PlannedPass pass = plan_pass(input, p, &octet_fp8_linear_options::gemm_backend,
                                     octet_make_fp8_grouped_linear_forward_plan,
                                     octet_make_fp8_grouped_linear_backward_plan);
  if (pass.plan == nullptr || is_long({p.groups, p.rows + 128, p.n, p.k})) return;
  int64_t blocks = 0;
  if (octet_max_token_blocks(p.groups, p.rows, &blocks) != OCTET_OK) __builtin_trap();
  const octet_block x_t_block = octet_block_of(p.wgrad_blocks == OCTET_WGRAD_SQUARE ? 128 : 1, 128);
  const octet_block square = octet_block_of(128, 128);
  const octet_fp8_linear_saved saved = {
      input.quantized_batch(p.format, blocks, p.k, 128, x_t_block),
      input.quantized_batch(p.format, p.groups, p.k, p.n, square),
      {}};
  octet_fp8_grouped_linear_forward_args f;
  octet_fp8_grouped_linear_backward_args b;
  OCTET_INIT(&f);
  OCTET_INIT(&b);
  f.saved = b.saved = saved;
  f.table = b.table = group_table(input, p.groups, p.rows);
  if (pass.forward) {
    f.x = input.tensor(p.dtype, p.rows, p.k);
    f.w = input.tensor(p.dtype, {p.groups, p.n, p.k});
    f.weights.w = input.quantized_batch(p.format, p.groups, p.n, p.k, square);
    f.y = input.tensor(p.dtype, p.rows, p.n);
  } else {
    b.dy = input.tensor(p.dtype, p.rows, p.n);
    b.dx = input.tensor(p.dtype, p.rows, p.k);
    b.dw = input.tensor(p.dw_dtype, {p.groups, p.n, p.k});
  }
  pass.run(
      input,
      [&](Input&, const octet_plan* plan) {
        memory.run(input, plan, octet_run_fp8_grouped_linear_forward, f);
      },
      [&](Input&, const octet_plan* plan) {
        memory.run(input, plan, octet_run_fp8_grouped_linear_backward, b);
      });
}

}  // namespace octet::fuzz
