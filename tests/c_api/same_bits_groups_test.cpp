// The C API gives the bits of the C++ API, for operators over groups.
#include "c_api/same_bits.hpp"

#include <cstring>

namespace octet {
namespace {

TEST(CApiGroups, TablesHaveTheSameBits) {
  for (const GroupSizes given : {GroupSizes::sizes, GroupSizes::ends, GroupSizes::offsets}) {
    const GroupTableProblem problem{3, 500, given};
    expect_same_bits(problem, [&](Arena& arena) {
      const std::int32_t numbers[4] = {0, 100, 300, 450};
      GroupTableArgs args;
      args.sizes = arena.tensor(Dtype::i32, {given == GroupSizes::offsets ? 4 : 3});
      std::memcpy(args.sizes.data, numbers, static_cast<std::size_t>(args.sizes.shape[0]) * 4);
      args.table = arena.tensor(Dtype::i32, {group_table_words(3, 500)});
      return args;
    });
  }
}

TEST(CApiGroups, QuantizedGroupsHaveTheSameBits) {
  for (const std::int64_t source_rows : {0, 40}) {
    for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
      const QuantizeProblem problem{.rows = 300,
                                    .cols = 131,
                                    .transposed_block = kBlock128x128,
                                    .groups = 3,
                                    .source_rows = source_rows,
                                    .source_top_k = source_rows > 0 ? 2 : 0,
                                    .tail = tail};
      expect_same_bits(problem, [&](Arena& arena) {
        QuantizeArgs args;
        args.input = filled(arena.matrix(Dtype::bf16, source_rows > 0 ? source_rows : 300, 131), 1);
        args.out = arena.quantized(300, 131, Dtype::e4m3, kBlock1x128);
        args.transposed = arena.quantized(QuantizedBatchLayout::token_blocks(
            max_token_blocks(3, 300), 131, Dtype::e4m3, kBlock128x128));
        args.table = arena.tensor(Dtype::i32, {group_table_words(3, 300)});
        const std::int32_t sizes[3] = {5, 0, 270};
        run_cpp(GroupTableProblem{3, 300},
                GroupTableArgs{make_view(sizes, Dtype::i32, {3}), args.table});
        args.source = arena.tensor(Dtype::i32, {300});
        for (int r = 0; r < 300; ++r) static_cast<std::int32_t*>(args.source.data)[r] = r % 40;
        return args;
      });
    }
  }
}

TEST(CApiGroups, QuantizedBatchesHaveTheSameBits) {
  const QuantizeProblem problem{.rows = 150,
                                .cols = 131,
                                .block = kBlock128x128,
                                .transposed_block = kBlock128x128,
                                .batch = 3};
  expect_same_bits(problem, [&](Arena& arena) {
    QuantizeArgs args;
    args.input = filled(arena.tensor(Dtype::bf16, {3, 150, 131}), 1);
    args.out = arena.quantized(QuantizedBatchLayout(3, 150, 131, Dtype::e4m3, kBlock128x128));
    args.transposed =
        arena.quantized(QuantizedBatchLayout(3, 131, 150, Dtype::e4m3, kBlock128x128));
    return args;
  });
}

TensorView made_table(Arena& arena) {
  const TensorView table = arena.tensor(Dtype::i32, {group_table_words(3, 200)});
  const std::int32_t sizes[3] = {5, 0, 170};
  run_cpp(GroupTableProblem{3, 200}, GroupTableArgs{make_view(sizes, Dtype::i32, {3}), table});
  return table;
}

TEST(CApiGroups, ProductsOverRowsHaveTheSameBits) {
  for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
    GroupedGemmProblem problem{.groups = 3, .rows = 200, .n = 70, .k = 131};
    problem.out_dtype = Dtype::f32;
    problem.tail = tail;
    problem.expected_rows = 170;
    problem.max_multiprocessors = 3;
    expect_same_bits(problem, [&](Arena& arena) {
      GroupedGemmArgs args;
      args.a = arena.quantized(200, 131, Dtype::e4m3, kBlock1x128);
      args.b = arena.quantized(QuantizedBatchLayout(3, 70, 131, Dtype::e4m3, kBlock128x128));
      args.d = arena.matrix(Dtype::f32, 200, 70);
      args.table = made_table(arena);
      return args;
    });
  }
}

TEST(CApiGroups, ProductsOverTheContractionHaveTheSameBits) {
  for (const bool fp8 : {true, false}) {
    GroupedGemmProblem problem{
        .over = GroupedOver::contraction, .groups = 3, .rows = 200, .n = 70, .k = 131};
    problem.out_dtype = Dtype::f32;
    problem.accumulate = true;
    if (!fp8) problem.a = problem.b = {Dtype::bf16, {}, Major::mn};
    expect_same_bits(problem, [&](Arena& arena) {
      const std::int64_t blocks = max_token_blocks(3, 200);
      GroupedGemmArgs args;
      if (fp8) {
        args.a = arena.quantized(
            QuantizedBatchLayout::token_blocks(blocks, 70, Dtype::e4m3, kBlock1x128));
        args.b = arena.quantized(
            QuantizedBatchLayout::token_blocks(blocks, 131, Dtype::e4m3, kBlock128x128));
      } else {
        args.a = filled(arena.matrix(Dtype::bf16, 200, 70), 1);
        args.b = filled(arena.matrix(Dtype::bf16, 200, 131), 2);
      }
      args.d = filled(arena.tensor(Dtype::f32, {3, 70, 131}), 3);
      args.table = made_table(arena);
      return args;
    });
  }
}

TEST(CApiGroups, LayersHaveTheSameBits) {
  Fp8GroupedLinearProblem problem;
  problem.groups = 3;
  problem.rows = 200;
  problem.n = 70;
  problem.k = 131;
  problem.wgrad_blocks = WgradBlocks::square;
  problem.tail = GroupTail::untouched;
  const Fp8GroupedLinearSavedLayout layout = fp8_grouped_linear_saved_layout(problem);
  octet_fp8_grouped_linear_saved_layout c_layout;
  const octet_fp8_grouped_linear_problem c_problem = to_c(problem);
  ASSERT_EQ(octet_make_fp8_grouped_linear_saved_layout(&c_problem, &c_layout), OCTET_OK);
  EXPECT_EQ(c_layout.x_t.bytes, layout.x_t.bytes);
  EXPECT_EQ(c_layout.x_t.token_blocks, 1);
  EXPECT_EQ(c_layout.w_t.bytes, layout.w_t.bytes);
  const auto forward_args = [&](Arena& arena) {
    Fp8GroupedLinearForwardArgs args;
    args.x = filled(arena.matrix(Dtype::bf16, 200, 131), 1);
    args.w = filled(arena.tensor(Dtype::bf16, {3, 70, 131}), 2);
    args.y = arena.matrix(Dtype::bf16, 200, 70);
    args.saved = {arena.quantized(layout.x_t), arena.quantized(layout.w_t)};
    args.table = made_table(arena);
    return args;
  };
  expect_same_bits(Fp8GroupedLinearForward{problem}, forward_args);
  expect_same_bits(Fp8GroupedLinearBackward{problem}, [&](Arena& arena) {
    const Fp8GroupedLinearForwardArgs forward = forward_args(arena);
    run_cpp(Fp8GroupedLinearForward{problem}, forward);
    Fp8GroupedLinearBackwardArgs args;
    args.dy = filled(arena.matrix(Dtype::bf16, 200, 70), 3);
    args.saved = forward.saved;
    args.dx = arena.matrix(Dtype::bf16, 200, 131);
    args.dw = arena.tensor(Dtype::bf16, {3, 70, 131});
    args.table = forward.table;
    return args;
  });
}

}  // namespace
}  // namespace octet
