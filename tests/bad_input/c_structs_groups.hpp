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

}  // namespace octet::bad_input
