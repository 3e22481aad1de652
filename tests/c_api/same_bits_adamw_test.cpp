// The C API gives the bits of the C++ API, for adamw.
#include "c_api/same_bits.hpp"

namespace octet {
namespace {

TEST(CApiAdamW, HasTheSameBits) {
  for (const bool master : {false, true}) {
    const AdamWProblem problem{41, Dtype::bf16, Dtype::f32, Dtype::f32, master, master};
    expect_same_bits(problem, [&](Arena& arena) {
      AdamWArgs args;
      args.w = filled(arena.tensor(Dtype::bf16, {41}), 1);
      args.g = filled(arena.tensor(Dtype::f32, {41}), 2);
      args.m = filled(arena.tensor(Dtype::f32, {41}), 3);
      args.v = filled(arena.tensor(Dtype::f32, {41}), 4);
      if (master) args.master = filled(arena.tensor(Dtype::f32, {41}), 5);
      if (master) args.grad_scale = filled(arena.tensor(Dtype::f32, {1}), 6);
      args.lr = 0.5;
      args.beta1 = 0.25;
      args.beta2 = 0.75;
      args.eps = 0.125;
      args.weight_decay = 0.0625;
      args.step = 3;
      return args;
    });
  }
}

TEST(CApiAdamW, HasTheSameBitsInFp8) {
  AdamWProblem problem{.count = 130 * 70, .rows = 130, .cols = 70};
  problem.fp8 = Fp8Output{Dtype::e5m2, kBlock128x128, kBlock1x128, 0.5f, true};
  expect_same_bits(problem, [&](Arena& arena) {
    AdamWArgs args;
    args.w = filled(arena.tensor(Dtype::bf16, {problem.count}), 1);
    args.g = filled(arena.tensor(Dtype::bf16, {problem.count}), 2);
    args.m = filled(arena.tensor(Dtype::bf16, {problem.count}), 3);
    args.v = filled(arena.tensor(Dtype::bf16, {problem.count}), 4);
    args.fp8.out = arena.quantized(130, 70, Dtype::e5m2, kBlock128x128);
    args.fp8.transposed = arena.quantized(70, 130, Dtype::e5m2, kBlock1x128);
    return args;
  });
}

}  // namespace
}  // namespace octet
