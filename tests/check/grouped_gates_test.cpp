// The gates of grouped products: correct operators pass whatever the groups, and each gate sees one
// group that is wrong.
#include "check/ops/grouped_product.hpp"
#include "check/product_case.hpp"
#include "core/numeric.hpp"

namespace octet {
namespace {

DataOptions options_of(std::uint64_t seed) {
  constexpr Distribution kDistributions[] = {Distribution::normal, Distribution::skewed,
                                             Distribution::one_signed};
  constexpr const char* kSpreads[] = {"balanced", "skewed", "zipf", "half-empty", "one-hot"};
  DataOptions options;
  options.seed = seed;
  options.distribution = kDistributions[seed % 3];
  options.group_spread = *parse_group_spread(kSpreads[seed % 5]);
  return options;
}

TEST(GroupedGates, PassCorrectProducts) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    GroupedGemmProblem problem{.groups = 1 + static_cast<std::int64_t>(seed % 7),
                               .rows = 1 + static_cast<std::int64_t>(seed * 31 % 400),
                               .n = 1 + static_cast<std::int64_t>(seed * 13 % 90),
                               .k = 1 + static_cast<std::int64_t>(seed * 29 % 200)};
    problem.over = seed % 2 == 0 ? GroupedOver::rows : GroupedOver::contraction;
    problem.out_dtype = seed % 3 == 0 ? Dtype::f32 : Dtype::bf16;
    problem.accumulate = problem.over == GroupedOver::contraction && seed % 4 == 1;
    if (seed % 8 < 4) problem.tail = GroupTail::untouched;
    if (seed % 4 == 0) problem.b.block = kBlock1x128;
    if (seed % 5 == 0) {
      const Major major =
          problem.over == GroupedOver::rows && seed % 20 == 0 ? Major::k : Major::mn;
      problem.a = problem.b = {seed % 3 == 0 ? Dtype::f32 : Dtype::f16, {}, major};
    }
    const GateReport report = check_grouped_gemm(problem, options_of(seed));
    ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                               << describe(report.results);
  }
}

TEST(GroupedGates, PassCorrectLayers) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Fp8GroupedLinearProblem problem;
    problem.groups = 1 + static_cast<std::int64_t>(seed % 6);
    problem.rows = 5 + static_cast<std::int64_t>(seed * 31 % 300);
    problem.n = 1 + static_cast<std::int64_t>(seed * 13 % 150);
    problem.k = 1 + static_cast<std::int64_t>(seed * 29 % 140);
    problem.wgrad_blocks = seed % 2 == 0 ? WgradBlocks::rows : WgradBlocks::square;
    problem.dw_dtype = seed % 3 == 0 ? Dtype::bf16 : Dtype::f32;
    problem.accumulate_dw = seed % 4 == 1;
    problem.weights_quantized = seed % 5 == 2;
    if (seed % 4 > 1) problem.tail = GroupTail::untouched;
    const GateReport report = check_fp8_grouped_linear(problem, options_of(seed));
    ASSERT_TRUE(report.pass()) << describe(problem) << ", seed " << seed << "\n"
                               << describe(report.results);
  }
}

DataOptions given_sizes(const char* sizes) {
  DataOptions options;
  options.group_spread = *parse_group_spread(sizes);
  return options;
}

// Fills an output as a correct operator would, over rows.
void write_rows(const GroupedOutput& output, const GroupedRows& rows, GroupTail tail) {
  for (const int call : {0, 1}) {
    const TensorView view = output.view(call);
    const std::int64_t end = tail == GroupTail::zero ? view.rows() : rows.end();
    for (std::int64_t r = 0; r < end; ++r) {
      for (std::int64_t c = 0; c < view.cols(); ++c) {
        store_f32(view.data, r * view.strides[0] + c, view.dtype, r < rows.end() ? 1.0f : 0.0f);
      }
    }
  }
}

bool passes(const GroupedOutput& output) {
  GateReport report;
  output.judge_memory("y", report);
  return report.pass();
}

TEST(GroupedGates, SeeRowsBehindTheLastGroup) {
  const DataOptions options = given_sizes("3,0,4");
  const GroupedRows rows(3, 10, options);
  for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
    GroupedOutput output(rows, tail, Dtype::bf16, 6, options);
    write_rows(output, rows, tail);
    EXPECT_TRUE(passes(output));
    for (const int call : {0, 1}) {  // -0 in one element behind the last group
      store_f32(output.view(call).data, 7 * output.view(call).strides[0] + 2, Dtype::bf16, -0.0f);
    }
    EXPECT_FALSE(passes(output));
    GroupedOutput unwritten(rows, tail, Dtype::bf16, 6, options);
    EXPECT_FALSE(passes(unwritten)) << "nothing was written";
  }
}

TEST(GroupedGates, SeeEmptyGroupsThatWereNotCleared) {
  const DataOptions options = given_sizes("3,0,4");
  const GroupedRows rows(3, 10, options);
  GroupedOutput output(rows, Dtype::f32, 2, 3, {}, options);
  for (const int call : {0, 1}) {
    const TensorView view = output.view(call);
    for (std::int64_t i = 0; i < 18; ++i) {
      const std::int64_t group = i / 6;
      static_cast<float*>(view.data)[i / 3 * view.strides[1] + i % 3] = group == 1 ? 0.0f : 1.0f;
    }
  }
  EXPECT_TRUE(passes(output));
  for (const int call : {0, 1}) {
    const TensorView view = output.view(call);
    static_cast<float*>(view.data)[view.strides[0]] = 1e-30f;
  }
  EXPECT_FALSE(passes(output));
}

TEST(GroupedGates, KeepTheWorstGroup) {
  WorstOfGroups worst;
  worst.add(0, {{"G2", "d", true, "55.0 dB", "> 50 dB", 55}});
  worst.add(1, {{"G2", "d", false, "worst element 2.000", "<= 1 of its bound", NAN}});
  worst.add(2, {{"G2", "d", true, "51.0 dB", "> 50 dB", 51}});
  GateReport report;
  worst.move_to(report);
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_FALSE(report.pass());
  EXPECT_EQ(report.results[0].value, "group 1: worst element 2.000");
}

}  // namespace
}  // namespace octet
