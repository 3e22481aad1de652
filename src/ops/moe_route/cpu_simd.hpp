// moe_route on the CPU with its instruction set given: the plan has the best set of the machine,
// the tests run each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/moe_route/problem.hpp"

namespace octet {

// The tensors of one token.
struct RoutedToken {
  const void* logits;     // [experts]
  const float* bias;      // [experts], or null
  std::int32_t* indices;  // [top_k]
  float* weights;         // [top_k]
  float* scores;          // [experts], or null
};

struct MoeRouteKernels {
  void (*forward)(const MoeRouteProblem& problem, const RoutedToken& token);
  // dlogits from scores [experts] and dscore [kMaxExperts], on a 64-byte boundary, zeros behind the
  // experts.
  void (*backward)(const MoeRouteProblem& problem, const float* scores, float* dscore,
                   void* dlogits);
};
const MoeRouteKernels& moe_route_kernels(Dtype dtype, InstructionSet instructions);

// Arguments are checked already.
void moe_route_cpu_simd(const MoeRouteProblem& problem, const MoeRouteForwardArgs& args,
                        const RunContext& context, InstructionSet instructions);
void moe_route_cpu_simd(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
                        const RunContext& context, InstructionSet instructions);

}  // namespace octet
