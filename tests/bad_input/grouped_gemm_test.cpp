// What grouped_gemm refuses, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

GroupedGemmProblem over_rows() { return {.groups = 3, .rows = 300, .n = 130, .k = 200}; }
GroupedGemmProblem over_contraction() {
  GroupedGemmProblem problem = over_rows();
  problem.over = GroupedOver::contraction;
  return problem;
}
GroupedGemmProblem plain(GroupedGemmProblem problem, Major major) {
  problem.a = problem.b = {Dtype::bf16, {}, major};
  return problem;
}

void refused(ErrorCode code, const std::string& message, GroupedGemmProblem problem,
             const auto& change) {
  change(problem);
  expect_plan_refused(code, message, problem);
}

TEST(GroupedGemmBadInput, RefusesBadExtentsAndNumbers) {
  const auto invalid = [](const std::string& message, const auto& change) {
    refused(kInvalid, "grouped_gemm: " + message, over_rows(), change);
  };
  invalid("over must be rows or contraction, got 7",
          [](auto& p) { p.over = static_cast<GroupedOver>(7); });
  invalid("groups must be 1 to 1024, got 0", [](auto& p) { p.groups = 0; });
  invalid("groups must be 1 to 1024, got 1025", [](auto& p) { p.groups = 1025; });
  invalid("rows must be 1 to 2^30, got 0", [](auto& p) { p.rows = 0; });
  invalid("rows must be 1 to 2^30, got 1073741825", [](auto& p) { p.rows = kMaxGroupedRows + 1; });
  invalid("N must be at least 1, got 0", [](auto& p) { p.n = 0; });
  invalid("K must be at least 1, got -5", [](auto& p) { p.k = -5; });
  invalid("tail must be zero or untouched, got 0",
          [](auto& p) { p.tail = static_cast<GroupTail>(0); });
  invalid("expected_rows must be 0 to rows = 300, got -1", [](auto& p) { p.expected_rows = -1; });
  invalid("expected_rows must be 0 to rows = 300, got 301", [](auto& p) { p.expected_rows = 301; });
  invalid("max_multiprocessors must be at least 0, got -1",
          [](auto& p) { p.max_multiprocessors = -1; });
  invalid(
      "a tensor of 300 x 9223372036854775807 has more than 2^58 elements, the most that octet "
      "can address",
      [](auto& p) { p.k = std::numeric_limits<std::int64_t>::max(); });
  invalid(
      "a tensor of 3 x 144115188075855872 has more than 2^58 elements, the most that octet can "
      "address",
      [](auto& p) {
        p.n = std::int64_t{1} << 28;
        p.k = std::int64_t{1} << 29;
      });
}

TEST(GroupedGemmBadInput, RefusesFormatsThatHaveNoProduct) {
  refused(kInvalid, "grouped_gemm: out_dtype must be f32, f16 or bf16, got e4m3", over_rows(),
          [](auto& p) { p.out_dtype = Dtype::e4m3; });
  refused(kUnsupported,
          "grouped_gemm: a and b must both be FP8 or have the same dtype, got e4m3 and bf16",
          over_rows(), [](auto& p) {
            p.b = {Dtype::bf16, {}};
          });
  refused(kUnsupported,
          "grouped_gemm: over rows, blocks of a must be 1x128, got 128x128, which can have rows of "
          "two groups",
          over_rows(), [](auto& p) {
            p.a.block = kBlock128x128;
            p.b.block = kBlock1x128;
          });
  refused(kUnsupported,
          "grouped_gemm: a and b have both 128x128 blocks; at least one must have 1x128",
          over_contraction(), [](auto& p) { p.a.block = kBlock128x128; });
  for (BlockShape block : {kBlock128x1, kEachRow, kWholeTensor, kBlock1x32, kBlock32x32}) {
    refused(kUnsupported,
            "grouped_gemm: blocks of b must be 1x128 or 128x128 over groups, got " + name(block),
            over_rows(), [&](auto& p) { p.b.block = block; });
  }
  refused(kUnsupported,
          "grouped_gemm: over the contraction, bf16 operands are read as they are, with contiguous "
          "columns: major of b must be mn, got k",
          plain(over_contraction(), Major::mn), [](auto& p) { p.b.major = Major::k; });
  refused(kUnsupported,
          "grouped_gemm: accumulate adds up weight gradients, over the contraction; over rows, d "
          "is always overwritten",
          over_rows(), [](auto& p) { p.accumulate = true; });
  refused(kUnsupported, "grouped_gemm: accumulate needs an f32 or bf16 output, got f16",
          over_contraction(), [](auto& p) {
            p.accumulate = true;
            p.out_dtype = Dtype::f16;
          });
}

// A valid call; every test breaks one thing in it.
struct GroupedCall {
  explicit GroupedCall(const GroupedGemmProblem& given) : problem(given) {
    const auto& [groups, rows, n, k] = std::tie(given.groups, given.rows, given.n, given.k);
    const std::int64_t blocks = max_token_blocks(groups, rows);
    const bool fp8 = is_fp8(given.a.dtype);
    if (given.over == GroupedOver::rows) {
      args.a = fp8 ? arena.quantized(rows, k, given.a.dtype, given.a.block)
                   : QuantizedView(arena.matrix(given.a.dtype, rows, k));
      args.b =
          fp8 ? arena.quantized(QuantizedBatchLayout(groups, n, k, given.b.dtype, given.b.block))
              : QuantizedView(arena.tensor(given.b.dtype, {groups, n, k}));
      args.d = arena.matrix(given.out_dtype, rows, n);
    } else {
      const auto tokens = [&](const GemmOperand& operand, std::int64_t features) {
        return fp8 ? arena.quantized(QuantizedBatchLayout::token_blocks(
                         blocks, features, operand.dtype, operand.block))
                   : QuantizedView(arena.matrix(operand.dtype, given.rows, features));
      };
      args.a = tokens(given.a, n);
      args.b = tokens(given.b, k);
      args.d = arena.tensor(given.out_dtype, {groups, n, k});
    }
    args.table = arena.tensor(Dtype::i32, {group_table_words(groups, rows)});
    workspace = arena.workspace(plan_grouped_gemm(given).workspace_bytes);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, "grouped_gemm: " + message, arena, problem, args, workspace);
  }

  Arena arena{std::size_t{8} << 20};
  GroupedGemmProblem problem;
  GroupedGemmArgs args;
  Workspace workspace;
};

TEST(GroupedGemmBadInput, RefusesWeightsOfAnotherCountAndOtherShapes) {
  GroupedCall fewer(over_rows());
  fewer.args.b.values.shape[0] = 2;
  fewer.refused("b must be [groups, N, K] = [3, 130, 200], got [2, 130, 200]");
  GroupedCall matrix(over_rows());
  matrix.args.b.values.rank = 2;
  matrix.refused("b must have rank 3, [groups, N, K], got rank 2");
  GroupedCall rows(over_rows());
  rows.args.a.values.shape[0] = 299;
  rows.refused("a must be [rows, K] = [300, 200], got [299, 200]");
  GroupedCall d(over_rows());
  d.args.d.shape[1] = 131;
  d.refused("d must be [rows, N] = [300, 130], got [300, 131]");
  GroupedCall gradients(over_contraction());
  gradients.args.d.shape[0] = 4;
  gradients.refused("d must be [groups, N, K] = [3, 130, 200], got [4, 130, 200]");
  GroupedCall tokens(over_contraction());
  tokens.args.a.values.shape[0] = 4;
  tokens.refused(
      "a must be [max_token_blocks(groups, rows), N, 128] = [5, 130, 128], got [4, 130, 128]");
  GroupedGemmProblem mn = plain(over_rows(), Major::k);
  mn.b.major = Major::mn;
  GroupedCall turned(mn);
  turned.refused(
      "b, with N and K exchanged (major mn), must have a contiguous last dimension (stride 1), got "
      "bf16[3, 200, 130] strides [26000, 1, 200]");
}

TEST(GroupedGemmBadInput, RefusesScalesOfAnotherLayout) {
  GroupedCall shape(over_rows());
  shape.args.b.scales.shape[1] = 1;
  shape.refused("scale of b must be [3, 2, 2] for 128x128 blocks of b[3, 130, 200], got [3, 1, 2]");
  GroupedCall block(over_rows());
  block.args.b.block = kBlock1x128;
  block.refused("b must have 128x128 blocks, got 1x128");
  GroupedCall tokens(over_contraction());
  tokens.args.b.scales.shape[2] = 2;
  tokens.refused(
      "scale of b must be [5, 2, 1] for 128x128 blocks of b[5, 200, 128], got [5, 2, 2]");
  GroupedCall missing(over_rows());
  missing.args.a.scales.data = nullptr;
  missing.refused("scale of a has a null pointer");
  for (const GroupedGemmProblem& problem :
       {plain(over_rows(), Major::k), plain(over_contraction(), Major::mn)}) {
    GroupedCall unscaled(problem);
    unscaled.args.b.scales = unscaled.arena.matrix(Dtype::f32, 1, 1);
    unscaled.refused("b is bf16, which has no scales, but scales were given");
  }
  GroupedCall dtype(over_rows());
  dtype.args.a.values.dtype = Dtype::e5m2;
  dtype.refused("a must be e4m3, got e5m2");
}

TEST(GroupedGemmBadInput, RefusesMemoryThatDoesNotFit) {
  GroupedCall off(over_rows());
  off.args.b.values.strides[0] += 1;
  off.refused(text("rows and matrices of b must start on 16-byte boundaries, got address ",
                   off.args.b.values.data, " and strides of 33281 and 256 bytes"));
  GroupedCall overlap(over_rows());
  overlap.args.d.data = overlap.args.a.values.data;
  overlap.refused("output d overlaps a: their memory must be apart");
  GroupedCall over_table(over_contraction());
  over_table.args.table.data = over_table.args.d.data;
  over_table.refused("output d overlaps table: their memory must be apart");
  GroupedCall folded(over_contraction());
  folded.args.d.strides[0] = 100;
  folded.refused("elements of d share memory: bf16[3, 130, 200] strides [100, 200, 1]");
  GroupedCall device(over_rows());
  device.args.d.device = {DeviceType::cuda, 0};
  device.refused("d is on cuda:0, the problem is on cpu");
  GroupedCall small(over_rows());
  small.workspace.bytes -= 1;
  small.refused(text("workspace must have ", small.workspace.bytes + 1, " bytes, got ",
                     small.workspace.bytes));
}

TEST(GroupedGemmBadInput, RefusesTablesThatDoNotFit) {
  GroupedCall never(over_rows());
  never.refused(text("table was not made by group_table, got ", describe(never.args.table)));
  GroupedCall shorter(over_rows());
  shorter.args.table.shape[0] -= 1;
  shorter.refused(text("table must be [group_table_words(groups, rows)] = [",
                       group_table_words(3, 300), "], got [", group_table_words(3, 300) - 1, "]"));
  GroupedCall off(over_contraction());
  off.args.table.data = static_cast<char*>(off.args.table.data) + 4;
  off.refused(text("table must start on a 16-byte boundary, got address ", off.args.table.data));
}

TEST(GroupedGemmBadInput, LayersAreRefusedAlikeByBothApis) {
  Fp8GroupedLinearProblem problem;
  problem.groups = 3;
  problem.rows = 300;
  problem.n = 130;
  problem.k = 200;
  const auto refused_layer = [&](const std::string& message, const auto& change) {
    Fp8GroupedLinearProblem changed = problem;
    change(changed);
    expect_plan_refused(kInvalid, message, Fp8GroupedLinearForward{changed});
    expect_plan_refused(kInvalid, message, Fp8GroupedLinearBackward{changed});
  };
  refused_layer("fp8_grouped_linear: groups must be 1 to 1024, got 0",
                [](auto& p) { p.groups = 0; });
  refused_layer("fp8_grouped_linear: max_multiprocessors must be at least 0, got -3",
                [](auto& p) { p.max_multiprocessors = -3; });
  refused_layer("fp8_grouped_linear: wgrad_blocks must be rows (1) or square (2), got 5",
                [](auto& p) { p.wgrad_blocks = static_cast<WgradBlocks>(5); });

  Arena arena(std::size_t{8} << 20);
  const Fp8GroupedLinearSavedLayout layout = fp8_grouped_linear_saved_layout(problem);
  Fp8GroupedLinearForwardArgs args;
  args.x = arena.matrix(Dtype::bf16, 300, 200);
  args.w = arena.tensor(Dtype::bf16, {3, 130, 200});
  args.y = arena.matrix(Dtype::bf16, 300, 130);
  args.saved = {arena.quantized(layout.x_t), arena.quantized(layout.w_t)};
  args.table = arena.tensor(Dtype::i32, {group_table_words(3, 300)});
  const Workspace workspace =
      arena.workspace(plan_fp8_grouped_linear_forward(problem).workspace_bytes);
  const auto refused_run = [&](const std::string& message, const auto& change) {
    Fp8GroupedLinearForwardArgs changed = args;
    change(changed);
    expect_run_refused(kInvalid, message, arena, Fp8GroupedLinearForward{problem}, changed,
                       workspace);
  };
  refused_run(
      "fp8_grouped_linear_forward: w must be [groups, N, K] = [3, 130, 200], got [2, 130, "
      "200]",
      [](auto& a) { a.w.shape[0] = 2; });
  refused_run("fp8_grouped_linear_forward: output y overlaps x: their memory must be apart",
              [](auto& a) { a.y.data = a.x.data; });
  refused_run(text("quantize: table was not made by group_table, got ", describe(args.table)),
              [](auto&) {});
}

}  // namespace
}  // namespace octet::bad_input
