// What quantize refuses of batches and groups, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <cstddef>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

QuantizeProblem batch_problem() {
  return {.rows = 130, .cols = 70, .transposed_block = kBlock128x128, .batch = 3};
}
QuantizeProblem group_problem() {
  return {.rows = 300, .cols = 70, .transposed_block = kBlock1x128, .groups = 3};
}
QuantizeProblem gather_problem() {
  QuantizeProblem problem = group_problem();
  problem.source_rows = 40;
  return problem;
}

void refused(ErrorCode code, const std::string& message, QuantizeProblem problem,
             const auto& change) {
  change(problem);
  expect_plan_refused(code, message, problem);
}

TEST(QuantizeBatchBadInput, RefusesBadProblems) {
  refused(kInvalid, "quantize: batch must be at least 0, got -1", batch_problem(),
          [](auto& p) { p.batch = -1; });
  refused(kInvalid, "quantize: batch and groups do not go together, got a batch of 3 and 2 groups",
          batch_problem(), [](auto& p) { p.groups = 2; });
  refused(kInvalid,
          "quantize: a tensor of 1152921504606846976 x 9100 has more than 2^58 elements, the most "
          "that octet can address",
          batch_problem(), [](auto& p) { p.batch = std::int64_t{1} << 60; });
  refused(kUnsupported, "quantize: block must be 1x128 or 128x128 with a batch, got 128x1",
          batch_problem(), [](auto& p) { p.block = kBlock128x1; });
  refused(kUnsupported,
          "quantize: transposed_block must be 1x128 or 128x128 with a batch, got 128x1",
          batch_problem(), [](auto& p) { p.transposed_block = kBlock128x1; });
  refused(kInvalid, "quantize: source_rows goes with groups, got 5 without groups", batch_problem(),
          [](auto& p) { p.source_rows = 5; });
}

TEST(QuantizeGroupsBadInput, RefusesBadProblems) {
  refused(kInvalid, "quantize: groups must be 1 to 1024, got -1", group_problem(),
          [](auto& p) { p.groups = -1; });
  refused(kInvalid, "quantize: groups must be 1 to 1024, got 1025", group_problem(),
          [](auto& p) { p.groups = 1025; });
  refused(kInvalid, "quantize: rows must be 1 to 2^30, got 1073741825", group_problem(),
          [](auto& p) { p.rows = kMaxGroupedRows + 1; });
  refused(kInvalid, "quantize: tail must be zero or untouched, got 7", group_problem(),
          [](auto& p) { p.tail = static_cast<GroupTail>(7); });
  refused(kInvalid, "quantize: source_rows must be 0 to 2^31 - 1, got -1", group_problem(),
          [](auto& p) { p.source_rows = -1; });
  refused(kInvalid, "quantize: source_rows must be 0 to 2^31 - 1, got 2147483648", group_problem(),
          [](auto& p) { p.source_rows = std::int64_t{1} << 31; });
  refused(kInvalid, "quantize: source_rows goes with groups, got 5 without groups",
          gather_problem(), [](auto& p) {
            p.groups = 0;
            p.source_rows = 5;
          });
  refused(kInvalid, "quantize: source_top_k must be at least 0, got -2", gather_problem(),
          [](auto& p) { p.source_top_k = -2; });
  refused(kInvalid, "quantize: source_top_k goes with source_rows, got 8 without source_rows",
          group_problem(), [](auto& p) { p.source_top_k = 8; });
  refused(kInvalid,
          "quantize: source_rows * source_top_k must be at most 2^31 - 1, got 40 * 53687092",
          gather_problem(), [](auto& p) { p.source_top_k = 53687092; });
  refused(kInvalid,
          "quantize: a tensor of 640 x 450359962737050 has more than 2^58 elements, the most that "
          "octet can address",
          group_problem(), [](auto& p) { p.cols = 450359962737050; });
  refused(kInvalid,
          "quantize: a tensor of 1073741824 x 1073741824 has more than 2^58 elements, the most "
          "that octet can address",
          group_problem(), [](auto& p) {
            p.cols = 1 << 30;
            p.source_rows = 1 << 30;
          });
  refused(kUnsupported,
          "quantize: block must be 1x128 with groups, got 128x128: a block of 128 rows would have "
          "rows of two groups",
          group_problem(), [](auto& p) { p.block = kBlock128x128; });
  refused(kUnsupported,
          "quantize: block must be 1x128 with groups, got 128x1: a block of 128 rows would have "
          "rows of two groups",
          group_problem(), [](auto& p) { p.block = kBlock128x1; });
  refused(kUnsupported,
          "quantize: transposed_block must be 1x128 or 128x128 with groups, got 128x1",
          group_problem(), [](auto& p) { p.transposed_block = kBlock128x1; });
}

struct BatchCall {
  BatchCall() {
    args.input = arena.tensor(problem.input_dtype, {3, 130, 70});
    args.out = arena.quantized(QuantizedBatchLayout(3, 130, 70, problem.format, kBlock1x128));
    args.transposed =
        arena.quantized(QuantizedBatchLayout(3, 70, 130, problem.format, kBlock128x128));
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, problem, args, {});
  }

  Arena arena{1 << 19};
  QuantizeProblem problem = batch_problem();
  QuantizeArgs args;
};

TEST(QuantizeBatchBadInput, TheCallTheTestsSpoilIsRight) {
  BatchCall call;
  EXPECT_NO_THROW(run(plan_quantize(call.problem), call.args));
}

TEST(QuantizeBatchBadInput, RefusesBadTensors) {
  BatchCall matrix;
  matrix.args.input = make_view(matrix.args.input.data, matrix.problem.input_dtype, {130, 70});
  matrix.refused("quantize: input must have rank 3, [batch, rows, cols], got rank 2");
  BatchCall fewer;
  fewer.args.input.shape[0] = 2;
  fewer.refused("quantize: input must be [batch, rows, cols] = [3, 130, 70], got [2, 130, 70]");
  BatchCall untransposed;
  untransposed.args.transposed = untransposed.args.out;
  untransposed.refused(
      "quantize: transposed must be [batch, cols, rows] = [3, 70, 130], got [3, 130, 70]");
  BatchCall same;
  same.args.out.values.strides[0] = 0;
  same.refused("quantize: elements of out share memory: e4m3[3, 130, 70] strides [0, 128, 1]");
  BatchCall odd;
  odd.args.out.values.strides[0] += 8;
  odd.refused(
      text("quantize: rows and matrices of out must start on 16-byte boundaries, got "
           "address ",
           odd.args.out.values.data, " and strides of 16648 and 128 bytes"));
  BatchCall block;
  block.args.transposed.block = kBlock1x128;
  block.refused("quantize: transposed must have 128x128 blocks, got 1x128");
  BatchCall scale;
  scale.args.transposed.scales.shape[2] = 1;
  scale.refused(
      "quantize: scale of transposed must be [3, 1, 2] for 128x128 blocks of transposed[3, 70, "
      "130], got [3, 1, 1]");
  BatchCall overlap;
  overlap.args.input.data = overlap.args.transposed.values.data;
  overlap.refused("quantize: output transposed overlaps input: their memory must be apart");
}

struct GroupsCall {
  explicit GroupsCall(const QuantizeProblem& given = group_problem()) : problem(given) {
    args.input = arena.matrix(problem.input_dtype,
                              problem.source_rows > 0 ? problem.source_rows : problem.rows, 70);
    args.out = arena.quantized(300, 70, problem.format, kBlock1x128);
    args.transposed = arena.quantized(QuantizedBatchLayout::token_blocks(
        max_token_blocks(3, 300), 70, problem.format, kBlock1x128));
    args.table = arena.tensor(Dtype::i32, {group_table_words(3, 300)});
    const std::int32_t sizes[] = {100, 0, 129};
    run(plan_group_table({.groups = 3, .rows = 300}),
        {make_view(sizes, Dtype::i32, {3}), args.table});
    if (problem.source_rows == 0) return;
    args.source = arena.tensor(Dtype::i32, {300});
    for (int r = 0; r < 300; ++r) source()[r] = r < 229 ? r % 40 : -7;
  }
  std::int32_t* source() const { return static_cast<std::int32_t*>(args.source.data); }
  std::int32_t* table() const { return static_cast<std::int32_t*>(args.table.data); }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, problem, args, {});
  }

  Arena arena{1 << 18};
  QuantizeProblem problem;
  QuantizeArgs args;
};

TEST(QuantizeGroupsBadInput, TheCallsTheTestsSpoilAreRight) {
  GroupsCall call;
  EXPECT_NO_THROW(run(plan_quantize(call.problem), call.args));
  GroupsCall gather(gather_problem());
  EXPECT_NO_THROW(run(plan_quantize(gather.problem), gather.args));
}

TEST(QuantizeGroupsBadInput, RefusesBadTensors) {
  GroupsCall none;
  none.args.table = {};
  none.refused("quantize: table must have rank 1, [group_table_words(groups, rows)], got rank 0");
  GroupsCall shorter;
  shorter.args.table.shape[0] -= 1;
  shorter.refused(text("quantize: table must be [group_table_words(groups, rows)] = [",
                       group_table_words(3, 300), "], got [", group_table_words(3, 300) - 1, "]"));
  GroupsCall matrix;
  matrix.args.transposed = matrix.arena.quantized(70, 300, Dtype::e4m3, kBlock1x128);
  matrix.refused(
      "quantize: transposed must have rank 3, [max_token_blocks(groups, rows), cols, 128], got "
      "rank 2");
  GroupsCall blocks;
  blocks.args.transposed.values.shape[0] = 4;
  blocks.refused(
      "quantize: transposed must be [max_token_blocks(groups, rows), cols, 128] = [5, 70, 128], "
      "got [4, 70, 128]");
  GroupsCall padded;
  padded.args.out.values.shape[0] = 384;
  padded.refused("quantize: out must be [rows, cols] = [300, 70], got [384, 70]");
  GroupsCall device;
  device.args.table.device = {DeviceType::cuda, 0};
  device.refused("quantize: table is on cuda:0, the problem is on cpu");
  GroupsCall overlap;
  overlap.args.table.data = overlap.args.out.values.data;
  overlap.refused("quantize: output out overlaps table: their memory must be apart");
}

TEST(QuantizeGroupsBadInput, RefusesBadSources) {
  GroupsCall none(gather_problem());
  none.args.source = {};
  none.refused("quantize: source must have rank 1, [rows], got rank 0");
  GroupsCall wide(gather_problem());
  wide.args.source.dtype = Dtype::i64;
  wide.refused("quantize: source must be i32, got i64");
  GroupsCall permuted(gather_problem());
  permuted.args.input = permuted.arena.matrix(Dtype::bf16, 300, 70);
  permuted.refused("quantize: input must be [source_rows, cols] = [40, 70], got [300, 70]");
  GroupsCall beyond(gather_problem());
  beyond.source()[228] = 40;
  beyond.refused("quantize: source[228] must be 0 to 39, got 40");
  GroupsCall slot(gather_problem());
  slot.problem.source_top_k = 3;
  slot.source()[1] = 120;
  slot.refused("quantize: source[1] must be 0 to 119, got 120");
  GroupsCall negative(gather_problem());
  negative.source()[0] = -1;
  negative.refused("quantize: source[0] must be 0 to 39, got -1");
}

TEST(QuantizeGroupsBadInput, RefusesTablesOfOtherGroups) {
  GroupsCall never;
  never.table()[0] = 0;
  never.refused(text("quantize: table was not made by group_table, got i32[",
                     group_table_words(3, 300), "]"));
  GroupsCall other;
  other.table()[2] = 301;
  other.refused(
      "quantize: table is not one of 3 groups in 300 rows; it was made for 3 groups in 301 rows");
  GroupsCall spoilt;
  spoilt.table()[16 + 3] = 301;  // the end of the last group
  spoilt.refused(
      "quantize: table is not one of 3 groups in 300 rows; it was made for 3 groups in 300 rows");
}

// What problems without groups do not use is not read.
TEST(QuantizeGroupsBadInput, IgnoresTablesWithoutGroups) {
  GroupsCall call(gather_problem());
  call.problem = {.rows = 300, .cols = 70};
  call.problem.tail = static_cast<GroupTail>(0);
  call.args.input = call.arena.matrix(Dtype::bf16, 300, 70);
  call.args.table.rank = call.args.source.rank = 99;
  EXPECT_NO_THROW(run(plan_quantize(call.problem), call.args));
  octet_plan* made = nullptr;
  ASSERT_EQ(c_plan(call.problem, &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  EXPECT_EQ(c_run(made, call.args, {}), OCTET_OK) << octet_last_error();
}

// Programs that were compiled before groups pass shorter arguments.
TEST(QuantizeGroupsBadInput, TakesTheArgumentsOfOlderHeaders) {
  GroupsCall call;
  call.problem = {.rows = 300, .cols = 70};
  octet_plan* made = nullptr;
  ASSERT_EQ(c_plan(call.problem, &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  octet_quantize_args args = to_c(call.args);
  args.struct_size = offsetof(octet_quantize_args, table);
  EXPECT_EQ(octet_run_quantize(made, &args, nullptr, 0, nullptr), OCTET_OK) << octet_last_error();
  args.struct_size -= 8;
  expect_status(kInvalid,
                text("quantize: struct_size of args must be at least ",
                     offsetof(octet_quantize_args, table), " and at most 65536, got ",
                     args.struct_size, "; OCTET_INIT or the struct's own init function sets it"),
                octet_run_quantize(made, &args, nullptr, 0, nullptr));

  ASSERT_EQ(c_plan(group_problem(), &made), OCTET_OK) << octet_last_error();
  const PlanOwner groups(made, octet_destroy_plan);
  args.struct_size = offsetof(octet_quantize_args, table);
  expect_status(kInvalid,
                "quantize: table must have rank 1, [group_table_words(groups, rows)], got rank 0",
                octet_run_quantize(made, &args, nullptr, 0, nullptr));
}

TEST(QuantizedBatchLayoutBadInput, IsRefusedThroughC) {
  const octet_block rows = octet_block_of(1, 128);
  octet_quantized_batch_layout layout;
  const auto batch = [&](std::int64_t count, octet_block block) {
    return octet_make_quantized_batch_layout(count, 130, 70, OCTET_E4M3, block, &layout);
  };
  expect_status(kInvalid, "quantized layout: batch must be at least 1, got 0", batch(0, rows));
  expect_status(kUnsupported,
                "quantized layout: blocks of a batch must be 1x128 or 128x128, got 128x1",
                batch(2, octet_block_of(128, 1)));
  expect_status(kInvalid, "quantized layout: layout is a null pointer",
                octet_make_token_block_layout(2, 70, OCTET_E4M3, rows, nullptr));
  ASSERT_EQ(batch(2, rows), OCTET_OK);
  octet_quantized view;
  Arena arena(1 << 17);
  layout.token_blocks = 2;
  expect_status(
      kInvalid, "quantized layout: token_blocks must be 0 or 1, got 2",
      octet_make_quantized_batch_view(&layout, arena.take(layout.bytes), octet_cpu(), &view));
  std::int64_t blocks = 0;
  expect_status(kInvalid, "group_table: groups must be 1 to 1024, got 0",
                octet_max_token_blocks(0, 300, &blocks));
  ASSERT_EQ(octet_max_token_blocks(3, 300, &blocks), OCTET_OK);
  EXPECT_EQ(blocks, 5);
}

}  // namespace
}  // namespace octet::bad_input
