// gated_activation over groups on a Hopper GPU: the gates, which hold the FP8 copies against the
// quantiser's rules in every bit, and rows behind the last group that are NaN on the way in.
#include "ops/gated_activation/case.hpp"
#include "support/cuda_stream.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace octet::testing {
namespace {

using Sizes = std::vector<std::int64_t>;

const Sizes kSizes[] = {{0, 1, 127, 128, 129}, {300}, {0, 0, 1}, {5, 0, 260, 0}, {2049, 3}};

// `tail_rows`: rows behind the last group.
void expect_pass(GatedActivationProblem problem, const Sizes& sizes, std::int64_t tail_rows,
                 const char* backend = "") {
  problem.groups = static_cast<std::int64_t>(sizes.size());
  problem.rows = std::accumulate(sizes.begin(), sizes.end(), tail_rows);
  problem.device = OnCuda::kDevice;
  DataOptions options;
  options.backend = backend;
  options.group_spread = {GroupSpread::Kind::given, sizes};
  expect_pass(check_gated_activation(problem, options), describe(problem));
}

TEST(GatedActivationCudaGroups, PassesTheGates) {
  OCTET_NEEDS_HOPPER();
  int turn = 0;
  for (const Sizes& sizes : kSizes) {
    for (const Dtype dtype : kFloats) {
      for (const std::int64_t cols : {33, 128, 513, 4096}) {
        GatedActivationProblem problem{0, cols, dtype, kActivations[turn % 4], turn % 3 != 0};
        problem.tail = turn % 2 == 0 ? GroupTail::zero : GroupTail::untouched;
        expect_pass(problem, sizes, 1 + turn % 140);
        ++turn;
      }
    }
  }
}

TEST(GatedActivationCudaGroups, WritesFp8AsTheQuantiserDoes) {
  OCTET_NEEDS_HOPPER();
  int turn = 0;
  for (const Sizes& sizes : kSizes) {
    for (const std::int64_t cols : {128, 384, 40, 129}) {  // backward of the last two is unfused
      for (const std::int64_t tail_rows : {1, 130}) {
        GatedActivationProblem problem{0, cols, turn % 2 == 0 ? Dtype::bf16 : Dtype::f16,
                                       kActivations[turn % 4], turn % 3 != 0};
        problem.tail = turn % 2 == 0 ? GroupTail::zero : GroupTail::untouched;
        Fp8Output fp8;
        if (turn % 3 == 1) fp8.format = Dtype::e5m2;
        if (turn % 2 == 1) fp8.transposed_block = kBlock128x128;
        if (turn % 7 == 3) fp8.transposed_block.reset();
        if (turn % 7 == 5) fp8.block.reset();
        fp8.pow2_scales = turn % 4 == 1;
        problem.fp8 = fp8;
        expect_pass(problem, sizes, tail_rows);
        expect_pass(problem, sizes, tail_rows, "unfused");
        ++turn;
      }
    }
  }
}

TEST(GatedActivationCudaGroups, PassesTheGatesOnExperts) {
  OCTET_NEEDS_HOPPER();
  GatedActivationProblem problem{0, 2048, Dtype::bf16, GateActivation::silu, true, Fp8Output{}};
  const Sizes sizes{1000, 0, 2900, 7, 3000, 129, 1, 900};
  expect_pass(problem, sizes, 500, "cuda_sm90_tile");
  problem.fp8->transposed_block = kBlock128x128;
  expect_pass(problem, sizes, 500, "cuda_sm90_tile");
}

// The FP8 copies of a call on the device, as bytes.
struct DeviceCopies {
  QuantizedTensor out;
  QuantizedTensor transposed;

  DeviceCopies(const GatedActivationProblem& problem, std::int64_t cols)
      : out(problem.rows, cols, Dtype::e4m3, kBlock1x128, OnCuda::kDevice),
        transposed(
            QuantizedBatchLayout::token_blocks(max_token_blocks(problem.groups, problem.rows), cols,
                                               Dtype::e4m3, kBlock1x128),
            OnCuda::kDevice) {}
  Fp8Copies views() const { return {out, transposed}; }
  // The written rows of the row copy.
  std::vector<std::uint8_t> bytes() const {
    const TensorView& values = out.view().values;
    std::vector<std::uint8_t> result(static_cast<std::size_t>(values.rows() * values.strides[0]));
    cuda::copy(result.data(), values.data, result.size(), 0);
    return result;
  }
};

// The host never reads the sizes: captured calls run with those of another table, and give what
// calls that are not captured give.
TEST(GatedActivationCudaGroups, IsReplayedWithOtherSizes) {
  OCTET_NEEDS_HOPPER();
  GatedActivationProblem problem{700, 256, Dtype::bf16, GateActivation::silu, true, Fp8Output{}};
  problem.groups = 3;
  const GatedActivationCase host(problem);
  host.fill(3);
  problem.device = OnCuda::kDevice;
  OnCuda memory;
  const TensorView gate = memory.copy_in(host.gate());
  const TensorView up = memory.copy_in(host.up());
  const TensorView dy = memory.copy_in(host.dy());
  const TensorView weights = memory.copy_in(host.weights);
  const TensorView d_weights = memory.copy_in(host.d_weights);
  const Tensor table(Dtype::i32, {group_table_words(3, 700)}, OnCuda::kDevice);
  const DeviceCopies y(problem, 256);
  const DeviceCopies gradients(problem, 512);
  const auto forward = plan_gated_activation_forward(problem, {"cuda_sm90_tile", 0});
  const auto backward = plan_gated_activation_backward(problem, {"cuda_sm90_tile", 0});
  const Buffer workspace(backward.workspace_bytes, OnCuda::kDevice);
  const auto run_both = [&](void* stream) {
    GatedActivationForwardArgs in{gate, up, weights, {}, y.views()};
    GatedActivationBackwardArgs out{dy, gate, up, weights, {}, {}, gradients.views(), d_weights};
    in.table = out.table = table;
    run(forward, in, {}, stream);
    run(backward, out, {workspace.data(), workspace.bytes()}, stream);
  };
  const auto results = [&] {
    std::vector<float> sums(700);
    cuda::copy(sums.data(), d_weights.data, sums.size() * sizeof(float), 0);
    return std::tuple(y.bytes(), gradients.bytes(), sums);
  };
  const Stream stream;
  const Graph graph(stream, run_both);
  for (const Sizes& sizes : {Sizes{100, 200, 300}, Sizes{0, 700, 0}, Sizes{1, 129, 0}}) {
    const Tensor made(Dtype::i32, {group_table_words(3, 700)});
    run(plan_group_table({.groups = 3, .rows = 700, .sizes_dtype = Dtype::i64}),
        {make_view(sizes.data(), Dtype::i64, {3}), made});
    copy(made, table);
    cuda::synchronize(0);
    graph.launch(stream);
    stream.synchronize();
    const auto replayed = results();
    run_both(nullptr);
    cuda::synchronize(0);
    EXPECT_TRUE(replayed == results()) << "sizes " << sizes[0] << ", " << sizes[1];
    const auto& sums = std::get<2>(replayed);
    const auto rows = static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), 0L));
    for (std::size_t r = rows; r < sums.size(); ++r) ASSERT_EQ(sums[r], 0.0f) << "row " << r;
    for (std::size_t r = 0; r < rows; ++r) ASSERT_NE(sums[r], 0.0f) << "row " << r;
  }
}

}  // namespace
}  // namespace octet::testing
