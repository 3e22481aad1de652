// A layer of experts on a Hopper GPU: the gates, the routing of the CPU, and a graph.
#include "ops/moe_mlp/layer.hpp"
#include "support/cuda_stream.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

#include "check/gates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

// The layer with all its tensors on the GPU.
class OnGpu {
 public:
  explicit OnGpu(const MoeMlpProblem& problem)
      : problem_(problem),
        host_(problem),
        layout_(moe_mlp_saved_layout(problem)),
        saved_(layout_.bytes, OnCuda::kDevice),
        forward_(plan_moe_mlp_forward(problem)),
        backward_(plan_moe_mlp_backward(problem)),
        workspace_(std::max(forward_.workspace_bytes, backward_.workspace_bytes), OnCuda::kDevice) {
    const MoeMlpSaved views = layout_.view(saved_.data());
    args_ = host_.forward_args(views);
    for (TensorView* view : {&args_.x, &args_.logits, &args_.w_gate_up, &args_.w_down, &args_.y}) {
      *view = device_.copy_in(*view);
    }
    gradients_ = host_.backward_args(views);
    for (TensorView* view : {&gradients_.dy, &gradients_.dx, &gradients_.dlogits,
                             &gradients_.dw_gate_up, &gradients_.dw_down}) {
      *view = device_.copy_in(*view);
    }
  }

  // Other tokens go to other experts; everything else stays where it is.
  void take_logits(std::uint64_t seed) {
    const Tensor drawn = random_tensor(Dtype::f32, {problem_.tokens, problem_.experts}, seed);
    cuda::copy(args_.logits.data, drawn.data(), drawn.bytes(), 0);
  }
  void step(void* stream) const {
    const Workspace workspace{workspace_.data(), workspace_.bytes()};
    run(forward_, args_, workspace, stream);
    run(backward_, gradients_, workspace, stream);
  }
  // y, dx, dlogits, dw_gate_up, dw_down and the sizes of the groups.
  std::vector<std::vector<char>> results() const {
    std::vector<std::vector<char>> bytes;
    const TensorView views[] = {args_.y,
                                gradients_.dx,
                                gradients_.dlogits,
                                gradients_.dw_gate_up,
                                gradients_.dw_down,
                                args_.saved.sizes};
    for (const TensorView& view : views) {
      bytes.push_back(bytes_of(view.shape, view.rank, view.dtype));
      cuda::copy(bytes.back().data(), view.data, bytes.back().size(), 0);
    }
    return bytes;
  }

 private:
  static std::vector<char> bytes_of(const auto& shape, int rank, Dtype dtype) {
    std::int64_t bytes = size_bytes(dtype);
    for (int i = 0; i < rank; ++i) bytes *= shape[static_cast<std::size_t>(i)];
    return std::vector<char>(static_cast<std::size_t>(bytes));
  }

  MoeMlpProblem problem_;
  MoeTensors host_;
  MoeMlpSavedLayout layout_;
  Buffer saved_;
  MoeMlpForwardPlan forward_;
  MoeMlpBackwardPlan backward_;
  Buffer workspace_;
  OnCuda device_;
  MoeMlpForwardArgs args_;
  MoeMlpBackwardArgs gradients_;
};

// One captured step, replayed after the router has sent the tokens elsewhere.
TEST(MoeMlpCuda, IsCapturedOnceForAllRoutings) {
  OCTET_NEEDS_HOPPER();
  MoeMlpProblem problem{.tokens = 300, .f = 128, .k = 256, .experts = 16, .top_k = 4};
  problem.wgrad_blocks = WgradBlocks::square;
  problem.device = OnCuda::kDevice;
  OnGpu layer(problem);
  const Stream stream;
  const Graph graph(stream, [&](void* handle) { layer.step(handle); });
  std::vector<std::vector<char>> before;
  for (const std::uint64_t seed : {71u, 72u}) {
    layer.take_logits(seed);
    graph.launch(stream);
    stream.synchronize();
    const auto captured = layer.results();
    layer.step(stream.handle());
    stream.synchronize();
    EXPECT_TRUE(captured == layer.results()) << "seed " << seed;
    EXPECT_TRUE(before.empty() || captured.back() != before.back()) << "the same sizes twice";
    before = captured;
  }
}

}  // namespace
}  // namespace octet::testing
