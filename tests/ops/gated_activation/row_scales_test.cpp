// FP8 outputs with a scale per row, written in one pass: every byte equals that of the plain operator
// followed by the quantiser, on the CPU and on a Hopper GPU. Other scales run unfused or say why not.
#include "core/message.hpp"
#include "ops/gated_activation/case.hpp"
#include "ops/gated_activation/problem.hpp"
#include "ops/quantize/row_copy.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

GatedActivationProblem problem_of(std::uint64_t number, RowShape shape, Dtype dtype) {
  GatedActivationProblem problem{shape.rows, shape.cols, dtype,
                                 kActivations[number % std::size(kActivations)], number % 3 == 0};
  problem.fp8 = row_options(number);
  return problem;
}

void fill(const GatedActivationCase& test, std::uint64_t number) {
  test.fill(number);  // the weights of rows
  Random random(number);
  for (std::int64_t r = 0; r < test.problem.rows; ++r) {
    const Data data = data_of_row(number, r);
    for (std::int64_t c = 0; c < test.problem.cols; ++c) {
      for (const TensorView& view : {test.gate(), test.up(), test.dy()}) {
        set(view, r, c, random_value(data, random));
      }
    }
  }
}

// Forward, then backward, whose output has both gradients in each of its rows.
TEST(GatedActivationRowScales, EqualsThePlainOutputsQuantised) {
  std::uint64_t number = 0;
  for (int round = 0; round < 4; ++round) {
    for (const RowShape shape : kRowShapes) {
      ++number;
      GatedActivationProblem problem = problem_of(number, shape, kFloats[number % 3]);
      const Fp8Output fp8 = *problem.fp8;
      const bool owns_padding = number % 4 != 0;
      const auto copy_of = [&](std::int64_t cols) {
        return RowCopy(shape.rows, cols, fp8.format, owns_padding);
      };
      for (const InstructionSet instructions : instruction_sets()) {
        problem.fp8.reset();
        const GatedActivationCase plain(problem, Lie::as_halves, gap_of(number));
        fill(plain, number);
        plain.run_both(instructions);
        const RowCopy wanted_y = copy_of(shape.cols);
        const RowCopy wanted_gradients = copy_of(2 * shape.cols);
        TensorView both = plain.dgate();
        both.shape[1] = 2 * shape.cols;
        quantize_rows(plain.y(), fp8, wanted_y);
        quantize_rows(both, fp8, wanted_gradients);

        problem.fp8 = fp8;
        const GatedActivationCase fused(problem, Lie::apart, gap_of(number));
        fill(fused, number);
        const RowCopy y = copy_of(shape.cols);
        const RowCopy gradients = copy_of(2 * shape.cols);
        const Buffer workspace(
            plan_gated_activation_backward(problem, {"cpu_simd", 3}).workspace_bytes);
        const RunContext context{{workspace.data(), workspace.bytes()}, 3, nullptr};
        GatedActivationForwardArgs forward = fused.forward_args({y.view(), {}});
        GatedActivationBackwardArgs backward = fused.backward_args({gradients.view(), {}});
        if (!problem.row_weight) forward.row_weight = backward.row_weight = {};
        gated_activation_forward_cpu_simd(problem, forward, context, instructions);
        gated_activation_backward_cpu_simd(problem, backward, context, instructions);

        const std::string what =
            text(name(instructions), ", number ", number, ": ", describe(problem));
        EXPECT_TRUE(y.bytes() == wanted_y.bytes()) << "y, " << what;
        EXPECT_TRUE(gradients.bytes() == wanted_gradients.bytes()) << "gradients, " << what;
      }
    }
  }
}

std::string refused_forward(const GatedActivationProblem& problem, const std::string& backend) {
  return refusal_of(gated_activation_forward_implementations(), problem, backend);
}
std::string refused_backward(const GatedActivationProblem& problem, const std::string& backend) {
  return refusal_of(gated_activation_backward_implementations(), problem, backend);
}

TEST(GatedActivationRowScales, AreRefusedWithTheReason) {
  GatedActivationProblem problem{4, 256, Dtype::bf16, GateActivation::gelu_erf, true};
  problem.device = {DeviceType::cuda, 0};
  const std::string row_cast = "cuda_sm90_row_cast";
  EXPECT_EQ(refused_forward(problem, row_cast), "writes only FP8 output");
  problem.fp8 = Fp8Output{Dtype::e4m3, kEachRow, std::nullopt};
  EXPECT_EQ(refused_forward(problem, row_cast), "");
  EXPECT_EQ(refused_backward(problem, "cuda_sm90_tile"),
            "row scales need whole rows, a block has a tile");
  EXPECT_EQ(refused_backward(problem, "unfused"), "");
  problem.cols = 32769;
  EXPECT_EQ(refused_forward(problem, row_cast),
            "takes rows of at most 32768 columns, the problem has 32769");
  EXPECT_EQ(refused_forward(problem, "unfused"), "");
  problem.cols = 256;
  problem.fp8->transposed_block = kBlock128x128;
  EXPECT_EQ(refused_forward(problem, row_cast),
            "a transposed copy needs 128 rows, a block has one");
  problem.groups = 2;
  problem.fp8->transposed_block.reset();
  EXPECT_EQ(refused_forward(problem, row_cast), "takes rows without groups");
  try {
    check(problem);
    FAIL() << "groups with a scale per row";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "gated_activation: block must be 1x128 with groups, got 1xall");
  }
}

// Scales that need every row first, or that only the quantiser writes: unfused takes them everywhere.
TEST(GatedActivationRowScales, OfOtherShapesRunUnfused) {
  const std::string column = "column scales need every row first: unfused casts after the operator";
  const std::string tensor =
      "the scale of a whole tensor needs every row first: unfused casts after the operator";
  const std::string mx = "mx blocks are written by the quantiser alone: unfused runs it";
  struct Other {
    BlockShape block;
    const std::string& reason;
  };
  for (const Other& other : {Other{kEachRow, column}, Other{kWholeTensor, tensor},
                             Other{kBlock1x32, mx}, Other{kBlock32x32, mx}}) {
    GatedActivationProblem problem{130, 257, Dtype::bf16};
    problem.fp8 = Fp8Output{Dtype::e4m3, other.block, other.block};
    EXPECT_EQ(refused_forward(problem, "cpu_simd"), other.reason);
    EXPECT_EQ(refused_backward(problem, "cpu_simd"), other.reason);
    EXPECT_EQ(plan_gated_activation_forward(problem).implementation, "unfused");
    EXPECT_EQ(plan_gated_activation_backward(problem).implementation, "unfused");
    problem.device = {DeviceType::cuda, 0};
    EXPECT_EQ(refused_forward(problem, "cuda_sm90_tile"), other.reason);
    EXPECT_EQ(refused_backward(problem, "cuda_sm90_tile"), other.reason);
    EXPECT_EQ(refused_forward(problem, "cuda_sm90_row_cast"), other.reason);
    EXPECT_EQ(refused_forward(problem, "unfused"), "") << name(other.block);
    EXPECT_EQ(refused_backward(problem, "unfused"), "") << name(other.block);
  }
}

// The plain kernel and the row cast have the same y, so their bytes equal those of unfused.
TEST(GatedActivationRowScalesCuda, HaveTheBytesOfTheTwoSteps) {
  OCTET_NEEDS_HOPPER();
  constexpr RowShape kLong[] = {{5, 6144},  {130, 8192}, {3, 8193},
                                {7, 14336}, {2, 28672},  {3, 32768}};
  std::vector<RowShape> shapes(std::begin(kRowShapes), std::end(kRowShapes));
  shapes.insert(shapes.end(), std::begin(kLong), std::end(kLong));
  shapes.push_back({1000, 14336});
  std::uint64_t number = 0;
  for (int round = 0; round < 8; ++round) {
    for (const RowShape shape : shapes) {
      ++number;
      GatedActivationProblem problem =
          problem_of(number, shape, round % 2 == 0 ? Dtype::bf16 : Dtype::f16);
      problem.device = testing::OnCuda::kDevice;
      const GatedActivationCase host(problem, number % 2 == 0 ? Lie::as_halves : Lie::apart,
                                     gap_of(number));
      fill(host, number);
      const bool owns_padding = number % 4 != 0;
      const RowCopy wanted(shape.rows, shape.cols, problem.fp8->format, owns_padding);
      const RowCopy given(shape.rows, shape.cols, problem.fp8->format, owns_padding);
      testing::OnCuda device;
      GatedActivationForwardArgs args = host.forward_args();
      for (TensorView* view : {&args.gate, &args.up, &args.row_weight})
        *view = device.copy_in(*view);
      args.y = {};
      for (const RowCopy* copy : {&wanted, &given}) {
        const GatedActivationForwardPlan plan =
            plan_gated_activation_forward(problem, {copy == &wanted ? "unfused" : "", 0});
        ASSERT_EQ(plan.implementation, copy == &wanted ? "unfused" : "cuda_sm90_row_cast");
        args.fp8.out = device.copy_in(copy->view());
        const Buffer workspace(plan.workspace_bytes, testing::OnCuda::kDevice);
        run(plan, args, {workspace.data(), workspace.bytes()});
        cuda::synchronize(0);
        testing::OnCuda::copy_out(args.fp8.out, copy->view());
      }
      EXPECT_TRUE(given.bytes() == wanted.bytes())
          << "number " << number << ", gap " << gap_of(number) << ": " << describe(problem);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace octet
