// The layer on a CUDA device passes every gate. The gates copy what they compare to the host.
#include <gtest/gtest.h>

#include "ops/gated_mlp/layer.hpp"
#include "support/cuda_stream.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

namespace octet::testing {
namespace {

constexpr std::int64_t kShapes[][3] = {{1, 33, 130}, {100, 200, 136}, {300, 640, 384}};

TEST(GatedMlpCuda, Fp8PassesEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const auto& shape : kShapes) {
    for (int variant = 0; variant < 4; ++variant) {
      GatedMlpProblem problem{.m = shape[0],
                              .f = shape[1],
                              .k = shape[2],
                              .down = variant != 1,
                              .fp8 = true,
                              .training = variant != 3};
      problem.activation = variant == 2 ? GateActivation::gelu_erf : GateActivation::silu;
      problem.wgrad_blocks = variant == 2 ? WgradBlocks::square : WgradBlocks::rows;
      problem.grad_format = variant == 2 ? Dtype::e5m2 : Dtype::e4m3;
      problem.weights_quantized = variant == 2;
      problem.dw_dtype = variant == 1 ? Dtype::f32 : Dtype::bf16;
      problem.accumulate_dw = variant == 1;
      problem.device = OnCuda::kDevice;
      expect_pass(check_gated_mlp(problem, {}), describe(problem));
    }
  }
}

// h, and with frozen weights also its gradients, are cast with a scale per row by the activation.
TEST(GatedMlpCuda, RowwiseWithoutWeightGradientsPassesEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const auto& shape : kShapes) {
    for (const bool training : {false, true}) {
      GatedMlpProblem problem{.m = shape[0],
                              .f = shape[1],
                              .k = shape[2],
                              .down = shape[0] != 100,
                              .fp8 = true,
                              .training = training};
      problem.need_dw = false;
      problem.granularity = Granularity::rowwise;
      problem.device = OnCuda::kDevice;
      expect_pass(check_gated_mlp(problem, {}), describe(problem));
    }
  }
}

TEST(GatedMlpCuda, PlainDtypesPassEveryGate) {
  OCTET_NEEDS_HOPPER();
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (const bool down : {false, true}) {
      GatedMlpProblem problem{
          .m = 304, .f = 640, .k = 384, .dtype = dtype, .down = down, .device = OnCuda::kDevice};
      problem.dw_dtype = dtype;
      expect_pass(check_gated_mlp(problem, {}), describe(problem));
    }
  }
}

// Fp8Mlp runs on the stream it is given, and a graph of it gives the same bits.
TEST(GatedMlpCuda, TheClassCanBeCaptured) {
  OCTET_NEEDS_HOPPER();
  const std::int64_t m = 300, f = 270, k = 390;
  Fp8Mlp layer({.m = m, .f = f, .k = k, .device = OnCuda::kDevice});
  const auto input = [](std::int64_t rows, std::int64_t cols, unsigned seed) {
    Tensor tensor(Dtype::bf16, {rows, cols}, OnCuda::kDevice);
    copy(random_tensor(Dtype::bf16, rows, cols, seed), tensor);
    return tensor;
  };
  const Tensor x = input(m, k, 1), w_gate_up = input(2 * f, k, 2), w_down = input(k, f, 3);
  const Tensor dy = input(m, k, 4);
  struct Outputs {
    Tensor y{Dtype::bf16, {m, k}, OnCuda::kDevice}, dx{Dtype::bf16, {m, k}, OnCuda::kDevice};
    Tensor dw_gate_up{Dtype::bf16, {2 * f, k}, OnCuda::kDevice};
    Tensor dw_down{Dtype::bf16, {k, f}, OnCuda::kDevice};
  } plain, captured;
  const auto step = [&](const Outputs& out, void* stream) {
    layer.forward(x, w_gate_up, w_down, out.y, stream);
    layer.backward(dy, out.dx, out.dw_gate_up, out.dw_down, stream);
  };
  const Stream stream;
  step(plain, stream.handle());
  const Graph graph(stream, [&](void* handle) { step(captured, handle); });
  graph.launch(stream);
  stream.synchronize();
  const auto on_host = [](const Tensor& tensor) {
    Tensor result(Dtype::bf16, {tensor.view().rows(), tensor.view().cols()});
    copy(tensor, result);
    return result;
  };
  const Tensor Outputs::*const fields[] = {&Outputs::y, &Outputs::dx, &Outputs::dw_gate_up,
                                           &Outputs::dw_down};
  for (const auto field : fields) {
    const Tensor wanted = on_host(plain.*field);
    EXPECT_TRUE(equal(on_host(captured.*field), wanted));
    EXPECT_FALSE(equal(wanted, filled(Dtype::bf16, wanted.view().rows(), wanted.view().cols(), 0)));
  }
}

}  // namespace
}  // namespace octet::testing
