// The formulas of backward against finite differences in f64 of a forward pass written here, and
// the gates.
#include "ops/rms_norm_rope/norm_rope_case.hpp"
#include "support/gates.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace octet::testing {
namespace {

// One token of q in f64; its value is the sum of dout * out.
struct Forward {
  RmsNormRopeProblem problem;
  std::vector<double> cos;  // by pair
  std::vector<double> sin;
  std::vector<double> dout;

  double operator()(const std::vector<double>& x, const std::vector<double>& g) const {
    const auto head_dim = static_cast<std::size_t>(problem.head_dim);
    std::vector<double> n(x.size());
    for (std::size_t begin = 0; begin < x.size(); begin += g.size()) {
      double squares = 0;
      for (std::size_t i = 0; i < g.size(); ++i) squares += x[begin + i] * x[begin + i];
      const double rms = std::sqrt(squares / static_cast<double>(g.size()) + problem.eps);
      for (std::size_t i = 0; i < g.size(); ++i) {
        n[begin + i] = x[begin + i] / rms * (problem.one_plus_weight ? 1 + g[i] : g[i]);
      }
    }
    double sum = 0;
    const std::size_t pairs = cos.size();
    for (std::size_t head = 0; head < x.size(); head += head_dim) {
      for (std::size_t i = 0; i < head_dim; ++i) {
        double rotated = n[head + i];
        if (i < 2 * pairs && problem.rotation.style == RopeStyle::interleaved) {
          rotated = i % 2 == 0 ? n[head + i] * cos[i / 2] - n[head + i + 1] * sin[i / 2]
                               : n[head + i] * cos[i / 2] + n[head + i - 1] * sin[i / 2];
        } else if (i < 2 * pairs) {
          rotated = i < pairs ? n[head + i] * cos[i] - n[head + i + pairs] * sin[i]
                              : n[head + i] * cos[i - pairs] + n[head + i - pairs] * sin[i - pairs];
        }
        sum += rotated * dout[head + i];
      }
    }
    return sum;
  }
};

std::vector<double> values_of(const TensorView& view) {
  std::vector<double> values;
  for_elements(view, [&](std::int64_t i) { values.push_back(load_f32(view.data, i, view.dtype)); });
  return values;
}

std::vector<double> row_of(const TensorView& cache, std::int64_t row) {
  const std::vector<double> all = values_of(cache);
  return {all.begin() + row * cache.cols(), all.begin() + (row + 1) * cache.cols()};
}

double central_difference(const Forward& forward, std::vector<double> x, std::vector<double> g,
                          bool of_x, std::size_t index) {
  constexpr double kStep = 1e-5;
  double& changed = of_x ? x[index] : g[index];
  const double value = changed;
  changed = value + kStep;
  const double above = forward(x, g);
  changed = value - kStep;
  return (above - forward(x, g)) / (2 * kStep);
}

void expect_gradients(const RmsNormRopeProblem& problem, const std::string& way) {
  Random random(11);
  const RotationData rotation(problem.rotation, 1, 1, problem.head_dim, random);
  constexpr std::int64_t kPosition = 37;
  rotation.set_position(0, kPosition);
  const NormRopeCall call(problem, HeadsLayout::dense, HeadsLayout::dense);
  call.q.fill(random);
  norm_rope_by(way, problem, call, rotation.args());
  const Forward forward{problem, row_of(rotation.args().cos, kPosition),
                        row_of(rotation.args().sin, kPosition), values_of(call.q.dout.view())};
  const std::vector<double> x = values_of(call.q.x.view());
  const std::vector<double> g = values_of(call.q.g);
  const std::vector<double> dx = values_of(call.q.dx.view());
  const std::vector<double> dg = values_of(call.q.dg);
  const std::string repeat = way + ": " + describe(problem);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(dx[i], central_difference(forward, x, g, true, i), 2e-5) << i << ", " << repeat;
  }
  for (std::size_t i = 0; i < g.size(); ++i) {
    EXPECT_NEAR(dg[i], central_difference(forward, x, g, false, i), 2e-5) << i << ", " << repeat;
  }
}

TEST(RmsNormRope, HasTheGradientsOfItsForward) {
  RmsNormRopeProblem problem{.seq = 1,
                             .q_heads = 3,
                             .head_dim = 20,
                             .dtype = Dtype::f32,
                             .weight_dtype = Dtype::f32,
                             .eps = 0.01f};
  problem.rotation.rotary_dim = 16;
  problem.rotation.positions_dtype = Dtype::i32;
  problem.rotation.cache_rows = 50;
  for (const NormScope norm : {NormScope::row, NormScope::head}) {
    for (const RopeStyle style : {RopeStyle::rotate_half, RopeStyle::interleaved}) {
      for (const bool one_plus : {false, true}) {
        problem.norm = norm;
        problem.rotation.style = style;
        problem.one_plus_weight = one_plus;
        for (const std::string& way : all_ways()) expect_gradients(problem, way);
      }
    }
  }
}

TEST(RmsNormRope, WorksInPlaceInsideAPackedTensorAndLeavesV) {
  RmsNormRopeProblem problem{.batch = 2, .seq = 7, .q_heads = 4, .k_heads = 2, .head_dim = 64};
  Random random(9);
  const RotationData rotation(problem, random);
  const NormRopeCall call(problem, HeadsLayout::dense, HeadsLayout::dense);
  call.q.fill(random);
  call.k.fill(random);
  const PackedHeads packed(problem.dtype, 2, 7, 4, 2, 64);
  const PackedHeads before(problem.dtype, 2, 7, 4, 2, 64);
  fill_normal(packed.memory.view(), random);
  before.memory.copy_from(packed.memory);
  const auto plan = plan_rms_norm_rope_forward(problem);
  const Buffer memory(plan.workspace_bytes);
  const Workspace workspace{memory.data(), memory.bytes()};
  RmsNormRopeForwardArgs args = call.forward(rotation.args());
  args.q = packed.q();
  args.k = packed.k();
  run(plan, args, workspace);
  args.q_out = packed.q();
  args.k_out = packed.k();
  run(plan, args, workspace);
  EXPECT_TRUE(equal_elements(packed.q(), call.q.out.view()));
  EXPECT_TRUE(equal_elements(packed.k(), call.k.out.view()));
  EXPECT_TRUE(equal_elements(packed.v(), before.v()));
  EXPECT_FALSE(equal_elements(packed.q(), before.q()));
}

TEST(RmsNormRope, PassesItsGates) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    expect_all_pass(random_norm_rope(random), rms_norm_rope_forward_implementations(),
                    check_rms_norm_rope);
  }
}

}  // namespace
}  // namespace octet::testing
