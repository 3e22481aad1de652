// Unsupported calls are refused with what was given and what was wanted.
#include "ops/rms_norm/case.hpp"
#include "support/refusal.hpp"

#include <limits>

namespace octet {
namespace {

RmsNormProblem small() { return {.rows = 2, .cols = 4}; }

template <class Change>
std::string refused_problem(const Change& change, ErrorCode code = ErrorCode::invalid_argument) {
  RmsNormProblem problem = small();
  change(problem);
  return refusal_of_both(problem, plan_rms_norm_forward, plan_rms_norm_backward, code);
}

TEST(RmsNormRefuses, ProblemsThatMeanNothing) {
  EXPECT_EQ(refused_problem([](auto& p) { p.rows = -1; }),
            "rms_norm: rows must be at least 0, got -1");
  EXPECT_EQ(refused_problem([](auto& p) { p.cols = 0; }),
            "rms_norm: cols must be at least 1, got 0");
  EXPECT_EQ(refused_problem([](auto& p) { p.dtype = Dtype::e4m3; }),
            "rms_norm: dtype must be f32, f16 or bf16, got e4m3");
  EXPECT_EQ(refused_problem([](auto& p) { p.weight_dtype = Dtype::i32; }),
            "rms_norm: weight_dtype must be f32, f16 or bf16, got i32");
  EXPECT_EQ(refused_problem([](auto& p) { p.dg_dtype = Dtype::ue8m0; }),
            "rms_norm: dg_dtype must be f32, f16 or bf16, got ue8m0");
  EXPECT_EQ(refused_problem([](auto& p) { p.eps = -1; }),
            "rms_norm: eps must be finite and at least 0, got -1");
  EXPECT_EQ(refused_problem([](auto& p) { p.eps = std::numeric_limits<float>::infinity(); }),
            "rms_norm: eps must be finite and at least 0, got inf");
  EXPECT_EQ(refused_problem([](auto& p) { p.rows = std::int64_t{1} << 60; }),
            "rms_norm: a tensor of 1152921504606846976 x 4 has more than 2^58 elements, the most "
            "that octet can address");
}

TEST(RmsNormRefuses, Fp8OutputsThatMeanNothing) {
  EXPECT_EQ(refused_problem([](auto& p) {
              p.fp8.emplace();
              p.rows = 0;
            }),
            "rms_norm: rows must be at least 1, got 0");
  EXPECT_EQ(refused_problem([](auto& p) { p.fp8.emplace().format = Dtype::bf16; }),
            "rms_norm: format must be e4m3 or e5m2, got bf16");
  EXPECT_EQ(refused_problem([](auto& p) { p.fp8.emplace().amax_floor = -2; }),
            "rms_norm: amax_floor must be finite and at least 0, got -2");
  EXPECT_EQ(refused_problem([](auto& p) {
              p.fp8.emplace().block.reset();
              p.fp8->transposed_block.reset();
            }),
            "rms_norm: block and transposed_block are both empty: there is nothing to write");
  EXPECT_EQ(refused_problem(
                [](auto& p) {
                  p.fp8.emplace().block = BlockShape{2, 2};
                },
                ErrorCode::unsupported),
            "rms_norm: block must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 or 32x32, "
            "got 2x2");
  EXPECT_EQ(refused_problem([](auto& p) {
              p.fp8.emplace().block = kBlock1x32;
              p.fp8->pow2_scales = true;
            }),
            "rms_norm: scales of mx blocks are powers of two that follow from amax alone: "
            "pow2_scales does not go with them");
}

template <class Change>
std::string refused_forward(const Change& change) {
  RmsNormProblem problem = small();
  problem.residual = true;
  const RmsNormCase test(problem, 0);
  RmsNormForwardArgs args = test.forward_args();
  change(args);
  return refusal([&] { run(plan_rms_norm_forward(problem), args); });
}

TEST(RmsNormRefuses, ArgumentsOfForwardThatDoNotFit) {
  EXPECT_EQ(refused_forward([](auto& a) { a.x.shape[1] = 5; }),
            "rms_norm: x must be [rows, cols] = [2, 4], got [2, 5]");
  EXPECT_EQ(refused_forward([](auto& a) { a.residual = {}; }),
            "rms_norm: residual must have rank 2, [rows, cols], got rank 0");
  EXPECT_EQ(refused_forward([](auto& a) { a.g.shape[0] = 3; }),
            "rms_norm: g must be [cols] = [4], got [3]");
  EXPECT_EQ(refused_forward([](auto& a) { a.y.dtype = Dtype::f16; }),
            "rms_norm: y must be bf16, got f16");
  EXPECT_EQ(refused_forward([](auto& a) { a.sum.data = nullptr; }),
            "rms_norm: sum has a null pointer");
  EXPECT_EQ(refused_forward([](auto& a) { a.rstd.shape[0] = 1; }),
            "rms_norm: rstd must be [rows] = [2], got [1]");
  EXPECT_EQ(refused_forward([](auto& a) { a.x.strides[1] = 2; }),
            "rms_norm: x must have a contiguous last dimension (stride 1), got bf16[2, 4] strides "
            "[4, 2]");
  EXPECT_EQ(refused_forward([](auto& a) { a.y.strides[0] = 3; }),
            "rms_norm: elements of y share memory: bf16[2, 4] strides [3, 1]");
  EXPECT_EQ(refused_forward([](auto& a) { a.y = a.x; }),
            "rms_norm: output y overlaps x: their memory must be apart");
  EXPECT_EQ(refused_forward([](auto& a) { a.sum = a.residual; }),
            "rms_norm: output sum overlaps residual: their memory must be apart");
  EXPECT_EQ(refused_forward([](auto& a) { a.sum = a.y; }),
            "rms_norm: output sum overlaps y: their memory must be apart");
  EXPECT_EQ(refused_forward([](auto& a) {
              a.g.device = {DeviceType::cuda, 0};
            }),
            "rms_norm: g is on cuda:0, the problem is on cpu");
}

template <class Change>
std::string refused_backward(const Change& change) {
  const RmsNormCase test(small(), 0);
  RmsNormBackwardArgs args = test.backward_args(true);
  args.dresidual = test.dresidual.view();
  change(args);
  return refusal([&] { run(plan_rms_norm_backward(small()), args); });
}

TEST(RmsNormRefuses, ArgumentsOfBackwardThatDoNotFit) {
  EXPECT_EQ(refused_backward([](auto& a) { a.dy.shape[0] = 1; }),
            "rms_norm: dy must be [rows, cols] = [2, 4], got [1, 4]");
  EXPECT_EQ(refused_backward([](auto& a) { a.h.data = nullptr; }),
            "rms_norm: h has a null pointer");
  EXPECT_EQ(refused_backward([](auto& a) { a.dsum.shape[1] = 3; }),
            "rms_norm: dsum must be [rows, cols] = [2, 4], got [2, 3]");
  EXPECT_EQ(refused_backward([](auto& a) { a.dg.dtype = Dtype::bf16; }),
            "rms_norm: dg must be f32, got bf16");
  EXPECT_EQ(refused_backward([](auto& a) { a.dresidual = a.dx; }),
            "rms_norm: output dresidual overlaps dx: their memory must be apart");
  EXPECT_EQ(refused_backward([](auto& a) { a.dx = a.dsum; }),
            "rms_norm: output dx overlaps dsum: their memory must be apart");
}

TEST(RmsNormRefuses, CopiesThatDoNotFit) {
  RmsNormProblem problem = small();
  problem.fp8.emplace();
  const RmsNormCase test(problem, 0);
  const QuantizedTensor out(2, 4, Dtype::e4m3, kBlock1x128);
  const QuantizedTensor transposed(4, 2, Dtype::e4m3, kBlock1x128);
  const auto refused = [&](const Fp8Copies& copies) {
    RmsNormForwardArgs args = test.forward_args();
    args.fp8 = copies;
    return refusal([&] { run(plan_rms_norm_forward(problem), args); });
  };
  EXPECT_EQ(refused({out, out}),
            "rms_norm: fp8.transposed must be [cols, rows] = [4, 2], got [2, 4]");
  EXPECT_EQ(refused({{}, transposed}),
            "rms_norm: fp8.out must have rank 2, [rows, cols], got rank 0");
  const QuantizedTensor square(2, 4, Dtype::e4m3, kBlock128x128);
  EXPECT_EQ(refused({square, transposed}), "rms_norm: fp8.out must have 1x128 blocks, got 128x128");
}

TEST(RmsNormRefuses, AWorkspaceThatIsTooSmallAndAnEmptyPlan) {
  const RmsNormCase test(small(), 0);
  const RmsNormForwardPlan plan = plan_rms_norm_forward(small(), {"cpu_simd", 1});
  EXPECT_EQ(
      refusal([&] { run(plan, test.forward_args()); }),
      "rms_norm: workspace must have " + std::to_string(plan.workspace_bytes) + " bytes, got 0");
  EXPECT_EQ(
      refusal([&] { run(RmsNormForwardPlan{}, test.forward_args()); }),
      "rms_norm_forward: the plan is empty: plan_rms_norm_forward() makes one from a problem");
  EXPECT_EQ(refusal([&] { run(RmsNormBackwardPlan{}, test.backward_args(true)); }),
            "rms_norm_backward: the plan is empty: plan_rms_norm_backward() makes one from a "
            "problem");
}

TEST(RmsNormRefuses, ToFuseWhereNoFp8IsWanted) {
  EXPECT_EQ(
      refusal(
          [] {
            plan_rms_norm_forward(small(), {"unfused", 1});
          },
          ErrorCode::unsupported),
      "rms_norm: unfused, forced by argument, does not take this problem: there is nothing to "
      "fuse: no fp8 output is wanted\n  problem: rms-norm --shape 2x4 --dtype bf16 --weight "
      "bf16 --device cpu");
}

TEST(RmsNorm, DescribesTheCommandThatRepeatsIt) {
  RmsNormProblem problem = small();
  EXPECT_EQ(describe(problem), "rms-norm --shape 2x4 --dtype bf16 --weight bf16 --device cpu");
  problem.eps = 0.5f;
  problem.residual = problem.one_plus_weight = true;
  problem.training = false;
  problem.dg_dtype = Dtype::bf16;
  problem.fp8.emplace().transposed_block.reset();
  problem.fp8->pow2_scales = true;
  EXPECT_EQ(describe(problem),
            "rms-norm --shape 2x4 --dtype bf16 --weight bf16 --eps 0.5 --residual "
            "--one-plus-weight --inference --dg bf16 --fp8 e4m3 --block 1x128 --transposed-block "
            "none --pow2-scales --device cpu");
}

}  // namespace
}  // namespace octet
