// What gemm refuses, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

GemmProblem small_problem() {
  GemmProblem problem{.m = 5, .n = 130, .k = 200};
  return problem;
}

// A valid call; every test breaks one thing in it.
struct GemmCall {
  explicit GemmCall(const GemmProblem& given = small_problem(), std::size_t arena_bytes = 1 << 20)
      : arena(arena_bytes), problem(given) {
    args.a = operand(problem.a, problem.m);
    args.b = operand(problem.b, problem.n);
    args.d = arena.matrix(problem.out_dtype, problem.m, problem.n);
    if (problem.bias_dtype) args.bias = arena.tensor(*problem.bias_dtype, {problem.n});
    workspace = arena.workspace(plan_gemm(problem).workspace_bytes);
  }
  QuantizedView operand(const GemmOperand& given, std::int64_t rows) {
    if (is_fp8(given.dtype)) return arena.quantized(rows, problem.k, given.dtype, given.block);
    return arena.matrix(given.dtype, rows, problem.k);
  }
  void refused(const std::string& message, ErrorCode code = kInvalid) const {
    expect_run_refused(code, message, arena, problem, args, workspace);
  }

  Arena arena;
  GemmProblem problem;
  GemmArgs args;
  Workspace workspace;
};

void* shifted(void* pointer, std::ptrdiff_t bytes) { return static_cast<char*>(pointer) + bytes; }

TEST(GemmBadInput, TheCallTheTestsSpoilIsRight) {
  GemmCall call;
  EXPECT_NO_THROW(run(plan_gemm(call.problem), call.args, call.workspace));
}

TEST(GemmBadInput, RefusesSizesBelowOne) {
  GemmProblem problem = small_problem();
  problem.m = 0;
  expect_plan_refused(kInvalid, "gemm: M must be at least 1, got 0", problem);
  problem = small_problem();
  problem.n = -3;
  expect_plan_refused(kInvalid, "gemm: N must be at least 1, got -3", problem);
  problem = small_problem();
  problem.k = std::numeric_limits<std::int64_t>::min();
  expect_plan_refused(kInvalid, "gemm: K must be at least 1, got -9223372036854775808", problem);
}

TEST(GemmBadInput, RefusesAMostOfMultiprocessorsBelowZero) {
  GemmProblem problem = small_problem();
  problem.max_multiprocessors = -1;
  expect_plan_refused(kInvalid, "gemm: max_multiprocessors must be at least 0, got -1", problem);
}

TEST(GemmBadInput, RefusesSizesWhoseProductOverflows) {
  GemmProblem problem = small_problem();
  problem.m = std::int64_t{1} << 33;
  problem.k = std::int64_t{1} << 33;
  expect_plan_refused(
      kInvalid,
      "gemm: a tensor of 8589934592 x 8589934592 has more than 2^58 elements, the most "
      "that octet can address",
      problem);
  problem = small_problem();
  problem.n = std::numeric_limits<std::int64_t>::max();
  expect_plan_refused(
      kInvalid,
      "gemm: a tensor of 9223372036854775807 x 200 has more than 2^58 elements, the most "
      "that octet can address",
      problem);
}

TEST(GemmBadInput, RefusesDtypesItCannotMultiplyOrWrite) {
  GemmProblem problem = small_problem();
  problem.out_dtype = Dtype::e4m3;
  expect_plan_refused(kInvalid, "gemm: out_dtype must be f32, f16 or bf16, got e4m3", problem);
  problem = small_problem();
  problem.a.dtype = Dtype::ue8m0;
  expect_plan_refused(kInvalid, "gemm: where it is not FP8, a must be f32, f16 or bf16, got ue8m0",
                      problem);
  problem = small_problem();
  problem.b = {Dtype::bf16};
  expect_plan_refused(kUnsupported,
                      "gemm: a and b must both be FP8 or have the same dtype, got e4m3 and bf16",
                      problem);
  problem = small_problem();
  problem.a = problem.b = {Dtype::bf16, kBlock1x128};
  expect_plan_refused(kInvalid, "gemm: a is bf16, which has no scales, got 1x128 blocks", problem);
}

TEST(GemmBadInput, RefusesBlocksItCannotScale) {
  GemmProblem problem = small_problem();
  problem.b.scale_dtype = Dtype::ue8m0;
  expect_plan_refused(kUnsupported, "gemm: scales of b must be f32, got ue8m0", problem);
  problem = small_problem();
  for (BlockShape block : {kUnscaled, kBlock128x1, kEachColumn, BlockShape{1, 64}}) {
    problem.a.block = block;
    expect_plan_refused(
        kUnsupported,
        "gemm: blocks of a must be 1x128, 128x128, 1xall, allxall, 1x32 or 32x32, got " +
            name(block),
        problem);
  }
  problem.a.block = kWholeTensor;
  expect_plan_refused(
      kUnsupported,
      "gemm: a and b must both have blocks along the contraction or both have none, "
      "got allxall and 128x128",
      problem);
  problem.a.block = kBlock1x32;
  expect_plan_refused(
      kUnsupported,
      "gemm: a and b must both have mx blocks, 1x32 or 32x32, or neither, got 1x32 and 128x128",
      problem);
  problem = small_problem();
  problem.fast_accumulation = true;
  expect_plan_refused(kUnsupported, "gemm: fast_accumulation needs 1xall or allxall blocks",
                      problem);
  problem = small_problem();
  problem.a.block = kBlock128x128;
  expect_plan_refused(kUnsupported,
                      "gemm: a and b have both 128x128 blocks; at least one must have 1x128",
                      problem);
  problem.a.block = problem.b.block = kBlock32x32;
  expect_plan_refused(kUnsupported,
                      "gemm: a and b have both 32x32 blocks; at least one must have 1x32", problem);
}

TEST(GemmBadInput, RefusesWhatIsYetToCome) {
  GemmProblem problem = small_problem();
  problem.accumulate = true;
  problem.out_dtype = Dtype::f16;
  expect_plan_refused(kUnsupported, "gemm: accumulate needs an f32 or bf16 output, got f16",
                      problem);
  problem = small_problem();
  problem.b.major = Major::mn;
  expect_plan_refused(kUnsupported,
                      "gemm: FP8 operands must be contiguous along the contraction, b is not; "
                      "quantize writes a transposed copy",
                      problem);
  problem = small_problem();
  problem.groups = static_cast<GroupKind>(1);
  expect_plan_refused(kUnsupported, "gemm: groups are not supported by this version of octet",
                      problem);
}

GemmProblem biased_problem() {
  GemmProblem problem = small_problem();
  problem.bias_dtype = Dtype::f32;
  return problem;
}

TEST(GemmBadInput, RefusesABiasItCannotAdd) {
  GemmProblem problem = biased_problem();
  problem.bias_dtype = Dtype::f16;
  expect_plan_refused(kUnsupported,
                      "gemm: bias_dtype must be f32 or that of the output, bf16, got f16", problem);
  problem = biased_problem();
  problem.accumulate = true;
  expect_plan_refused(
      kUnsupported,
      "gemm: a product that is accumulated takes no bias: each call would add it again", problem);
}

TEST(GemmBadInput, RefusesABiasOfAnotherForm) {
  const GemmCall good(biased_problem());
  EXPECT_NO_THROW(run(plan_gemm(good.problem), good.args, good.workspace));
  GemmCall missing(biased_problem());
  missing.args.bias = TensorView();
  missing.refused("gemm: bias must have rank 1, [N], got rank 0");
  GemmCall surplus;
  surplus.args.bias = surplus.arena.tensor(Dtype::f32, {surplus.problem.n});
  surplus.refused("gemm: a bias is given, but the problem has no bias_dtype");
  GemmCall length(biased_problem());
  length.args.bias.shape[0] = 129;
  length.refused("gemm: bias must be [N] = [130], got [129]");
  GemmCall dtype(biased_problem());
  dtype.args.bias.dtype = Dtype::bf16;
  dtype.refused("gemm: bias must be f32, got bf16");
  GemmCall device(biased_problem());
  device.args.bias.device = {DeviceType::cuda, 0};
  device.refused("gemm: bias is on cuda:0, the problem is on cpu");
  GemmCall stride(biased_problem());
  stride.args.bias.strides[0] = 2;
  stride.refused(
      "gemm: bias must have a contiguous last dimension (stride 1), got f32[130] strides [2]");
  GemmCall overlap(biased_problem());
  overlap.args.bias.data = overlap.args.d.data;
  overlap.refused("gemm: output d overlaps bias: their memory must be apart");
}

TEST(GemmBadInput, RefusesUnknownNumbers) {
  GemmProblem problem = small_problem();
  problem.a.major = static_cast<Major>(7);
  expect_plan_refused(kInvalid, "gemm: major of a must be k or mn, got 7", problem);
  problem = small_problem();
  problem.activation = static_cast<Activation>(9);
  expect_plan_refused(kUnsupported, "gemm: activation is not supported by this version of octet",
                      problem);
  problem = small_problem();
  problem.out_dtype = static_cast<Dtype>(99);
  expect_error(kInvalid, "gemm: out_dtype must be f32, f16 or bf16, got the unknown dtype 99",
               [&] { plan_gemm(problem); });
  problem = small_problem();
  problem.device.type = static_cast<DeviceType>(12);
  expect_error(kInvalid, "gemm: device must be cpu or cuda, got type 12",
               [&] { plan_gemm(problem); });
}

TEST(GemmBadInput, NamesTheCountOfDevicesWhereOneIsMissing) {
  GemmProblem problem = small_problem();
  const int count = cuda_device_count();
  problem.device = {DeviceType::cuda, count};
  expect_plan_refused(ErrorCode::no_device,
                      text("gemm: device cuda:", count, " is not on this machine, which has ",
                           count, " CUDA devices; device cpu is always there"),
                      problem);
  problem.device = {DeviceType::cuda, -1};
  expect_plan_refused(ErrorCode::no_device,
                      text("gemm: device cuda:-1 is not on this machine, which has ", count,
                           " CUDA devices; device cpu is always there"),
                      problem);
  problem.device = {DeviceType::cpu, 1};
  expect_plan_refused(kInvalid, "gemm: the CPU is cpu:0, got cpu:1", problem);
}

TEST(GemmBadInput, RefusesNullPointers) {
  GemmCall a;
  a.args.a.values.data = nullptr;
  a.refused("gemm: a has a null pointer");
  GemmCall scale;
  scale.args.b.scales.data = nullptr;
  scale.refused("gemm: scale of b has a null pointer");
  GemmCall d;
  d.args.d.data = nullptr;
  d.refused("gemm: d has a null pointer");
}

TEST(GemmBadInput, RefusesAbsentTensors) {
  GemmCall call;
  call.args.b = QuantizedView();
  call.refused("gemm: b must have rank 2, [N, K], got rank 0");
}

TEST(GemmBadInput, RefusesMisalignedPointers) {
  GemmCall d;
  d.args.d.data = shifted(d.args.d.data, 1);
  d.refused(text("gemm: d must be aligned to 2 bytes for bf16, got address ", d.args.d.data));
  GemmCall scale;
  scale.args.a.scales.data = shifted(scale.args.a.scales.data, 2);
  scale.refused(text("gemm: scale of a must be aligned to 4 bytes for f32, got address ",
                     scale.args.a.scales.data));
  GemmCall a;
  a.args.a.values.data = shifted(a.args.a.values.data, 8);
  a.refused(text("gemm: rows of a must start on 16-byte boundaries, got address ",
                 a.args.a.values.data,
                 " and a row stride of 256 bytes; repack copies it into such a layout"));
}

TEST(GemmBadInput, RefusesWrongDtypesOfTensors) {
  GemmCall a;
  a.args.a.values.dtype = Dtype::e5m2;
  a.refused("gemm: a must be e4m3, got e5m2");
  GemmCall d;
  d.args.d.dtype = Dtype::f16;
  d.refused("gemm: d must be bf16, got f16");
  GemmCall scale;
  scale.args.b.scales.dtype = Dtype::ue8m0;
  scale.refused("gemm: scale of b must be f32, got ue8m0");
}

TEST(GemmBadInput, RefusesTensorsOfAnotherDevice) {
  GemmCall b;
  b.args.b.values.device = {DeviceType::cuda, 1};
  b.refused("gemm: b is on cuda:1, the problem is on cpu");
  GemmCall scale;
  scale.args.a.scales.device = {DeviceType::cuda, 0};
  scale.refused("gemm: scale of a is on cuda:0, the problem is on cpu");
}

TEST(GemmBadInput, RefusesWrongRanksAndShapes) {
  GemmCall rank;
  rank.args.d.rank = 3;
  rank.refused("gemm: d must have rank 2, [M, N], got rank 3");
  GemmCall shape;
  shape.args.d.shape[1] = 129;
  shape.refused("gemm: d must be [M, N] = [5, 130], got [5, 129]");
  GemmCall negative;
  negative.args.a.values.shape[0] = -5;
  negative.refused("gemm: a must be [M, K] = [5, 200], got [-5, 200]");
}

TEST(GemmBadInput, RefusesDifferentContractions) {
  GemmCall call;
  call.args.b.values.shape[1] = 199;
  call.refused("gemm: a and b must have the same K, got a[5, 200] and b[130, 199]");
}

TEST(GemmBadInput, SaysWhichScalesItWanted) {
  GemmProblem problem = small_problem();
  problem.m = 1;
  problem.n = 512;
  problem.k = 4096;
  GemmCall call(problem, 16 << 20);
  call.args.b.scales.shape[1] = 31;
  call.refused("gemm: scale of b must be [4, 32] for 128x128 blocks of b[512, 4096], got [4, 31]");
}

TEST(GemmBadInput, RefusesViewsWithOtherBlocks) {
  GemmCall call;
  call.args.a.block = kBlock128x128;
  call.refused("gemm: a must have 1x128 blocks, got 128x128");
}

TEST(GemmBadInput, RefusesStridesItCannotFollow) {
  GemmCall columns;
  columns.args.d.strides[1] = 2;
  columns.args.d.strides[0] = 260;
  columns.refused(
      "gemm: d must have contiguous columns (stride 1), got bf16[5, 130] strides [260, 2]");
  GemmCall rows;
  rows.args.d.strides[0] = 129;
  rows.refused("gemm: rows of d overlap: their stride must be at least 130, got 129");
  GemmCall negative;
  negative.args.d.strides[0] = -130;
  negative.refused(
      "gemm: d has a stride that is negative or out of range: bf16[5, 130] strides [-130, 1]");
  GemmCall huge;
  huge.args.a.values.strides[0] = std::numeric_limits<std::int64_t>::max();
  huge.refused(
      "gemm: a has a stride that is negative or out of range: e4m3[5, 200] strides "
      "[9223372036854775807, 1]");
  GemmCall pitch;
  pitch.args.b.values.strides[0] = 200;
  pitch.refused(text("gemm: rows of b must start on 16-byte boundaries, got address ",
                     pitch.args.b.values.data,
                     " and a row stride of 200 bytes; repack copies it into such a layout"));
}

TEST(GemmBadInput, RefusesTransposedFloats) {
  GemmProblem problem = small_problem();
  problem.a = problem.b = {Dtype::f32};
  GemmCall call(problem);
  call.args.a.values.strides = {1, 5};
  call.refused(
      "gemm: a must have stride 1 along its columns (major k), got f32[5, 200] strides [1, 5]");
}

TEST(GemmBadInput, RefusesScalesOfUnscaledOperands) {
  GemmProblem problem = small_problem();
  problem.a = problem.b = {Dtype::f32};
  GemmCall call(problem);
  call.args.b.scales = call.args.d;
  call.refused("gemm: b is f32, which has no scales, but scales were given");
}

TEST(GemmBadInput, RefusesOutputsOverInputs) {
  GemmCall values;
  values.args.d.data = shifted(values.args.a.values.data, 128);
  values.refused("gemm: output d overlaps a: their memory must be apart");
  GemmCall scales;
  scales.args.d.data = scales.args.b.scales.data;
  scales.refused("gemm: output d overlaps scale of b: their memory must be apart");
}

TEST(GemmBadInput, RefusesAnEmptyPlan) {
  GemmCall call;
  const std::vector<char> before = call.arena.snapshot();
  expect_error(kInvalid, "gemm: the plan is empty: plan_gemm() makes one from a problem",
               [&] { run(GemmPlan{}, call.args, call.workspace); });
  expect_status(kInvalid, "gemm: the plan is a null pointer",
                c_run(nullptr, call.args, call.workspace));
  EXPECT_EQ(call.arena.snapshot(), before);
}

}  // namespace
}  // namespace octet::bad_input
