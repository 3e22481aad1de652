// The C API gives the bits of the C++ API for every operator, in memory owned by the caller.
#include "c_api/same_bits.hpp"

namespace octet {
namespace {

TEST(CApiSameBits, Quantize) {
  QuantizeProblem problem{.rows = 150,
                          .cols = 131,
                          .input_dtype = Dtype::f32,
                          .transposed_block = kBlock128x128,
                          .pow2_scales = true};
  expect_same_bits(problem, [&](Arena& arena) {
    QuantizeArgs args;
    args.input = arena.matrix(Dtype::f32, 150, 131);
    fill(args.input, 1);
    args.out = arena.quantized(150, 131, Dtype::e4m3, kBlock1x128);
    args.transposed = arena.quantized(131, 150, Dtype::e4m3, kBlock128x128);
    return args;
  });
}

TEST(CApiSameBits, QuantizeWithGivenScales) {
  QuantizeProblem problem{
      .rows = 150, .cols = 131, .input_dtype = Dtype::f32, .block = kEachRow, .given_scales = true};
  expect_same_bits(problem, [&](Arena& arena) {
    QuantizeArgs args;
    args.input = arena.matrix(Dtype::f32, 150, 131);
    fill(args.input, 1);
    args.out = arena.quantized(150, 131, Dtype::e4m3, kEachRow);
    std::fill_n(static_cast<float*>(args.out.scales.data), 150, 0.01f);
    return args;
  });
}

TEST(CApiSameBits, QuantizeMxFoldedAndNot) {
  for (const bool fold : {false, true}) {
    QuantizeProblem problem{.rows = 150,
                            .cols = 131,
                            .input_dtype = Dtype::f32,
                            .block = fold ? kBlock1x128 : kBlock1x32,
                            .transposed_block = fold ? kBlock128x128 : kBlock32x32,
                            .mx_scale = MxScale::up,
                            .fold_mx = fold};
    expect_same_bits(problem, [&](Arena& arena) {
      QuantizeArgs args;
      args.input = arena.matrix(Dtype::f32, 150, 131);
      fill(args.input, 1);
      args.out = arena.quantized(150, 131, Dtype::e4m3, *problem.block);
      args.transposed = arena.quantized(131, 150, Dtype::e4m3, *problem.transposed_block);
      return args;
    });
  }
}

TEST(CApiSameBits, Gemm) {
  GemmProblem problem{.m = 9, .n = 140, .k = 300, .out_dtype = Dtype::f32, .accumulate = true};
  expect_same_bits(problem, [&](Arena& arena) {
    GemmArgs args;
    const TensorView a = arena.matrix(Dtype::f32, 9, 300);
    const TensorView b = arena.matrix(Dtype::f32, 140, 300);
    fill(a, 1);
    fill(b, 2);
    args.a = arena.quantized(9, 300, Dtype::e4m3, kBlock1x128);
    args.b = arena.quantized(140, 300, Dtype::e4m3, kBlock128x128);
    QuantizeProblem cast;
    cast.input_dtype = Dtype::f32;
    cast.rows = 9;
    cast.cols = 300;
    run_cpp(cast, QuantizeArgs{a, args.a, {}});
    cast.rows = 140;
    cast.block = kBlock128x128;
    run_cpp(cast, QuantizeArgs{b, args.b, {}});
    args.d = arena.matrix(Dtype::f32, 9, 140);
    fill(args.d, 3);
    return args;
  });
}

TEST(CApiSameBits, GemmOfMxOperands) {
  GemmProblem problem{.m = 9, .n = 140, .k = 150, .out_dtype = Dtype::f32};
  problem.a.block = kBlock1x32;
  problem.b.block = kBlock32x32;
  expect_same_bits(problem, [&](Arena& arena) {
    const auto cast = [&](std::int64_t rows, BlockShape block, int seed) {
      const TensorView x = arena.matrix(Dtype::f32, rows, 150);
      fill(x, seed);
      const QuantizedView out = arena.quantized(rows, 150, Dtype::e4m3, block);
      run_cpp(QuantizeProblem{.rows = rows, .cols = 150, .input_dtype = Dtype::f32, .block = block},
              QuantizeArgs{x, out, {}});
      return out;
    };
    GemmArgs args;
    args.a = cast(9, kBlock1x32, 1);
    args.b = cast(140, kBlock32x32, 2);
    args.d = arena.matrix(Dtype::f32, 9, 140);
    fill(args.d, 3);
    return args;
  });
}

TEST(CApiSameBits, GemmWithABias) {
  GemmProblem problem{.m = 9, .n = 140, .k = 300, .bias_dtype = Dtype::f32};
  problem.a = problem.b = {Dtype::f32};
  expect_same_bits(problem, [&](Arena& arena) {
    GemmArgs args;
    args.a = arena.matrix(Dtype::f32, 9, 300);
    args.b = arena.matrix(Dtype::f32, 140, 300);
    args.d = arena.matrix(Dtype::bf16, 9, 140);
    args.bias = arena.tensor(Dtype::f32, {140});
    fill(args.a.values, 1);
    fill(args.b.values, 2);
    fill(args.bias, 3);
    return args;
  });
}

constexpr BlockShape kReadBlocks[] = {kBlock1x128, kBlock128x1,  kBlock128x128, kEachRow,
                                      kEachColumn, kWholeTensor, kBlock1x32,    kBlock32x32};

QuantizeArgs quantized_input(Arena& arena, BlockShape block) {
  QuantizeProblem cast{.rows = 20, .cols = 150, .input_dtype = Dtype::f32, .block = block};
  QuantizeArgs args;
  args.input = arena.matrix(Dtype::f32, 20, 150);
  fill(args.input, 4);
  args.out = arena.quantized(20, 150, Dtype::e4m3, block);
  run_cpp(cast, args);
  return args;
}

TEST(CApiSameBits, Dequantize) {
  for (BlockShape block : kReadBlocks) {
    DequantizeProblem problem{.rows = 20, .cols = 150, .block = block};
    expect_same_bits(problem, [&](Arena& arena) {
      DequantizeArgs args;
      args.input = quantized_input(arena, block).out;
      args.out = arena.matrix(Dtype::f32, 20, 150);
      return args;
    });
  }
}

TEST(CApiSameBits, Repack) {
  for (BlockShape block : kReadBlocks) {
    RepackProblem problem{.rows = 20, .cols = 150, .block = block};
    expect_same_bits(problem, [&](Arena& arena) {
      RepackArgs args;
      args.input = quantized_input(arena, block).out;
      args.out = arena.quantized(20, 150, Dtype::e4m3, block);
      return args;
    });
  }
}

class CApiLayer : public testing::Test {
 protected:
  CApiLayer() {
    problem_.m = 20;
    problem_.n = 130;
    problem_.k = 70;
    problem_.dtype = problem_.dw_dtype = Dtype::f32;
    problem_.grad_format = Dtype::e5m2;
    problem_.wgrad_blocks = WgradBlocks::square;
  }

  Fp8LinearForwardArgs forward_args(Arena& arena) const {
    Fp8LinearForwardArgs args;
    args.x = arena.matrix(Dtype::f32, 20, 70);
    args.w = arena.matrix(Dtype::f32, 130, 70);
    fill(args.x, 5);
    fill(args.w, 6);
    args.y = arena.matrix(Dtype::f32, 20, 130);
    const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem_);
    args.saved.x_t = layout.x_t.view(arena.take(layout.x_t.bytes));
    args.saved.w_t = layout.w_t.view(arena.take(layout.w_t.bytes));
    if (problem_.bias_dtype) args.bias = filled(arena.tensor(*problem_.bias_dtype, {130}), 8);
    return args;
  }

  Fp8LinearBackwardArgs backward_args(Arena& arena) const {
    const Fp8LinearForwardArgs forward = forward_args(arena);
    run_cpp(Fp8LinearForward{problem_}, forward);
    Fp8LinearBackwardArgs args;
    args.dy = filled(arena.matrix(Dtype::f32, 20, 130), 7);
    args.saved = forward.saved;
    args.dx = arena.matrix(Dtype::f32, 20, 70);
    args.dw = arena.matrix(Dtype::f32, 130, 70);
    if (problem_.dbias_dtype) args.dbias = arena.tensor(*problem_.dbias_dtype, {130});
    return args;
  }

  Fp8LinearProblem problem_;
};

TEST_F(CApiLayer, ForwardHasTheSameBits) {
  expect_same_bits(Fp8LinearForward{problem_}, [&](Arena& arena) { return forward_args(arena); });
}

TEST_F(CApiLayer, BackwardHasTheSameBits) {
  expect_same_bits(Fp8LinearBackward{problem_}, [&](Arena& arena) { return backward_args(arena); });
}

TEST_F(CApiLayer, EveryGranularityHasTheSameBits) {
  problem_.granularity = Granularity::mxfp8;
  problem_.mx_scale = MxScale::up;
  expect_same_bits(Fp8LinearForward{problem_}, [&](Arena& arena) { return forward_args(arena); });
  expect_same_bits(Fp8LinearBackward{problem_}, [&](Arena& arena) { return backward_args(arena); });
  problem_.mx_scale = MxScale::floor;
  problem_.wgrad_blocks = WgradBlocks::rows;
  problem_.fast_accumulation = true;
  for (const Granularity granularity : {Granularity::tensorwise, Granularity::rowwise}) {
    problem_.granularity = granularity;
    expect_same_bits(Fp8LinearForward{problem_}, [&](Arena& arena) { return forward_args(arena); });
    expect_same_bits(Fp8LinearBackward{problem_},
                     [&](Arena& arena) { return backward_args(arena); });
  }
}

TEST_F(CApiLayer, BiasesHaveTheSameBits) {
  problem_.bias_dtype = Dtype::f32;
  problem_.dbias_dtype = Dtype::bf16;
  expect_same_bits(Fp8LinearForward{problem_}, [&](Arena& arena) { return forward_args(arena); });
  expect_same_bits(Fp8LinearBackward{problem_}, [&](Arena& arena) { return backward_args(arena); });
}

// Callers compiled before the arguments had a bias pass shorter structs: what follows is not read.
TEST_F(CApiLayer, TakesTheShorterArgumentsOfItsFirstVersion) {
  Arena arena(1 << 20);
  octet_fp8_linear_backward_args backward = to_c(backward_args(arena));
  octet_fp8_linear_forward_args forward = to_c(forward_args(arena));
  std::memset(&forward.bias, 0xFF, sizeof forward.bias);
  std::memset(&backward.dbias, 0xFF, sizeof backward.dbias);
  const auto problem = to_c(problem_);
  const Buffer workspace(1 << 20);
  const auto run_with = [&](auto make_plan, auto run_it, auto& args, std::size_t size) {
    octet_plan* made = nullptr;
    ASSERT_EQ(make_plan(&problem, nullptr, &made), OCTET_OK) << octet_last_error();
    const PlanOwner plan(made, octet_destroy_plan);
    args.struct_size = static_cast<std::uint32_t>(size);
    EXPECT_EQ(run_it(made, &args, workspace.data(), workspace.bytes(), nullptr), OCTET_OK)
        << octet_last_error();
    args.struct_size = static_cast<std::uint32_t>(size - 1);
    EXPECT_EQ(run_it(made, &args, workspace.data(), workspace.bytes(), nullptr),
              OCTET_INVALID_ARGUMENT);
  };
  run_with(octet_make_fp8_linear_forward_plan, octet_run_fp8_linear_forward, forward,
           offsetof(octet_fp8_linear_forward_args, bias));
  run_with(octet_make_fp8_linear_backward_plan, octet_run_fp8_linear_backward, backward,
           offsetof(octet_fp8_linear_backward_args, dbias));
}

TEST_F(CApiLayer, ForwardTakesWeightsQuantisedAheadOfTime) {
  problem_.weights_quantized = true;
  problem_.training = false;
  expect_same_bits(Fp8LinearForward{problem_}, [&](Arena& arena) {
    Fp8LinearForwardArgs args = forward_args(arena);
    const Fp8LinearWeightsLayout layout = fp8_linear_weights_layout(problem_);
    args.weights.w = layout.w.view(arena.take(layout.w.bytes));
    args.weights.w_t = layout.w_t.view(arena.take(layout.w_t.bytes));
    QuantizeProblem cast{.rows = 130, .cols = 70, .input_dtype = Dtype::f32};
    cast.block = cast.transposed_block = kBlock128x128;
    run_cpp(cast, QuantizeArgs{args.w, args.weights.w, args.weights.w_t});
    args.w = TensorView();
    args.saved = {};
    return args;
  });
}

}  // namespace
}  // namespace octet
