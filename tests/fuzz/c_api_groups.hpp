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

}  // namespace octet::fuzz
