// The gradients of the reference against differences of its forward.
#include "ops/attention/attention_case.hpp"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

// The sum that backward differentiates: out . dout + lse . dlse.
double loss(const AttentionCall& call) {
  run_with_workspace(plan_attention_forward(call.problem, {"cpu_reference", 1}), call.forward());
  double sum = 0;
  for (std::int64_t n = 0; n < elements(call.out); ++n) {
    sum += element(call.out, n) * element(call.dout, n);
  }
  for (std::int64_t n = 0; n < elements(call.lse); ++n) {
    if (std::isfinite(element(call.lse, n))) sum += element(call.lse, n) * element(call.dlse, n);
  }
  return sum;
}

TEST(AttentionGradient, IsTheDerivativeOfForward) {
  const AttentionProblem problem{.batch = 2,
                                 .seq_q = 5,
                                 .seq_kv = 4,
                                 .heads_q = 2,
                                 .heads_kv = 1,
                                 .dim_qk = 3,
                                 .dim_v = 2,
                                 .dtype = Dtype::f32,
                                 .mask = {2, 1},
                                 .sink = true};
  const AttentionCall call(problem);
  call.fill(9);
  run_both("cpu_reference", call);
  const std::pair<const HostTensor*, const HostTensor*> pairs[] = {
      {&call.q, &call.dq}, {&call.k, &call.dk}, {&call.v, &call.dv}, {&call.sink, &call.dsink}};
  for (const auto& [input, gradient] : pairs) {
    for (std::int64_t n = 0; n < elements(*input); ++n) {
      const double value = element(*input, n);
      constexpr double kStep = 0x1p-7;
      set(*input, n, value + kStep);
      const double above = loss(call), up = element(*input, n);
      set(*input, n, value - kStep);
      const double below = loss(call), down = element(*input, n);
      set(*input, n, value);
      EXPECT_NEAR(element(*gradient, n), (above - below) / (up - down), 2e-3);
    }
  }
}

}  // namespace
}  // namespace octet::testing
