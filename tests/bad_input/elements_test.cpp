// What rms_norm and gated_activation refuse, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;
constexpr std::int64_t kRows = 130, kCols = 70;

RmsNormProblem norm_problem() {
  RmsNormProblem problem{.rows = kRows, .cols = kCols, .residual = true};
  return problem;
}

struct NormForwardCall {
  explicit NormForwardCall(const RmsNormProblem& given = norm_problem()) : problem(given) {
    args.x = arena.matrix(Dtype::bf16, kRows, kCols);
    args.residual = arena.matrix(Dtype::bf16, kRows, kCols);
    args.g = arena.tensor(Dtype::bf16, {kCols});
    if (problem.fp8) {
      args.fp8.out = arena.quantized(kRows, kCols, problem.fp8->format, kBlock1x128);
      args.fp8.transposed = arena.quantized(kCols, kRows, problem.fp8->format, kBlock1x128);
    } else {
      args.y = arena.matrix(Dtype::bf16, kRows, kCols);
    }
    args.sum = arena.matrix(Dtype::bf16, kRows, kCols);
    args.rstd = arena.tensor(Dtype::f32, {kRows});
    workspace = arena.workspace(plan_rms_norm_forward(problem).workspace_bytes);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, RmsNormForward{problem}, args, workspace);
  }

  Arena arena{1 << 18};
  RmsNormProblem problem;
  RmsNormForwardArgs args;
  Workspace workspace;
};

RmsNormProblem fp8_norm_problem() {
  RmsNormProblem problem = norm_problem();
  problem.fp8 = Fp8Output{};
  return problem;
}

TEST(RmsNormBadInput, TheCallsTheTestsSpoilAreRight) {
  for (const RmsNormProblem& problem : {norm_problem(), fp8_norm_problem()}) {
    NormForwardCall call(problem);
    EXPECT_NO_THROW(run(plan_rms_norm_forward(problem), call.args, call.workspace));
  }
}

void expect_norm_refused(ErrorCode code, const std::string& message,
                         const RmsNormProblem& problem) {
  expect_plan_refused(code, message, RmsNormForward{problem});
  expect_plan_refused(code, message, RmsNormBackward{problem});
}

TEST(RmsNormBadInput, RefusesBadProblems) {
  RmsNormProblem problem = norm_problem();
  problem.rows = -1;
  expect_norm_refused(kInvalid, "rms_norm: rows must be at least 0, got -1", problem);
  problem = norm_problem();
  problem.cols = 0;
  expect_norm_refused(kInvalid, "rms_norm: cols must be at least 1, got 0", problem);
  problem = norm_problem();
  problem.weight_dtype = Dtype::i32;
  expect_norm_refused(kInvalid, "rms_norm: weight_dtype must be f32, f16 or bf16, got i32",
                      problem);
  problem = norm_problem();
  problem.eps = std::numeric_limits<float>::quiet_NaN();
  expect_norm_refused(kInvalid, "rms_norm: eps must be finite and at least 0, got nan", problem);
}

TEST(RmsNormBadInput, RefusesBadFp8Outputs) {
  RmsNormProblem problem = fp8_norm_problem();
  problem.rows = 0;
  expect_norm_refused(kInvalid, "rms_norm: rows must be at least 1, got 0", problem);
  problem = fp8_norm_problem();
  problem.fp8->format = Dtype::bf16;
  expect_norm_refused(kInvalid, "rms_norm: format must be e4m3 or e5m2, got bf16", problem);
  problem = fp8_norm_problem();
  problem.fp8->block = BlockShape{1, 64};
  expect_norm_refused(kUnsupported,
                      "rms_norm: block must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 "
                      "or 32x32, got 1x64",
                      problem);
  problem.fp8->block = problem.fp8->transposed_block = std::nullopt;
  expect_norm_refused(
      kInvalid, "rms_norm: block and transposed_block are both empty: there is nothing to write",
      problem);
}

TEST(RmsNormBadInput, RefusesBadTensors) {
  NormForwardCall null;
  null.args.residual.data = nullptr;
  null.refused("rms_norm: residual has a null pointer");
  NormForwardCall absent;
  absent.args.rstd = {};
  absent.refused("rms_norm: rstd must have rank 1, [rows], got rank 0");
  NormForwardCall shape;
  shape.args.g.shape[0] = 71;
  shape.refused("rms_norm: g must be [cols] = [70], got [71]");
  NormForwardCall overlap;
  overlap.args.y.data = overlap.args.x.data;
  overlap.refused("rms_norm: output y overlaps x: their memory must be apart");
  NormForwardCall copy(fp8_norm_problem());
  copy.args.fp8.transposed = copy.args.fp8.out;
  copy.refused("rms_norm: fp8.transposed must be [cols, rows] = [70, 130], got [130, 70]");
}

TEST(RmsNormBadInput, RefusesGradientsOverInputs) {
  Arena arena(1 << 18);
  RmsNormBackwardArgs args;
  args.dy = arena.matrix(Dtype::bf16, kRows, kCols);
  args.h = arena.matrix(Dtype::bf16, kRows, kCols);
  args.g = arena.tensor(Dtype::bf16, {kCols});
  args.rstd = arena.tensor(Dtype::f32, {kRows});
  args.dx = arena.matrix(Dtype::bf16, kRows, kCols);
  args.dresidual = args.h;
  args.dg = arena.tensor(Dtype::f32, {kCols});
  const RmsNormBackward pass{norm_problem()};
  const Workspace workspace = arena.workspace(plan_rms_norm_backward(pass.problem).workspace_bytes);
  expect_run_refused(kInvalid, "rms_norm: output dresidual overlaps h: their memory must be apart",
                     arena, pass, args, workspace);
  args.dresidual = {};
  args.dsum = args.dy;
  args.dsum.dtype = Dtype::f16;
  expect_run_refused(kInvalid, "rms_norm: dsum must be bf16, got f16", arena, pass, args,
                     workspace);
}

GatedActivationProblem gated_problem() {
  GatedActivationProblem problem{.rows = kRows, .cols = kCols, .row_weight = true};
  return problem;
}

void expect_gated_refused(ErrorCode code, const std::string& message,
                          const GatedActivationProblem& problem) {
  expect_plan_refused(code, message, GatedActivationForward{problem});
  expect_plan_refused(code, message, GatedActivationBackward{problem});
}

TEST(GatedActivationBadInput, RefusesBadProblems) {
  GatedActivationProblem problem = gated_problem();
  problem.cols = -4;
  expect_gated_refused(kInvalid, "gated_activation: cols must be at least 1, got -4", problem);
  problem = gated_problem();
  problem.activation = static_cast<GateActivation>(9);
  expect_gated_refused(kInvalid,
                       "gated_activation: activation must be silu, gelu_tanh, gelu_erf or "
                       "relu_squared, got 9",
                       problem);
  problem = gated_problem();
  problem.fp8 = Fp8Output{};
  problem.fp8->amax_floor = -1;
  expect_gated_refused(
      kInvalid, "gated_activation: amax_floor must be finite and at least 0, got -1", problem);
  problem.fp8->amax_floor = 1e30f;
  expect_gated_refused(
      kInvalid,
      "gated_activation: amax_floor must be at most 1e+18, so that products of two "
      "scales stay finite, got 1e+30",
      problem);
}

TEST(GatedActivationBadInput, RefusesBadTensors) {
  Arena arena(1 << 18);
  GatedActivationBackwardArgs args;
  args.dy = arena.matrix(Dtype::bf16, kRows, kCols);
  args.gate = arena.matrix(Dtype::bf16, kRows, kCols);
  args.up = arena.matrix(Dtype::bf16, kRows, kCols);
  args.row_weight = arena.tensor(Dtype::f32, {kRows});
  args.dgate = arena.matrix(Dtype::bf16, kRows, kCols);
  args.dup = args.up;
  args.d_row_weight = arena.tensor(Dtype::f32, {kRows});
  const GatedActivationBackward pass{gated_problem()};
  const Workspace workspace =
      arena.workspace(plan_gated_activation_backward(pass.problem).workspace_bytes);
  const auto refused = [&](const std::string& message) {
    expect_run_refused(kInvalid, message, arena, pass, args, workspace);
  };
  refused("gated_activation: output dup overlaps up: their memory must be apart");
  args.row_weight.dtype = Dtype::bf16;
  refused("gated_activation: row_weight must be f32, got bf16");
  args.dup = {};
  refused("gated_activation: dup must have rank 2, [rows, cols], got rank 0");
}

GatedActivationProblem gated_groups() {
  GatedActivationProblem problem = gated_problem();
  problem.groups = 3;
  problem.fp8 = Fp8Output{};
  return problem;
}

TEST(GatedActivationGroupsBadInput, RefusesBadProblems) {
  const auto refused = [](ErrorCode code, const std::string& message, const auto& change) {
    GatedActivationProblem problem = gated_groups();
    change(problem);
    expect_gated_refused(code, message, problem);
  };
  refused(kInvalid, "gated_activation: groups must be 1 to 1024, got -1",
          [](auto& p) { p.groups = -1; });
  refused(kInvalid, "gated_activation: groups must be 1 to 1024, got 1025",
          [](auto& p) { p.groups = 1025; });
  refused(kInvalid, "gated_activation: tail must be zero or untouched, got 4",
          [](auto& p) { p.tail = static_cast<GroupTail>(4); });
  refused(kInvalid, "gated_activation: rows must be 1 to 2^30, got 0", [](auto& p) {
    p.rows = 0;
    p.fp8.reset();
  });
  refused(kInvalid, "gated_activation: rows must be 1 to 2^30, got 1073741825",
          [](auto& p) { p.rows = kMaxGroupedRows + 1; });
  refused(kUnsupported,
          "gated_activation: block must be 1x128 with groups, got 128x128: a block of 128 rows "
          "would have rows of two groups",
          [](auto& p) { p.fp8->block = kBlock128x128; });
  refused(kUnsupported,
          "gated_activation: transposed_block must be 1x128 or 128x128 with groups, got 128x1",
          [](auto& p) { p.fp8->transposed_block = kBlock128x1; });
}

struct GatedGroupsCall {
  GatedGroupsCall() {
    args.dy = arena.matrix(Dtype::bf16, kRows, kCols);
    args.gate = arena.matrix(Dtype::bf16, kRows, kCols);
    args.up = arena.matrix(Dtype::bf16, kRows, kCols);
    args.row_weight = arena.tensor(Dtype::f32, {kRows});
    args.d_row_weight = arena.tensor(Dtype::f32, {kRows});
    args.fp8.out = arena.quantized(kRows, 2 * kCols, Dtype::e4m3, kBlock1x128);
    args.fp8.transposed = arena.quantized(QuantizedBatchLayout::token_blocks(
        max_token_blocks(3, kRows), 2 * kCols, Dtype::e4m3, kBlock1x128));
    args.table = arena.tensor(Dtype::i32, {group_table_words(3, kRows)});
    const std::int32_t sizes[] = {1, 0, 2};
    run(plan_group_table({.groups = 3, .rows = kRows}),
        {make_view(sizes, Dtype::i32, {3}), args.table});
    workspace = arena.workspace(plan_gated_activation_backward(pass.problem).workspace_bytes);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, pass, args, workspace);
  }

  Arena arena{1 << 19};
  GatedActivationBackward pass{gated_groups()};
  GatedActivationBackwardArgs args;
  Workspace workspace;
};

TEST(GatedActivationGroupsBadInput, RefusesBadTensors) {
  const GatedGroupsCall right;
  EXPECT_NO_THROW(
      run(plan_gated_activation_backward(right.pass.problem), right.args, right.workspace));
  GatedGroupsCall none;
  none.args.table = {};
  none.refused(
      "gated_activation: table must have rank 1, [group_table_words(groups, rows)], got rank 0");
  GatedGroupsCall turned;
  turned.args.fp8.transposed = turned.arena.quantized(2 * kCols, kRows, Dtype::e4m3, kBlock1x128);
  turned.refused(
      "gated_activation: fp8.transposed must have rank 3, [max_token_blocks(groups, rows), 2 cols, "
      "128], got rank 2");
  GatedGroupsCall never;
  static_cast<std::int32_t*>(never.args.table.data)[0] = 0;
  never.refused(text("gated_activation: table was not made by group_table, got i32[",
                     group_table_words(3, kRows), "]"));
  GatedGroupsCall overlap;
  overlap.args.table.data = overlap.args.fp8.out.values.data;
  overlap.refused("gated_activation: output fp8.out overlaps table: their memory must be apart");
}

}  // namespace
}  // namespace octet::bad_input
