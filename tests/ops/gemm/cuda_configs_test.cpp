// Every compiled configuration of the Hopper product by name, with every way to store its tiles.
#include <gtest/gtest.h>

#include "core/checks.hpp"
#include "ops/gemm/cuda_product.hpp"
#include "ops/gemm/sm90/config.hpp"

#include <cctype>
#include <cmath>
#include <string>

namespace octet::testing {
namespace {

void launch(const Sm90GemmConfig& config, const GemmProblem& problem, const GemmArgs& args) {
  const GemmPlan plan =
      plan_gemm(problem, {.backend = "cuda_sm90_wgmma", .configuration = name(config)});
  ASSERT_EQ(plan.configuration, name(config));
  run(plan, args);
}

class GemmCudaConfigs : public ::testing::TestWithParam<Sm90GemmConfig> {};

struct Way {
  const char* name;
  Dtype out;
  bool accumulate;
  std::int64_t offset;  // elements
  std::int64_t extra;   // added to the pitch
  std::optional<Dtype> bias{};
};

constexpr Way kWays[] = {
    {"16-bit boxes", Dtype::bf16, false, 0, 0},
    {"f32 boxes", Dtype::f32, false, 0, 0},
    {"f32 additions", Dtype::f32, true, 0, 16},
    {"rows from an even element on", Dtype::f16, false, 2, 2},
    {"rows from an odd one on", Dtype::bf16, false, 1, 0},
    {"rows from both in turn", Dtype::bf16, false, 0, 1},
    {"elements", Dtype::f32, false, 1, 1},
    {"elements added", Dtype::f32, true, 0, 1},
    {"bf16 added", Dtype::bf16, true, 0, 0},
    {"16-bit boxes with an f32 bias", Dtype::bf16, false, 0, 0, Dtype::f32},
    {"16-bit boxes with a bias", Dtype::f16, false, 0, 0, Dtype::f16},
    {"f32 boxes with a bias", Dtype::f32, false, 0, 0, Dtype::f32},
    {"rows with a bias", Dtype::bf16, false, 1, 1, Dtype::bf16},
    {"elements with a bias", Dtype::f32, false, 1, 1, Dtype::f32},
};

// `whole`: where scales are applied at the end, one of each tensor, else one per row.
GemmProblem problem_of(const Sm90GemmConfig& config, std::int64_t m, std::int64_t n, std::int64_t k,
                       Dtype out, bool whole = false) {
  GemmProblem problem = make_problem(
      m, n, k, config.promotion == Promotion::one_by_one ? kBlock1x128 : kBlock128x128, out);
  problem.a.dtype = config.a;
  problem.b.dtype = config.b;
  problem.a.major = config.a_major;
  problem.b.major = config.b_major;
  if (!is_fp8(config.a)) problem.a.block = problem.b.block = kUnscaled;
  if (has_end_scales(config)) {
    problem.a.block = problem.b.block = whole ? kWholeTensor : kEachRow;
    problem.fast_accumulation = config.promotion == Promotion::none;
  }
  return problem;
}

// Rows that fill no whole tile; those of an operand that is contiguous along them come in eights.
std::int64_t few_rows(const Sm90GemmConfig& config) { return config.a_major == Major::k ? 37 : 40; }
// Of the contraction, no whole slice.
constexpr std::int64_t kFewK = 104;

// Three rows of tiles and two columns, or two clusters of columns, whose last tile then lies beyond
// d. Both are ragged, with N a multiple of 16. One contraction goes around the ring, one has a
// single slice.
TEST_P(GemmCudaConfigs, GivesTheCpusBitsWhicheverWayTilesLeave) {
  OCTET_NEEDS_HOPPER();
  const Sm90GemmConfig& config = GetParam();
  for (const std::int64_t k : {config.stages * kBlock + kFewK, kBlock}) {
    for (const Way& way : kWays) {
      GemmProblem problem =
          problem_of(config, 2 * config.tile_m + few_rows(config),
                     config.cluster * config.tile_n + 48, k, way.out, k == kBlock);
      problem.accumulate = way.accumulate;
      problem.bias_dtype = way.bias;
      const Product product(problem);
      const std::int64_t pitch = problem.n + way.extra;
      const auto given = product.given(way.offset, pitch, [&](const GemmArgs& args) {
        launch(config, product.on_device(), args);
      });
      EXPECT_TRUE(given == product.wanted(way.offset, pitch))
          << name(config) << ", " << way.name << ": " << describe(product.on_device());
    }
  }
}

// Two to three tiles per block, whose last slices end in different stages of the ring: before, in and behind
// the last one, which staged results pass through.
TEST_P(GemmCudaConfigs, GivesTheCpusBitsTileAfterTile) {
  OCTET_NEEDS_HOPPER();
  const Sm90GemmConfig& config = GetParam();
  for (const std::int64_t slices : {1, 2, config.stages, config.stages + 1}) {
    GemmProblem problem = problem_of(config, 15 * config.tile_m, 20 * config.tile_n,
                                     slices * slice_elements(config), Dtype::bf16);
    if (slices > config.stages) problem.bias_dtype = Dtype::f32;
    const Product product(problem);
    const std::int64_t pitch = product.problem.n;
    const auto given = product.given(
        0, pitch, [&](const GemmArgs& args) { launch(config, product.on_device(), args); });
    EXPECT_TRUE(given == product.wanted(0, pitch))
        << name(config) << ": " << describe(product.on_device());
  }
}

// Small tiles load no rows beyond M. Stale rows in shared memory must not reach the output.
TEST_P(GemmCudaConfigs, GivesTheCpusBitsWithFewerRowsThanATile) {
  OCTET_NEEDS_HOPPER();
  const Sm90GemmConfig& config = GetParam();
  for (std::int64_t m : {1, 2, 5, config.tile_m / 2 + 1, config.tile_m - 1}) {
    if (config.a_major == Major::mn) m = round_up(m, 8);
    const Product product(
        problem_of(config, m, config.tile_n + 48, config.stages * kBlock + kFewK, Dtype::bf16));
    const std::int64_t pitch = product.problem.n;
    const auto given = product.given(
        0, pitch, [&](const GemmArgs& args) { launch(config, product.on_device(), args); });
    EXPECT_TRUE(given == product.wanted(0, pitch))
        << name(config) << ": " << describe(product.on_device());
  }
}

std::string test_name(const ::testing::TestParamInfo<Sm90GemmConfig>& info) {
  std::string text = name(info.param);
  for (char& letter : text) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(All, GemmCudaConfigs, ::testing::ValuesIn(sm90_gemm_configs()), test_name);

// Sums far below the smallest normal number, added by TMA and by the lanes.
TEST(GemmCuda, AddsSubnormalsToF32AsTheCpuDoes) {
  OCTET_NEEDS_HOPPER();
  for (const BlockShape block : kPairings) {
    GemmProblem problem = make_problem(150, 144, 300, block);
    problem.accumulate = true;
    Product product(problem);
    for (const QuantizedView& view : {product.a.view(), product.b.view()}) {
      for (std::int64_t r = 0; r < view.scales.rows(); ++r) {
        for (std::int64_t c = 0; c < view.scales.cols(); ++c) {
          scale_at(view, r, c) = std::ldexp(1.0f, -70);
        }
      }
    }
    product.unit = std::ldexp(1.0f, -139);
    product.expect_exact(0, 144);
    product.expect_exact(0, 145);
  }
}

}  // namespace
}  // namespace octet::testing
