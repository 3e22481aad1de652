// moe_route passes the gates in every dtype and form, and every gate is applied to every output.
#include "ops/moe_route/case.hpp"
#include "support/gates.hpp"

namespace octet {
namespace {

TEST(MoeRouteGates, PassInEveryForm) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const RouteScore score : {RouteScore::softmax, RouteScore::sigmoid}) {
      for (const bool plain : {true, false}) {
        MoeRouteProblem problem{.tokens = 65, .experts = 24, .top_k = 5, .dtype = dtype};
        problem.score = score;
        problem.normalize = plain;
        problem.bias = !plain;
        problem.expert_groups = plain ? 1 : 4;
        problem.top_groups = plain ? 1 : 2;
        problem.scale = plain ? 1 : 2.5f;
        expect_pass(check_moe_route(problem, {}), describe(problem));
      }
    }
  }
}

TEST(MoeRouteGates, JudgeEveryOutput) {
  std::string tensors[4];
  const char* gates[4] = {"E1", "E2", "G5", "G6"};
  for (const GateResult& one :
       check_moe_route({.tokens = 300, .experts = 12, .top_k = 4}, {}).results) {
    for (int i = 0; i < 4; ++i) {
      if (one.gate == gates[i]) tensors[i] += one.tensor + " ";
    }
  }
  EXPECT_EQ(tensors[0], "scores weights dlogits ");
  for (int i = 1; i < 4; ++i) EXPECT_EQ(tensors[i], "scores indices weights dlogits ") << gates[i];
}

}  // namespace
}  // namespace octet
