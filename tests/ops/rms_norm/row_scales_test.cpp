// FP8 outputs with a scale per row, written in one pass: every byte equals that of the plain operator
// followed by the quantiser, on the CPU and on a Hopper GPU. Other scales run unfused or say why not.
#include "core/message.hpp"
#include "ops/quantize/row_copy.hpp"
#include "ops/rms_norm/case.hpp"
#include "support/on_cuda.hpp"

namespace octet {
namespace {

constexpr Dtype kFloats[] = {Dtype::bf16, Dtype::f16, Dtype::f32};

// Problem and data by number; `floats` dtypes of x.
RmsNormProblem problem_of(std::uint64_t number, RowShape shape, int floats) {
  RmsNormProblem problem{.rows = shape.rows, .cols = shape.cols};
  problem.dtype = kFloats[number % static_cast<std::uint64_t>(floats)];
  problem.weight_dtype = number % 4 == 1 ? kFloats[number % 3] : problem.dtype;
  problem.residual = number % 2 == 1;
  problem.one_plus_weight = number % 7 == 2;
  problem.training = number % 3 != 0;
  if (number % 11 == 5) problem.eps = 0;  // 1 / sqrt(0) in rows of zeros
  problem.fp8 = row_options(number);
  return problem;
}

void fill(const RmsNormCase& test, std::uint64_t number) {
  Random random(number);
  for (const PitchedTensor* tensor : test.inputs()) {
    const bool is_rows = tensor->view().rank == 2;
    std::int64_t i = 0;
    tensor->fill([&] {
      const Data data = is_rows ? data_of_row(number, i++ / test.problem.cols) : Data::normal;
      return random_value(data, random);
    });
  }
}

// y, sum and rstd by the formulas, and y quantised.
void run_apart(const RmsNormCase& test, const RowCopy& copy) {
  RmsNormProblem plain = test.problem;
  plain.fp8.reset();
  run(plan_rms_norm_forward(plain, {"cpu_reference", 2}), test.forward_args());
  quantize_rows(test.y.view(), *test.problem.fp8, copy);
}

void expect_same(const RmsNormCase& given, const RowCopy& copy, const RmsNormCase& wanted,
                 const RowCopy& wanted_copy, const std::string& what) {
  EXPECT_TRUE(copy.bytes() == wanted_copy.bytes()) << what;
  EXPECT_TRUE(given.sum.same_as(wanted.sum)) << what;
  if (given.problem.training) {
    EXPECT_TRUE(given.rstd.same_as(wanted.rstd)) << what;
  }
}

TEST(RmsNormRowScales, EqualsTheTwoStepsInEveryByte) {
  std::uint64_t number = 0;
  for (int round = 0; round < 6; ++round) {
    for (const RowShape shape : kRowShapes) {
      const RmsNormProblem problem = problem_of(++number, shape, 3);
      const RmsNormCase wanted(problem, gap_of(number));
      fill(wanted, number);
      const bool owns_padding = number % 4 != 0;
      const RowCopy wanted_copy(shape.rows, shape.cols, problem.fp8->format, owns_padding);
      run_apart(wanted, wanted_copy);
      for (const InstructionSet instructions : instruction_sets()) {
        const RmsNormCase given(problem, gap_of(number));
        given.copy_inputs(wanted);
        const RowCopy copy(shape.rows, shape.cols, problem.fp8->format, owns_padding);
        RmsNormForwardArgs args = given.forward_args();
        args.fp8.out = copy.view();
        const RmsNormForwardPlan plan = plan_rms_norm_forward(problem, {"cpu_simd", 3});
        const Buffer workspace(plan.workspace_bytes);
        rms_norm_forward_cpu_simd(
            problem, args, {{workspace.data(), workspace.bytes()}, 3, nullptr}, instructions);
        expect_same(given, copy, wanted, wanted_copy,
                    text(name(instructions), ", number ", number, ": ", describe(problem)));
      }
    }
  }
}

std::string refusal_of(const RmsNormProblem& problem, const std::string& backend) {
  return refusal_of(rms_norm_forward_implementations(), problem, backend);
}

TEST(RmsNormRowScales, AreRefusedWithTheReason) {
  RmsNormProblem problem{.rows = 4, .cols = 256};
  problem.device = {DeviceType::cuda, 0};
  const std::string row_cast = "cuda_sm90_row_cast";
  EXPECT_EQ(refusal_of(problem, row_cast), "writes only FP8 output");
  problem.fp8 = Fp8Output{};
  EXPECT_EQ(refusal_of(problem, row_cast), "writes scales of whole rows, blocks 1xall");
  problem.fp8 = Fp8Output{Dtype::e4m3, kEachRow, std::nullopt};
  EXPECT_EQ(refusal_of(problem, row_cast), "");
  EXPECT_EQ(refusal_of(problem, "cuda_sm90_tile"),
            "row scales need whole rows, a block has a tile");
  problem.cols = 16385;
  EXPECT_EQ(refusal_of(problem, row_cast),
            "takes rows of at most 16384 columns, the problem has 16385");
  EXPECT_EQ(refusal_of(problem, "unfused"), "");
  problem.cols = 256;
  problem.fp8->transposed_block = kBlock1x128;
  EXPECT_EQ(refusal_of(problem, row_cast), "a transposed copy needs 128 rows, a block has one");
  problem.dtype = Dtype::f32;
  EXPECT_EQ(refusal_of(problem, row_cast), "takes bf16 and f16, the problem has f32");
}

// Scales that need every row first, or that only the quantiser writes: unfused takes them everywhere.
TEST(RmsNormRowScales, OfOtherShapesRunUnfused) {
  const std::string column = "column scales need every row first: unfused casts after the operator";
  const std::string tensor =
      "the scale of a whole tensor needs every row first: unfused casts after the operator";
  const std::string mx = "mx blocks are written by the quantiser alone: unfused runs it";
  struct Other {
    BlockShape block;
    BlockShape transposed;
    const std::string& reason;
  };
  for (const Other& other :
       {Other{kEachRow, kEachRow, column}, Other{kEachColumn, kBlock1x128, column},
        Other{kWholeTensor, kWholeTensor, tensor}, Other{kBlock1x32, kBlock1x32, mx},
        Other{kBlock32x32, kBlock32x32, mx}}) {
    RmsNormProblem problem{.rows = 130, .cols = 257};
    problem.training = false;
    problem.fp8 = Fp8Output{Dtype::e4m3, other.block, other.transposed};
    EXPECT_EQ(refusal_of(problem, "cpu_simd"), other.reason);
    problem.device = {DeviceType::cuda, 0};
    EXPECT_EQ(refusal_of(problem, "cuda_sm90_tile"), other.reason);
    EXPECT_EQ(refusal_of(problem, "cuda_sm90_row_cast"), other.reason);
    EXPECT_EQ(refusal_of(problem, "unfused"), "") << name(other.block);
    problem.device = {};
    EXPECT_EQ(plan_rms_norm_forward(problem).implementation, "unfused") << name(other.block);
  }
}

// A row-major copy with a scale per row beside a transposed one of blocks of 128: the strip has both.
TEST(RmsNormRowScales, GoWithTransposedBlocksOnTheCpu) {
  if (instruction_sets().empty()) GTEST_SKIP() << "this machine has no AVX2";
  for (const BlockShape transposed : {kBlock1x128, kBlock128x128, kBlock128x1}) {
    RmsNormProblem problem{.rows = 300, .cols = 200};
    problem.fp8 = Fp8Output{Dtype::e5m2, kEachRow, transposed};
    const RmsNormCase test(problem, 0);
    fill(test, 3);
    QuantizedTensor turned[2] = {{200, 300, Dtype::e5m2, transposed},
                                 {200, 300, Dtype::e5m2, transposed}};
    const RowCopy copies[2] = {{300, 200, Dtype::e5m2, true}, {300, 200, Dtype::e5m2, true}};
    constexpr const char* kBackends[] = {"unfused", "cpu_simd"};
    for (int i = 0; i < 2; ++i) {
      RmsNormForwardArgs args = test.forward_args();
      args.fp8 = {copies[i].view(), turned[i]};
      const RmsNormForwardPlan plan = plan_rms_norm_forward(problem, {kBackends[i], 2});
      const Buffer workspace(plan.workspace_bytes);
      run(plan, args, {workspace.data(), workspace.bytes()});
    }
    EXPECT_TRUE(copies[0].bytes() == copies[1].bytes());
    const QuantizedLayout layout(200, 300, Dtype::e5m2, transposed);
    EXPECT_EQ(std::memcmp(turned[0].view().values.data, turned[1].view().values.data, layout.bytes),
              0)
        << name(transposed);
  }
}

TEST(RmsNormRowScalesCuda, HaveTheBytesOfTheCpu) {
  OCTET_NEEDS_HOPPER();
  constexpr RowShape kLong[] = {{5, 6144}, {4, 7168},  {130, 8192},
                                {3, 8193}, {2, 12288}, {9, 16384}};
  std::vector<RowShape> shapes(std::begin(kRowShapes), std::end(kRowShapes));
  shapes.insert(shapes.end(), std::begin(kLong), std::end(kLong));
  shapes.push_back({2000, 4096});
  std::uint64_t number = 0;
  for (int round = 0; round < 9; ++round) {
    for (const RowShape shape : shapes) {
      const RmsNormProblem problem = problem_of(++number, shape, 2);
      const RmsNormCase wanted(problem, gap_of(number));
      fill(wanted, number);
      const bool owns_padding = number % 4 != 0;
      const RowCopy wanted_copy(shape.rows, shape.cols, problem.fp8->format, owns_padding);
      run_apart(wanted, wanted_copy);

      const RmsNormCase given(problem, gap_of(number));
      given.copy_inputs(wanted);
      const RowCopy copy(shape.rows, shape.cols, problem.fp8->format, owns_padding);
      testing::OnCuda device;
      RmsNormForwardArgs args = given.forward_args();
      for (TensorView* view : {&args.x, &args.residual, &args.g, &args.sum, &args.rstd}) {
        *view = device.copy_in(*view);
      }
      args.y = {};
      args.fp8.out = device.copy_in(copy.view());
      RmsNormProblem on_device = problem;
      on_device.device = testing::OnCuda::kDevice;
      const RmsNormForwardPlan plan = plan_rms_norm_forward(on_device);
      ASSERT_EQ(plan.implementation, "cuda_sm90_row_cast") << describe(on_device);
      run(plan, args);
      cuda::synchronize(0);
      testing::OnCuda::copy_out(args.fp8.out, copy.view());
      testing::OnCuda::copy_out(args.sum, given.sum.view());
      testing::OnCuda::copy_out(args.rstd, given.rstd.view());
      expect_same(given, copy, wanted, wanted_copy,
                  text("number ", number, ", gap ", gap_of(number), ": ", describe(on_device)));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace octet
