// The Hopper kernels have the bits of the reference: every dtype, rows of vectors and rows that are
// not, any number of choices, maps that are wrong; and a graph.
#include "ops/moe_permute/case.hpp"
#include "support/cuda_stream.hpp"
#include "support/on_cuda.hpp"

#include <limits>

namespace octet::testing {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
constexpr std::int64_t kAligned = 8;  // gap that keeps rows of eights on 16-byte boundaries

std::vector<TensorView*> views(MoePermuteForwardArgs& a) {
  return {&a.x, &a.weights, &a.row_of, &a.source, &a.grouped, &a.row_weight};
}
std::vector<TensorView*> views(MoePermuteBackwardArgs& a) {
  return {&a.dgrouped, &a.d_row_weight, &a.row_of, &a.dx, &a.dweights};
}
std::vector<TensorView*> views(MoeUnpermuteForwardArgs& a) {
  return {&a.grouped, &a.weights, &a.row_of, &a.out};
}
std::vector<TensorView*> views(MoeUnpermuteBackwardArgs& a) {
  return {&a.dout, &a.grouped, &a.weights, &a.row_of, &a.source, &a.dgrouped, &a.dweights};
}

// One pass on the device. All its tensors travel there and back, with their gaps.
template <class Problem, class Args>
void run_on_cuda(Problem problem, const Args& on_host) {
  problem.device = OnCuda::kDevice;
  OnCuda device;
  Args host = on_host;
  Args there = on_host;
  const auto from = views(host);
  const auto to = views(there);
  for (std::size_t i = 0; i < from.size(); ++i) *to[i] = device.copy_in(*from[i]);
  const auto plan = plan_of(problem, there, {});
  ASSERT_EQ(plan.implementation, "cuda_sm90_vectors");
  run(plan, there);
  cuda::synchronize(0);
  for (std::size_t i = 0; i < from.size(); ++i) OnCuda::copy_out(*to[i], *from[i]);
}

template <class Change>
void expect_bits_of_reference(const RowsShape& shape, std::uint64_t seed, std::int64_t gap,
                              const Change& change) {
  RowsCase wanted(shape, seed, gap), given(shape, seed, gap);
  change(wanted);
  change(given);
  run_with(wanted, {"cpu_reference"});
  run_all(given, [](const auto& problem, const auto& args) { run_on_cuda(problem, args); });
  expect_equal(given, wanted, text("seed ", seed, " gap ", gap));
}
void expect_bits_of_reference(const RowsShape& shape, std::uint64_t seed, std::int64_t gap) {
  expect_bits_of_reference(shape, seed, gap, [](RowsCase&) {});
}

TEST(MoePermuteCuda, HasTheBitsOfTheReference) {
  OCTET_NEEDS_HOPPER();
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t cols : {8, 64, 256, 264, 2048, 4096, 4104, 7168, 8448, 20480}) {
      for (const bool weights : {true, false}) {
        const std::int64_t tokens = cols > 5000 ? 5 : 21;
        const std::int64_t rows = weights ? tokens * 3 + 50 : tokens * 2;
        expect_bits_of_reference({tokens, 4, rows, cols, dtype, weights},
                                 static_cast<std::uint64_t>(cols + rows), kAligned);
      }
    }
  }
}

TEST(MoePermuteCuda, HasTheBitsOfTheReferenceForRowsOfAnyLength) {
  OCTET_NEEDS_HOPPER();
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t cols : {1, 7, 15, 129, 515, 4099, 9000}) {
      for (const std::int64_t rows : {1, 40, 90}) {
        expect_bits_of_reference({21, 4, rows, cols, dtype, cols % 2 == 1},
                                 static_cast<std::uint64_t>(cols + rows), kGap);
      }
    }
  }
}

// Choices beyond those of one warp and of one block.
TEST(MoePermuteCuda, TakesAnyNumberOfChoices) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t top_k : {1, 2, 3, 6, 8, 9, 16, 31, 33, 64, 100}) {
    for (const std::int64_t gap : {kAligned, kGap}) {
      expect_bits_of_reference({7, top_k, 7 * top_k, 264, Dtype::bf16, true},
                               static_cast<std::uint64_t>(top_k), gap);
      expect_bits_of_reference({7, top_k, 5 * top_k, 72, Dtype::f32, false},
                               static_cast<std::uint64_t>(top_k), gap);
    }
  }
}

TEST(MoePermuteCuda, LeavesTheTailUntouchedIfAsked) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t gap : {kAligned, kGap}) {
    for (const bool weights : {true, false}) {
      expect_bits_of_reference({30, 2, 300, 128, Dtype::bf16, weights, GroupTail::untouched}, 4,
                               gap);
    }
  }
}

TEST(MoePermuteCuda, TakesNoTokensAndTokensWithoutRows) {
  OCTET_NEEDS_HOPPER();
  for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
    expect_bits_of_reference({0, 2, 70, 64, Dtype::bf16, true, tail}, 1, kAligned);
    expect_bits_of_reference({9, 2, 70, 64, Dtype::bf16, true, tail}, 1, kAligned,
                             [](RowsCase& one) {
                               for (std::int64_t t = 0; t < 9; ++t) {
                                 one.row_of.integer(t, 0) = one.row_of.integer(t, 1) = -1;
                               }
                               one.source.assign(70, -1);
                             });
  }
}

TEST(MoePermuteCuda, WrongMapsTouchNothingOutside) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t gap : {kAligned, kGap}) {
    expect_bits_of_reference({20, 3, 50, 72, Dtype::bf16, true}, 5, gap, [](RowsCase& one) {
      one.row_of.integer(0, 0) = 50;
      one.row_of.integer(1, 0) = std::numeric_limits<std::int32_t>::max();
      one.row_of.integer(2, 0) = std::numeric_limits<std::int32_t>::min();
      one.row_of.integer(4, 1) = one.row_of.integer(3, 1);
      one.source[7] = 60;
      one.source[8] = -9;
      one.source[9] = one.source[10];
      one.source[11] = std::numeric_limits<std::int32_t>::max();
    });
  }
}

// Zeros of both signs, subnormals, the largest values and infinities. NaN may differ in payload.
TEST(MoePermuteCuda, HasTheBitsOfTheReferenceForSpecialValues) {
  OCTET_NEEDS_HOPPER();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kValues[] = {0, -0.0f, 1, -1, 1e-40f, -1e-40f, 6e-8f, 3e38f, 65000, kInfinity};
  for (const Dtype dtype : kDtypes) {
    expect_bits_of_reference({40, 1, 44, 72, dtype, false}, 3, kAligned, [&](RowsCase& one) {
      for (std::int64_t t = 0; t < 40; ++t) {
        for (std::int64_t c = 0; c < 72; ++c) one.x.set(t, c, kValues[(t + c) % 10]);
      }
    });
    // With weights, whose products and sums are subnormal or overflow.
    expect_bits_of_reference({40, 2, 90, 72, dtype, true}, 3, kAligned, [&](RowsCase& one) {
      constexpr float kWeights[] = {0, -0.0f, 1e-20f, 1e20f, -1};
      // An infinity times 0 would be NaN.
      const float large = dtype == Dtype::f16 ? 6e4f : 3e38f;
      for (std::int64_t t = 0; t < 40; ++t) {
        for (std::int64_t c = 0; c < 72; ++c) {
          const float value = kValues[(t + c) % 9];
          one.x.set(t, c, value > 1e38f ? large : value);
        }
        for (std::int64_t k = 0; k < 2; ++k) one.weights.set(t, k, kWeights[t % 5]);
      }
    });
  }
}

TEST(MoePermuteCuda, CopiesTheBytesOfNan) {
  OCTET_NEEDS_HOPPER();
  RowsCase wanted({6, 2, 12, 64, Dtype::bf16, false}, 1, kAligned);
  auto* bits = static_cast<std::uint16_t*>(wanted.x.view().data);
  for (int i = 0; i < 64; ++i) bits[i] = static_cast<std::uint16_t>(0x7F81 + i);
  RowsCase given({6, 2, 12, 64, Dtype::bf16, false}, 1, kAligned);
  std::memcpy(given.x.view().data, bits, 128);
  run(plan_moe_permute_forward(wanted.shape.permute()), wanted.permute());
  run_on_cuda(given.shape.permute(), given.permute());
  EXPECT_EQ(given.grouped.bytes(), wanted.grouped.bytes());
}

// A row behind 2^31 elements.
TEST(MoePermuteCuda, TakesMoreThan2To31Elements) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kRows = 300000, kCols = 7680;
  static_assert(kRows * kCols > std::int64_t{1} << 31);
  MoeUnpermuteProblem problem{2, 2, kRows, kCols, Dtype::bf16, true, GroupTail::untouched};
  const RowsCase maps({2, 2, kRows, 1, Dtype::bf16, true});
  problem.device = OnCuda::kDevice;
  // Both slots of both tokens; the last row is the first slot's.
  const std::vector<std::int32_t> row_of{kRows - 1, 1, 2, kRows - 2};
  std::vector<std::int32_t> source(kRows, -1);
  for (int slot = 0; slot < 4; ++slot) source[static_cast<std::size_t>(row_of[slot])] = slot;
  std::vector<std::uint16_t> dout(2 * kCols);
  for (std::size_t i = 0; i < dout.size(); ++i) dout[i] = bf16_from_f32(static_cast<float>(i % 61));
  const std::vector<float> weights{2, 0.5f, 4, -1};
  OnCuda device;
  const auto in = [&](const void* data, Dtype dtype, std::initializer_list<std::int64_t> shape) {
    return device.copy_in(make_view(data, dtype, shape));
  };
  const Tensor grouped(Dtype::bf16, {kRows, kCols}, OnCuda::kDevice);
  const Tensor out(Dtype::bf16, {2, kCols}, OnCuda::kDevice);
  const Tensor dweights(Dtype::f32, {2, 2}, OnCuda::kDevice);
  const TensorView there = in(row_of.data(), Dtype::i32, {2, 2});
  const TensorView from = in(source.data(), Dtype::i32, {kRows});
  const TensorView x = in(dout.data(), Dtype::bf16, {2, kCols});
  const TensorView w = in(weights.data(), Dtype::f32, {2, 2});
  MoePermuteProblem permute{2, 2, kRows, kCols, Dtype::bf16, false, GroupTail::untouched};
  permute.device = OnCuda::kDevice;
  run(plan_moe_permute_forward(permute), {x, {}, there, from, grouped, {}});
  run(plan_moe_unpermute_forward(problem), {grouped, w, there, out});
  cuda::synchronize(0);
  std::vector<std::uint16_t> sums(2 * kCols);
  cuda::copy(sums.data(), out.data(), sums.size() * 2, 0);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float factor = i < kCols ? 2.5f : 3;
    ASSERT_EQ(sums[i], bf16_from_f32(factor * static_cast<float>(i % 61))) << i;
  }
}

TEST(MoePermuteCuda, RunsInAGraph) {
  OCTET_NEEDS_HOPPER();
  RowsCase one({50, 3, 150, 256, Dtype::bf16, true}, 2, kAligned);
  RowsCase wanted({50, 3, 150, 256, Dtype::bf16, true}, 2, kAligned);
  run(plan_moe_permute_forward(wanted.shape.permute()), wanted.permute());
  OnCuda device;
  MoePermuteForwardArgs host = one.permute();
  MoePermuteForwardArgs args = host;
  for (std::size_t i = 0; i < views(args).size(); ++i) {
    *views(args)[i] = device.copy_in(*views(host)[i]);
  }
  MoePermuteProblem problem = one.shape.permute();
  problem.device = OnCuda::kDevice;
  const auto plan = plan_moe_permute_forward(problem);
  const Stream stream;
  const Graph graph(stream, [&](void* handle) { run(plan, args, {}, handle); });
  graph.launch(stream);
  graph.launch(stream);
  stream.synchronize();
  OnCuda::copy_out(args.grouped, host.grouped);
  EXPECT_EQ(one.grouped.bytes(), wanted.grouped.bytes());
}

}  // namespace
}  // namespace octet::testing
