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

}  // namespace octet::fuzz
