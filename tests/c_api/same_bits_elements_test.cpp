// The C API gives the bits of the C++ API, for the operators on elements and rows. Every optional
// part is used in one of the calls.
#include "c_api/same_bits.hpp"

#include <numeric>

namespace octet {
namespace {

constexpr std::int64_t kRows = 130, kCols = 70;

Fp8Copies copies(Arena& arena, const Fp8Output& output, std::int64_t rows, std::int64_t cols) {
  Fp8Copies copies;
  if (output.block) copies.out = arena.quantized(rows, cols, output.format, *output.block);
  if (output.transposed_block) {
    copies.transposed = arena.quantized(cols, rows, output.format, *output.transposed_block);
  }
  return copies;
}

RmsNormProblem norm_problem() {
  RmsNormProblem problem{.rows = kRows,
                         .cols = kCols,
                         .weight_dtype = Dtype::f32,
                         .eps = 0.25f,
                         .residual = true,
                         .one_plus_weight = true,
                         .dg_dtype = Dtype::f16};
  return problem;
}

RmsNormForwardArgs norm_inputs(Arena& arena) {
  RmsNormForwardArgs args;
  args.x = filled(arena.matrix(Dtype::bf16, kRows, kCols), 1);
  args.residual = filled(arena.matrix(Dtype::bf16, kRows, kCols), 2);
  args.g = filled(arena.tensor(Dtype::f32, {kCols}), 3);
  args.sum = arena.matrix(Dtype::bf16, kRows, kCols);
  args.rstd = arena.tensor(Dtype::f32, {kRows});
  return args;
}

TEST(CApiSameBits, RmsNormForward) {
  expect_same_bits(RmsNormForward{norm_problem()}, [](Arena& arena) {
    RmsNormForwardArgs args = norm_inputs(arena);
    args.y = arena.matrix(Dtype::bf16, kRows, kCols);
    return args;
  });
}

TEST(CApiSameBits, RmsNormForwardToFp8) {
  RmsNormProblem problem = norm_problem();
  problem.fp8 = Fp8Output{Dtype::e5m2, kBlock1x128, kBlock128x128, 0.5f, true};
  expect_same_bits(RmsNormForward{problem}, [&](Arena& arena) {
    RmsNormForwardArgs args = norm_inputs(arena);
    args.fp8 = copies(arena, *problem.fp8, kRows, kCols);
    return args;
  });
}

TEST(CApiSameBits, RmsNormBackward) {
  expect_same_bits(RmsNormBackward{norm_problem()}, [](Arena& arena) {
    RmsNormBackwardArgs args;
    args.dy = filled(arena.matrix(Dtype::bf16, kRows, kCols), 1);
    args.h = filled(arena.matrix(Dtype::bf16, kRows, kCols), 2);
    args.g = filled(arena.tensor(Dtype::f32, {kCols}), 3);
    args.rstd = filled(arena.tensor(Dtype::f32, {kRows}), 4);
    args.dsum = filled(arena.matrix(Dtype::bf16, kRows, kCols), 5);
    args.dx = arena.matrix(Dtype::bf16, kRows, kCols);
    args.dresidual = arena.matrix(Dtype::bf16, kRows, kCols);
    args.dg = arena.tensor(Dtype::f16, {kCols});
    return args;
  });
}

TEST(CApiSameBits, RmsNormBackwardWithoutWhatMayBeAbsent) {
  RmsNormProblem problem = norm_problem();
  problem.residual = problem.one_plus_weight = false;
  expect_same_bits(RmsNormBackward{problem}, [](Arena& arena) {
    RmsNormBackwardArgs args;
    args.dy = filled(arena.matrix(Dtype::bf16, kRows, kCols), 1);
    args.h = filled(arena.matrix(Dtype::bf16, kRows, kCols), 2);
    args.g = filled(arena.tensor(Dtype::f32, {kCols}), 3);
    args.rstd = filled(arena.tensor(Dtype::f32, {kRows}), 4);
    args.dx = arena.matrix(Dtype::bf16, kRows, kCols);
    args.dg = arena.tensor(Dtype::f16, {kCols});
    return args;
  });
}

// Two sequences of five tokens, three heads of q and one of k; six of eight elements are rotated.
constexpr std::int64_t kBatch = 2, kSeq = 5, kQHeads = 3, kKHeads = 1, kHeadDim = 8;

Rotation rotation() {
  Rotation rotation;
  rotation.style = RopeStyle::interleaved;
  rotation.rotary_dim = 6;
  rotation.cache_rows = 11;
  rotation.full_cache = true;
  rotation.cache_dtype = Dtype::f16;
  rotation.positions_dtype = Dtype::i64;
  return rotation;
}

RotationArgs rotation_args(Arena& arena) {
  RotationArgs args;
  args.cos = filled(arena.matrix(Dtype::f16, 11, 6), 10);
  args.sin = filled(arena.matrix(Dtype::f16, 11, 6), 11);
  args.positions = arena.tensor(Dtype::i64, {kBatch, kSeq});
  auto* positions = static_cast<std::int64_t*>(args.positions.data);
  std::iota(positions, positions + kBatch * kSeq, 1);
  return args;
}

TensorView heads(Arena& arena, std::int64_t count) {
  return arena.tensor(Dtype::bf16, {kBatch, kSeq, count, kHeadDim});
}

template <class Problem>
Problem heads_problem() {
  Problem problem{kBatch, kSeq, kQHeads, kKHeads, kHeadDim};
  problem.rotation = rotation();
  return problem;
}

TEST(CApiSameBits, RopeForward) {
  expect_same_bits(RopeForward{heads_problem<RopeProblem>()}, [](Arena& arena) {
    RopeForwardArgs args;
    args.q = filled(heads(arena, kQHeads), 1);
    args.k = filled(heads(arena, kKHeads), 2);
    args.q_out = heads(arena, kQHeads);
    args.k_out = args.k;
    args.rotation = rotation_args(arena);
    return args;
  });
}

TEST(CApiSameBits, RopeBackward) {
  expect_same_bits(RopeBackward{heads_problem<RopeProblem>()}, [](Arena& arena) {
    RopeBackwardArgs args;
    args.dq_out = filled(heads(arena, kQHeads), 1);
    args.dk_out = filled(heads(arena, kKHeads), 2);
    args.dq = heads(arena, kQHeads);
    args.dk = args.dk_out;
    args.rotation = rotation_args(arena);
    return args;
  });
}

TEST(CApiSameBits, RopeOfQAloneWithoutPositions) {
  auto problem = heads_problem<RopeProblem>();
  problem.k_heads = 0;
  problem.rotation = Rotation{};
  expect_same_bits(RopeForward{problem}, [](Arena& arena) {
    RopeForwardArgs args;
    args.q = filled(heads(arena, kQHeads), 1);
    args.q_out = heads(arena, kQHeads);
    args.rotation.cos = filled(arena.matrix(Dtype::f32, kSeq, kHeadDim / 2), 2);
    args.rotation.sin = filled(arena.matrix(Dtype::f32, kSeq, kHeadDim / 2), 3);
    return args;
  });
}

TEST(CApiSameBits, RmsNormRopeForward) {
  auto problem = heads_problem<RmsNormRopeProblem>();
  problem.norm = NormScope::head;
  problem.weight_dtype = Dtype::f32;
  problem.eps = 0.25f;
  problem.one_plus_weight = true;
  expect_same_bits(RmsNormRopeForward{problem}, [](Arena& arena) {
    RmsNormRopeForwardArgs args;
    args.q = filled(heads(arena, kQHeads), 1);
    args.k = filled(heads(arena, kKHeads), 2);
    args.g_q = filled(arena.tensor(Dtype::f32, {kHeadDim}), 3);
    args.g_k = filled(arena.tensor(Dtype::f32, {kHeadDim}), 4);
    args.q_out = heads(arena, kQHeads);
    args.k_out = heads(arena, kKHeads);
    args.rstd_q = arena.tensor(Dtype::f32, {kBatch * kSeq * kQHeads});
    args.rstd_k = arena.tensor(Dtype::f32, {kBatch * kSeq * kKHeads});
    args.rotation = rotation_args(arena);
    return args;
  });
}

TEST(CApiSameBits, RmsNormRopeBackward) {
  auto problem = heads_problem<RmsNormRopeProblem>();
  problem.dg_dtype = Dtype::f16;
  expect_same_bits(RmsNormRopeBackward{problem}, [](Arena& arena) {
    RmsNormRopeBackwardArgs args;
    args.dq_out = filled(heads(arena, kQHeads), 1);
    args.dk_out = filled(heads(arena, kKHeads), 2);
    args.q = filled(heads(arena, kQHeads), 3);
    args.k = filled(heads(arena, kKHeads), 4);
    args.g_q = filled(arena.tensor(Dtype::bf16, {kQHeads * kHeadDim}), 5);
    args.g_k = filled(arena.tensor(Dtype::bf16, {kKHeads * kHeadDim}), 6);
    args.rstd_q = filled(arena.tensor(Dtype::f32, {kBatch * kSeq}), 7);
    args.rstd_k = filled(arena.tensor(Dtype::f32, {kBatch * kSeq}), 8);
    args.dq = heads(arena, kQHeads);
    args.dk = heads(arena, kKHeads);
    args.dg_q = arena.tensor(Dtype::f16, {kQHeads * kHeadDim});
    args.dg_k = arena.tensor(Dtype::f16, {kKHeads * kHeadDim});
    args.rotation = rotation_args(arena);
    return args;
  });
}

GatedActivationProblem gated_problem() {
  GatedActivationProblem problem{
      .rows = kRows, .cols = kCols, .activation = GateActivation::gelu_erf, .row_weight = true};
  return problem;
}

TEST(CApiSameBits, GatedActivationForward) {
  for (const bool fp8 : {false, true}) {
    GatedActivationProblem problem = gated_problem();
    if (fp8) problem.fp8 = Fp8Output{Dtype::e4m3, std::nullopt, kBlock128x1, 0, true};
    expect_same_bits(GatedActivationForward{problem}, [&](Arena& arena) {
      GatedActivationForwardArgs args;
      args.gate = filled(arena.matrix(Dtype::bf16, kRows, kCols), 1);
      args.up = filled(arena.matrix(Dtype::bf16, kRows, kCols), 2);
      args.row_weight = filled(arena.tensor(Dtype::f32, {kRows}), 3);
      if (fp8) {
        args.fp8 = copies(arena, *problem.fp8, kRows, kCols);
      } else {
        args.y = arena.matrix(Dtype::bf16, kRows, kCols);
      }
      return args;
    });
  }
}

TEST(CApiSameBits, GatedActivationBackward) {
  for (const bool fp8 : {false, true}) {
    GatedActivationProblem problem = gated_problem();
    if (fp8) problem.fp8 = Fp8Output{Dtype::e5m2};
    expect_same_bits(GatedActivationBackward{problem}, [&](Arena& arena) {
      GatedActivationBackwardArgs args;
      args.dy = filled(arena.matrix(Dtype::bf16, kRows, kCols), 1);
      args.gate = filled(arena.matrix(Dtype::bf16, kRows, kCols), 2);
      args.up = filled(arena.matrix(Dtype::bf16, kRows, kCols), 3);
      args.row_weight = filled(arena.tensor(Dtype::f32, {kRows}), 4);
      args.d_row_weight = arena.tensor(Dtype::f32, {kRows});
      if (fp8) {
        args.fp8 = copies(arena, *problem.fp8, kRows, 2 * kCols);
      } else {
        args.dgate = arena.matrix(Dtype::bf16, kRows, kCols);
        args.dup = arena.matrix(Dtype::bf16, kRows, kCols);
      }
      return args;
    });
  }
}

TEST(CApiSameBits, GatedActivationOverGroups) {
  for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
    GatedActivationProblem problem = gated_problem();
    problem.fp8 = Fp8Output{};
    problem.groups = 3;
    problem.tail = tail;
    expect_same_bits(GatedActivationBackward{problem}, [&](Arena& arena) {
      GatedActivationBackwardArgs args;
      args.dy = filled(arena.matrix(Dtype::bf16, kRows, kCols), 1);
      args.gate = filled(arena.matrix(Dtype::bf16, kRows, kCols), 2);
      args.up = filled(arena.matrix(Dtype::bf16, kRows, kCols), 3);
      args.row_weight = filled(arena.tensor(Dtype::f32, {kRows}), 4);
      args.d_row_weight = arena.tensor(Dtype::f32, {kRows});
      args.fp8.out = arena.quantized(kRows, 2 * kCols, Dtype::e4m3, kBlock1x128);
      args.fp8.transposed = arena.quantized(QuantizedBatchLayout::token_blocks(
          max_token_blocks(3, kRows), 2 * kCols, Dtype::e4m3, kBlock1x128));
      args.table = arena.tensor(Dtype::i32, {group_table_words(3, kRows)});
      const std::int32_t sizes[3] = {1, 0, 2};
      run_cpp(GroupTableProblem{3, kRows},
              GroupTableArgs{make_view(sizes, Dtype::i32, {3}), args.table});
      return args;
    });
  }
}

}  // namespace
}  // namespace octet
