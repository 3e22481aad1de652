// What quantize, dequantize and repack refuse, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <cmath>
#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

QuantizeProblem dual_problem() {
  QuantizeProblem problem{.rows = 130, .cols = 70, .transposed_block = kBlock1x128};
  return problem;
}

struct QuantizeCall {
  explicit QuantizeCall(const QuantizeProblem& given = dual_problem())
      : arena(1 << 18), problem(given) {
    args.input = arena.matrix(problem.input_dtype, problem.rows, problem.cols);
    if (problem.block) {
      args.out = arena.quantized(problem.rows, problem.cols, problem.format, *problem.block);
    }
    if (problem.transposed_block) {
      args.transposed =
          arena.quantized(problem.cols, problem.rows, problem.format, *problem.transposed_block);
    }
    workspace = arena.workspace(plan_quantize(problem).workspace_bytes);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, problem, args, workspace);
  }

  Arena arena;
  QuantizeProblem problem;
  QuantizeArgs args;
  Workspace workspace;
};

TEST(QuantizeBadInput, TheCallTheTestsSpoilIsRight) {
  QuantizeCall call;
  EXPECT_NO_THROW(run(plan_quantize(call.problem), call.args, call.workspace));
}

TEST(QuantizeBadInput, RefusesBadSizes) {
  QuantizeProblem problem = dual_problem();
  problem.rows = 0;
  expect_plan_refused(kInvalid, "quantize: rows must be at least 1, got 0", problem);
  problem = dual_problem();
  problem.cols = -1;
  expect_plan_refused(kInvalid, "quantize: cols must be at least 1, got -1", problem);
  problem = dual_problem();
  problem.rows = problem.cols = std::int64_t{1} << 40;
  expect_plan_refused(
      kInvalid,
      "quantize: a tensor of 1099511627776 x 1099511627776 has more than 2^58 elements, the most "
      "that octet can address",
      problem);
}

TEST(QuantizeBadInput, RefusesDtypesAndBlocks) {
  QuantizeProblem problem = dual_problem();
  problem.input_dtype = Dtype::e4m3;
  expect_plan_refused(kInvalid, "quantize: input_dtype must be f32, f16 or bf16, got e4m3",
                      problem);
  problem = dual_problem();
  problem.format = Dtype::bf16;
  expect_plan_refused(kInvalid, "quantize: format must be e4m3 or e5m2, got bf16", problem);
  problem = dual_problem();
  problem.block = BlockShape{1, 64};
  expect_plan_refused(kUnsupported,
                      "quantize: block must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 "
                      "or 32x32, got 1x64",
                      problem);
  problem = dual_problem();
  problem.block.reset();
  problem.transposed_block.reset();
  expect_plan_refused(
      kInvalid, "quantize: block and transposed_block are both empty: there is nothing to write",
      problem);
}

TEST(QuantizeBadInput, RefusesFloorsThatAreNone) {
  QuantizeProblem problem = dual_problem();
  problem.amax_floor = -1;
  expect_plan_refused(kInvalid, "quantize: amax_floor must be finite and at least 0, got -1",
                      problem);
  problem.amax_floor = std::numeric_limits<float>::infinity();
  expect_plan_refused(kInvalid, "quantize: amax_floor must be finite and at least 0, got inf",
                      problem);
  problem.amax_floor = std::numeric_limits<float>::quiet_NaN();
  expect_plan_refused(kInvalid, "quantize: amax_floor must be finite and at least 0, got nan",
                      problem);
}

TEST(QuantizeBadInput, RefusesAFloorWhoseScalesOverflowAProduct) {
  QuantizeProblem problem = dual_problem();
  problem.amax_floor = 1e18f;
  EXPECT_NO_THROW(plan_quantize(problem));
  problem.amax_floor = std::nextafter(1e18f, 2e18f);
  expect_plan_refused(kInvalid,
                      "quantize: amax_floor must be at most 1e+18, so that products of two scales "
                      "stay finite, got 1.00000005e+18",
                      problem);
}

TEST(QuantizeBadInput, RefusesOptionsThatContradictEachOther) {
  const auto refused = [](ErrorCode code, const std::string& message, auto change) {
    QuantizeProblem problem = dual_problem();
    change(problem);
    expect_plan_refused(code, "quantize: " + message, problem);
  };
  refused(kInvalid, "mx_scale must be 0 (floor), 1 (even) or 2 (up), got 3",
          [](auto& p) { p.mx_scale = static_cast<MxScale>(3); });
  refused(kInvalid, "mx_scale even goes with 1x32 and 32x32 blocks and with fold_mx",
          [](auto& p) { p.mx_scale = MxScale::even; });
  refused(kInvalid,
          "fold_mx folds mx blocks into 1x128 and 128x128 ones, got a transposed_block of 1xall",
          [](auto& p) {
            p.fold_mx = true;
            p.transposed_block = kEachRow;
          });
  const std::string alone = "scales of mx blocks are powers of two that follow from amax alone: ";
  refused(kInvalid, alone + "pow2_scales does not go with them", [](auto& p) {
    p.block = kBlock32x32;
    p.pow2_scales = true;
  });
  refused(kInvalid, alone + "amax_floor does not go with them", [](auto& p) {
    p.fold_mx = true;
    p.amax_floor = 1e-4f;
  });
  refused(kInvalid, "pow2_scales says how scales are computed, with given_scales they are read",
          [](auto& p) { p.given_scales = p.pow2_scales = true; });
  refused(kUnsupported,
          "given_scales does not go with mx blocks, whose scales follow from their elements",
          [](auto& p) { p.given_scales = p.fold_mx = true; });
}

TEST(QuantizeBadInput, RefusesNewFormsOfBatchesAndGroups) {
  const auto refused = [](const std::string& message, auto change) {
    QuantizeProblem problem = dual_problem();
    change(problem);
    expect_plan_refused(kUnsupported, "quantize: " + message, problem);
  };
  refused("given_scales is for one matrix, without a batch", [](auto& p) {
    p.batch = 2;
    p.given_scales = true;
  });
  refused("fold_mx is for one matrix, without groups", [](auto& p) {
    p.groups = 2;
    p.fold_mx = true;
  });
  refused("transposed_block must be 1x128 or 128x128 with a batch, got allxall", [](auto& p) {
    p.batch = 2;
    p.transposed_block = kWholeTensor;
  });
  refused("transposed_block must be 1x128 or 128x128 with groups, got 1xall", [](auto& p) {
    p.groups = 2;
    p.transposed_block = kEachRow;
  });
}

TEST(QuantizeBadInput, RefusesGivenScalesThatAreNone) {
  QuantizeProblem problem = dual_problem();
  problem.block = kEachRow;
  problem.transposed_block = kWholeTensor;
  problem.given_scales = true;
  QuantizeCall call(problem);
  auto* scales = static_cast<float*>(call.args.out.scales.data);
  std::fill_n(scales, 132, 1.0f);
  *static_cast<float*>(call.args.transposed.scales.data) = 1;
  EXPECT_NO_THROW(run(plan_quantize(problem), call.args, call.workspace));
  scales[129] = 0;
  call.refused("quantize: scale of out at [129, 0] must be a positive, normal number, got 0");
  scales[129] = -1;
  call.refused("quantize: scale of out at [129, 0] must be a positive, normal number, got -1");
  scales[129] = std::numeric_limits<float>::infinity();
  call.refused("quantize: scale of out at [129, 0] must be a positive, normal number, got inf");
  scales[129] = 1;
  call.args.transposed.scales.data = call.args.out.values.data;
  call.refused("quantize: output out overlaps scale of transposed: their memory must be apart");
}

TEST(QuantizeBadInput, RefusesADeviceThatIsNotThere) {
  QuantizeProblem problem = dual_problem();
  const int count = cuda_device_count();
  problem.device = {DeviceType::cuda, count};
  expect_plan_refused(ErrorCode::no_device,
                      text("quantize: device cuda:", count, " is not on this machine, which has ",
                           count, " CUDA devices; device cpu is always there"),
                      problem);
}

TEST(QuantizeBadInput, RefusesNullAndMisalignedPointers) {
  QuantizeCall null;
  null.args.input.data = nullptr;
  null.refused("quantize: input has a null pointer");
  QuantizeCall scale;
  scale.args.transposed.scales.data = nullptr;
  scale.refused("quantize: scale of transposed has a null pointer");
  QuantizeCall odd;
  odd.args.out.values.data = static_cast<char*>(odd.args.out.values.data) + 4;
  odd.refused(text("quantize: rows of out must start on 16-byte boundaries, got address ",
                   odd.args.out.values.data,
                   " and a row stride of 128 bytes; repack copies it into such a layout"));
}

TEST(QuantizeBadInput, RefusesWrongShapesOfTensors) {
  QuantizeCall input;
  input.args.input.shape[0] = 129;
  input.refused("quantize: input must be [rows, cols] = [130, 70], got [129, 70]");
  QuantizeCall untransposed;
  untransposed.args.transposed = untransposed.args.out;
  untransposed.refused("quantize: transposed must be [cols, rows] = [70, 130], got [130, 70]");
  QuantizeCall scale;
  scale.args.transposed.scales.shape[1] = 1;
  scale.refused(
      "quantize: scale of transposed must be [70, 2] for 1x128 blocks of transposed[70, 130], got "
      "[70, 1]");
}

TEST(QuantizeBadInput, RefusesOutputsThatShareMemory) {
  QuantizeCall input;
  input.args.input.data = input.args.out.values.data;
  input.refused("quantize: output out overlaps input: their memory must be apart");
  QuantizeCall own_scale;
  own_scale.args.out.scales.data = own_scale.args.out.values.data;
  own_scale.refused("quantize: output out overlaps scale of out: their memory must be apart");
  QuantizeCall other_scale;
  other_scale.args.transposed.scales.data = other_scale.args.out.scales.data;
  other_scale.refused(
      "quantize: output scale of transposed overlaps scale of out: their memory must be apart");
  QuantizeCall aliased;
  aliased.args.out.scales.strides = {0, 1};
  aliased.refused("quantize: elements of scale of out share memory: f32[130, 1] strides [0, 1]");
}

TEST(QuantizeBadInput, CountsPaddingAsPartOfAnOutputThatOwnsIt) {
  QuantizeCall call;
  // The last row of `out` ends at column 70; its padding ends at column 128.
  call.args.input.data = static_cast<char*>(call.args.out.values.data) + 129 * 128 + 80;
  call.refused("quantize: output out overlaps input: their memory must be apart");

  QuantizeCall gaps;
  gaps.args.transposed.scales.strides = {2, 150};
  gaps.refused(
      "quantize: scale of transposed owns its padding, so one of its strides must be 1, got "
      "f32[70, 2] strides [2, 150]");

  QuantizeCall pitch;
  pitch.args.out.scales.strides = {1, std::int64_t{1} << 60};
  pitch.refused(text("quantize: out owns its padding, so its strides must be at most ",
                     std::int64_t{1} << 58, ", got ", describe(pitch.args.out)));
}

// dequantize and repack share the checks of their operands with the others.
TEST(DequantizeBadInput, RefusesBadSizesAndOperands) {
  DequantizeProblem problem{.rows = 0, .cols = 4};
  expect_plan_refused(kInvalid, "dequantize: rows must be at least 1, got 0", problem);
  problem.rows = 3;
  Arena arena(1 << 16);
  DequantizeArgs args;
  args.input = arena.quantized(3, 4, Dtype::e4m3, kBlock1x128);
  args.out = arena.matrix(Dtype::f32, 3, 4);
  args.input.values.data = nullptr;
  expect_run_refused(kInvalid, "dequantize: input has a null pointer", arena, problem, args, {});
}

TEST(DequantizeBadInput, RefusesOutputsOverInputs) {
  DequantizeProblem problem{.rows = 3, .cols = 4};
  Arena arena(1 << 16);
  DequantizeArgs args;
  args.input = arena.quantized(3, 4, Dtype::e4m3, kBlock1x128);
  args.out = arena.matrix(Dtype::f32, 3, 4);
  args.out.data = args.input.scales.data;
  expect_run_refused(kInvalid,
                     "dequantize: output out overlaps scale of input: their memory must be apart",
                     arena, problem, args, {});
}

TEST(RepackBadInput, RefusesBadSizesAndOperands) {
  RepackProblem problem{.rows = 3, .cols = -4};
  expect_plan_refused(kInvalid, "repack: cols must be at least 1, got -4", problem);
  problem.cols = 4;
  Arena arena(1 << 16);
  RepackArgs args;
  args.input = arena.quantized(3, 4, Dtype::e4m3, kBlock1x128);
  args.out = arena.quantized(3, 4, Dtype::e4m3, kBlock1x128);
  args.out.values.data = nullptr;
  expect_run_refused(kInvalid, "repack: out has a null pointer", arena, problem, args, {});
  args.out = args.input;
  expect_run_refused(kInvalid, "repack: output out overlaps input: their memory must be apart",
                     arena, problem, args, {});
}

}  // namespace
}  // namespace octet::bad_input
