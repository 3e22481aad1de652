// A layer of experts on a Hopper GPU: the gates, and the routing of the CPU.
#include "ops/moe_mlp/layer.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

#include "check/gates.hpp"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

void expect_pass(MoeMlpProblem problem) {
  problem.device = OnCuda::kDevice;
  expect_pass(check_moe_mlp(problem, DataOptions{}), describe(problem));
}

TEST(MoeMlpCuda, PassesTheGates) {
  OCTET_NEEDS_HOPPER();
  MoeMlpProblem problem{.tokens = 200, .f = 128, .k = 256, .experts = 8, .top_k = 3};
  expect_pass(problem);
  problem.wgrad_blocks = WgradBlocks::square;
  problem.dw_dtype = Dtype::f32;
  problem.accumulate_dw = true;
  problem.routing->score = RouteScore::sigmoid;
  problem.routing->bias = true;
  expect_pass(problem);
  problem = {.tokens = 1000, .f = 256, .k = 512, .experts = 16, .top_k = 4};
  problem.routing.reset();
  problem.first_expert = 4;
  problem.local_experts = 8;
  expect_pass(problem);
  problem.capacity = 50;
  problem.grad_format = Dtype::e5m2;
  expect_pass(problem);
}

// The choice of experts, their weights and the maps are the same bits on every device.
TEST(MoeMlpCuda, RoutesAsTheCpuDoes) {
  OCTET_NEEDS_HOPPER();
  const MoeMlpProblem on_cpu{.tokens = 300, .f = 128, .k = 256, .experts = 16, .top_k = 4};
  MoeMlpProblem on_gpu = on_cpu;
  on_gpu.device = OnCuda::kDevice;
  const MoeTensors host(on_cpu);
  const Buffer wanted_memory = host.run_both(on_cpu);
  const MoeMlpSaved wanted = moe_mlp_saved_layout(on_cpu).view(wanted_memory.data());
  const auto there = [&](const Tensor& tensor) {
    const TensorView& view = tensor.view();
    const std::int64_t rows = view.rank == 3 ? view.shape[0] * view.shape[1] : view.shape[0];
    const std::int64_t cols = view.shape[static_cast<std::size_t>(view.rank - 1)];
    Tensor copied(view.dtype, {rows, cols}, OnCuda::kDevice);
    copy(make_view(tensor.data(), view.dtype, {rows, cols}), copied);
    return copied;
  };
  const Tensor x = there(host.x), logits = there(host.logits), w_gate_up = there(host.w_gate_up),
               w_down = there(host.w_down);
  const Tensor y(on_gpu.dtype, {300, 256}, OnCuda::kDevice);
  MoeMlp layer(on_gpu);
  for (int call = 0; call < 2; ++call) {
    layer.forward(x, logits, {},
                  make_view(w_gate_up.data(), on_gpu.dtype, {16, 256, 256}, OnCuda::kDevice),
                  make_view(w_down.data(), on_gpu.dtype, {16, 256, 128}, OnCuda::kDevice), y);
    check_moe_maps(layer.saved().status);  // waits
  }
  const auto expect_equal = [](const TensorView& given, const TensorView& want, const char* what) {
    Tensor here(given.dtype, {given.shape[0], given.rank == 2 ? given.shape[1] : 1});
    copy(make_view(given.data, given.dtype, {here.view().rows(), here.view().cols()}, given.device),
         here);
    EXPECT_EQ(bytes_of(here), bytes_of(want)) << what;
  };
  expect_equal(layer.saved().indices, wanted.indices, "indices");
  expect_equal(layer.saved().scores, wanted.scores, "scores");
  expect_equal(layer.saved().row_of, wanted.row_of, "row_of");
  expect_equal(layer.saved().source, wanted.source, "source");
  expect_equal(layer.saved().sizes, wanted.sizes, "sizes");
  expect_equal(layer.saved().row_weight, wanted.row_weight, "row_weight");
}

}  // namespace
}  // namespace octet::testing
