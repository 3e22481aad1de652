// The C structs of operators over groups.
#pragma once

#include "bad_input/c_structs.hpp"

namespace octet::bad_input {

inline octet_group_table_problem to_c(const GroupTableProblem& problem) {
  octet_group_table_problem c;
  octet_init_group_table_problem(&c);
  c.groups = problem.groups;
  c.rows = problem.rows;
  c.given = static_cast<octet_group_sizes>(problem.given);
  c.sizes_dtype = static_cast<octet_dtype>(problem.sizes_dtype);
  c.device = to_c(problem.device);
  return c;
}

inline octet_group_table_args to_c(const GroupTableArgs& args) {
  octet_group_table_args c;
  OCTET_INIT(&c);
  c.sizes = to_c(args.sizes);
  c.table = to_c(args.table);
  return c;
}

inline octet_grouped_gemm_problem to_c(const GroupedGemmProblem& problem) {
  octet_grouped_gemm_problem c;
  octet_init_grouped_gemm_problem(&c);
  c.over = static_cast<octet_grouped_over>(problem.over);
  c.groups = problem.groups;
  c.rows = problem.rows;
  c.n = problem.n;
  c.k = problem.k;
  c.a = to_c(problem.a);
  c.b = to_c(problem.b);
  c.out_dtype = static_cast<octet_dtype>(problem.out_dtype);
  c.accumulate = problem.accumulate;
  c.tail = static_cast<octet_group_tail>(problem.tail);
  c.expected_rows = problem.expected_rows;
  c.max_multiprocessors = problem.max_multiprocessors;
  c.device = to_c(problem.device);
  return c;
}

inline octet_grouped_gemm_args to_c(const GroupedGemmArgs& args) {
  octet_grouped_gemm_args c;
  OCTET_INIT(&c);
  c.a = to_c(args.a);
  c.b = to_c(args.b);
  c.d = to_c(args.d);
  c.table = to_c(args.table);
  return c;
}

inline octet_fp8_grouped_linear_problem to_c(const Fp8GroupedLinearProblem& problem) {
  octet_fp8_grouped_linear_problem c;
  octet_init_fp8_grouped_linear_problem(&c);
  c.groups = problem.groups;
  c.rows = problem.rows;
  c.n = problem.n;
  c.k = problem.k;
  set_layer_fields(problem, c);
  c.tail = static_cast<octet_group_tail>(problem.tail);
  c.expected_rows = problem.expected_rows;
  return c;
}

inline octet_fp8_grouped_linear_forward_args to_c(const Fp8GroupedLinearForwardArgs& args) {
  octet_fp8_grouped_linear_forward_args c;
  OCTET_INIT(&c);
  c.x = to_c(args.x);
  c.w = to_c(args.w);
  c.weights = {to_c(args.weights.w), to_c(args.weights.w_t), {}};
  c.y = to_c(args.y);
  c.saved = {to_c(args.saved.x_t), to_c(args.saved.w_t), {}};
  c.table = to_c(args.table);
  return c;
}

inline octet_fp8_grouped_linear_backward_args to_c(const Fp8GroupedLinearBackwardArgs& args) {
  octet_fp8_grouped_linear_backward_args c;
  OCTET_INIT(&c);
  c.dy = to_c(args.dy);
  c.saved = {to_c(args.saved.x_t), to_c(args.saved.w_t), {}};
  c.dx = to_c(args.dx);
  c.dw = to_c(args.dw);
  c.table = to_c(args.table);
  return c;
}

}  // namespace octet::bad_input
