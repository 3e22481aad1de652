// Runs one call through C++ and through C, in two blocks of memory with the same layout.
#pragma once

#include "bad_input/both_apis.hpp"
#include "core/numeric.hpp"

#include <cmath>

namespace octet {

using namespace bad_input;

// Fills dense views of any float dtype.
inline void fill(const TensorView& view, int seed) {
  std::int64_t elements = 1;
  for (int i = 0; i < view.rank; ++i) elements *= view.shape[static_cast<std::size_t>(i)];
  for (std::int64_t i = 0; i < elements; ++i) {
    store_f32(view.data, i, view.dtype, std::sin(static_cast<float>(i + seed)) * 4);
  }
}

inline TensorView filled(const TensorView& view, int seed) {
  fill(view, seed);
  return view;
}

// Makes a plan through C and runs it with a workspace of its own.
template <class Problem, class Args>
void run_c(const Problem& problem, const Args& args) {
  octet_plan* made = nullptr;
  ASSERT_EQ(c_plan(problem, &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  const Buffer workspace(octet_plan_workspace_bytes(made));
  ASSERT_EQ(c_run(made, args, {workspace.data(), workspace.bytes()}), OCTET_OK)
      << octet_last_error();
}

template <class Problem, class Args>
void run_cpp(const Problem& problem, const Args& args) {
  const auto plan = cpp_plan(problem);
  const Buffer workspace(plan.workspace_bytes);
  run(plan, args, {workspace.data(), workspace.bytes()});
}

// Both arenas have the same layout, so equal arenas mean equal outputs in the same places.
template <class Problem, class MakeArgs>
void expect_same_bits(const Problem& problem, const MakeArgs& make_args) {
  Arena cpp(1 << 20);
  Arena c(1 << 20);
  const auto cpp_args = make_args(cpp);
  const auto c_args = make_args(c);
  const std::vector<char> before = c.snapshot();
  run_cpp(problem, cpp_args);
  run_c(problem, c_args);
  EXPECT_NE(c.snapshot(), before) << "nothing was written";
  EXPECT_EQ(c.snapshot(), cpp.snapshot());
}

}  // namespace octet
