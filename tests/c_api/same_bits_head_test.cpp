// The C API gives the bits of the C++ API, for linear_cross_entropy.
#include "c_api/same_bits.hpp"

namespace octet {
namespace {

constexpr std::int64_t kM = 9, kV = 21, kK = 17;

LinearCrossEntropyProblem head_problem(bool fp8, LossReduction reduction) {
  LinearCrossEntropyProblem problem{.m = kM, .v = kV, .k = kK, .dtype = Dtype::f32};
  problem.reduction = reduction;
  problem.fp8 = fp8;
  problem.target_dtype = Dtype::i32;
  problem.dw_dtype = Dtype::f32;
  problem.ignore_index = 4;
  return problem;
}

template <class Args>
Args head_args(Arena& arena, const LinearCrossEntropyProblem& problem) {
  Args args;
  args.x = filled(arena.matrix(Dtype::f32, kM, kK), 1);
  args.w = filled(arena.matrix(Dtype::f32, kV, kK), 2);
  args.targets = arena.tensor(Dtype::i32, {kM});
  for (int i = 0; i < kM; ++i) static_cast<std::int32_t*>(args.targets.data)[i] = 2 * i;
  const std::int64_t losses = problem.reduction == LossReduction::none ? kM : 1;
  args.loss_grad = filled(arena.tensor(Dtype::f32, {losses}), 3);
  if constexpr (requires { args.loss; }) {
    args.loss = arena.tensor(Dtype::f32, {losses});
    args.lse = arena.tensor(Dtype::f32, {kM});
  }
  args.dx = arena.matrix(Dtype::f32, kM, kK);
  args.dw = arena.matrix(Dtype::f32, kV, kK);
  return args;
}

TEST(CApiLinearCrossEntropy, ForwardAndBackwardHaveTheSameBits) {
  for (const bool fp8 : {false, true}) {
    for (const LossReduction reduction :
         {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
      const LinearCrossEntropyProblem problem = head_problem(fp8, reduction);
      SCOPED_TRACE(describe(problem));
      expect_same_bits(LinearCrossEntropyForward{problem}, [&](Arena& arena) {
        return head_args<LinearCrossEntropyForwardArgs>(arena, problem);
      });
      expect_same_bits(LinearCrossEntropyBackward{problem}, [&](Arena& arena) {
        return head_args<LinearCrossEntropyBackwardArgs>(arena, problem);
      });
    }
  }
}

}  // namespace
}  // namespace octet
