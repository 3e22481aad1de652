// The formulas of backward against finite differences in f64 of a forward pass written here, the
// gates, and where NaN and infinity go.
#include "check/gates.hpp"
#include "ops/rms_norm_rope/norm_rope_case.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace octet::testing {
namespace {

// One token of q in f64: the sum of dout * out.
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
        double turned = n[head + i];
        if (i < 2 * pairs && problem.rotation.style == RopeStyle::interleaved) {
          turned = i % 2 == 0 ? n[head + i] * cos[i / 2] - n[head + i + 1] * sin[i / 2]
                              : n[head + i] * cos[i / 2] + n[head + i - 1] * sin[i / 2];
        } else if (i < 2 * pairs) {
          turned = i < pairs ? n[head + i] * cos[i] - n[head + i + pairs] * sin[i]
                             : n[head + i] * cos[i - pairs] + n[head + i - pairs] * sin[i - pairs];
        }
        sum += turned * dout[head + i];
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

std::vector<std::string> all_ways() {
  std::vector<std::string> ways = simd_names();
  ways.emplace_back("cpu_reference");
  return ways;
}

TEST(RmsNormRope, HasTheGradientsOfItsForward) {
  RmsNormRopeProblem problem;
  problem.seq = 1;
  problem.q_heads = 3;
  problem.head_dim = 20;
  problem.dtype = Dtype::f32;
  problem.weight = Dtype::f32;
  problem.eps = 0.01f;
  problem.rotation.rotary_dim = 16;
  problem.rotation.positions = Dtype::i32;
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

TEST(RmsNormRope, PassesItsGates) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    const RmsNormRopeProblem problem = random_norm_rope(random);
    for (const auto& implementation : rms_norm_rope_forward_implementations()) {
      if (!implementation.refuse(problem, this_machine(kCpu, 1)).empty()) continue;
      GateOptions options;
      options.backend = implementation.name;
      for (const GateResult& result : check_rms_norm_rope(problem, options).results) {
        EXPECT_TRUE(result.pass) << result.gate << " " << result.tensor << ": " << result.value
                                 << ", " << implementation.name << ": " << describe(problem);
      }
    }
  }
}

// Which elements of a tensor are not finite.
std::vector<std::int64_t> not_finite(const TensorView& view) {
  std::vector<std::int64_t> found;
  for_elements(view, [&](std::int64_t i) {
    if (!std::isfinite(load_f32(view.data, i, view.dtype))) found.push_back(i);
  });
  return found;
}
std::vector<std::int64_t> range(std::int64_t begin, std::int64_t count) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(begin + i);
  return result;
}

class RmsNormRopeNan : public ::testing::TestWithParam<NormScope> {
 protected:
  RmsNormRopeNan() {
    problem.seq = 5;
    problem.q_heads = 2;
    problem.k_heads = 1;
    problem.head_dim = 40;
    problem.norm = GetParam();
    problem.rotation.rotary_dim = 32;
  }

  // Fills a call, lets `spoil` change it, and runs it.
  void run(const std::string& way, const std::function<void(const NormRopeCall&)>& spoil) {
    Random random(2);
    const RotationData rotation(problem.rotation, 1, problem.seq, problem.head_dim, random);
    call = std::make_unique<NormRopeCall>(problem, HeadsLayout::dense, HeadsLayout::dense);
    call->q.fill(random);
    call->k.fill(random);
    spoil(*call);
    norm_rope_by(way, problem, *call, rotation.args());
    EXPECT_TRUE(not_finite(call->k.out.view()).empty() && not_finite(call->k.dx.view()).empty() &&
                not_finite(call->k.dg).empty() && not_finite(call->k.rstd).empty());
  }
  // The elements that are normed with `index` of q.
  std::vector<std::int64_t> norm_of(std::int64_t index) const {
    const std::int64_t length = problem.head_dim * (problem.norm == NormScope::row ? 2 : 1);
    return range(index / length * length, length);
  }
  // Where dg has the share of `index` and of what is turned with it.
  std::vector<std::int64_t> weights_of(std::int64_t index) const {
    const std::int64_t in_head = index % 40;
    const std::int64_t head = problem.norm == NormScope::row ? index % 80 - in_head : 0;
    if (in_head >= 32) return {head + in_head};
    return {head + in_head % 16, head + in_head % 16 + 16};
  }

  RmsNormRopeProblem problem;
  std::unique_ptr<NormRopeCall> call;
};

// x makes rstd of its norm NaN, and so everything that is normed with it.
TEST_P(RmsNormRopeNan, InXReachesItsNormAlone) {
  for (const std::string& way : all_ways()) {
    for (const std::int64_t index : {3 * 80 + 7, 3 * 80 + 75}) {
      run(way,
          [&](const NormRopeCall& c) { store_f32(c.q.x.view().data, index, problem.dtype, NAN); });
      EXPECT_EQ(not_finite(call->q.out.view()), norm_of(index)) << way;
      EXPECT_EQ(not_finite(call->q.dx.view()), norm_of(index)) << way;
      const std::int64_t norms = problem.norm == NormScope::row ? 1 : 2;
      EXPECT_EQ(not_finite(call->q.rstd),
                range(3 * norms + (norms == 2 && index % 80 >= 40 ? 1 : 0), 1));
      EXPECT_EQ(not_finite(call->q.dg).size(), problem.norm == NormScope::row ? 80u : 40u) << way;
    }
  }
}

// An infinite x has rstd = 0: it is NaN itself (infinity * 0), as is what is turned with it.
TEST_P(RmsNormRopeNan, InfinityInXReachesItsPairForward) {
  for (const std::string& way : all_ways()) {
    const std::int64_t index = 3 * 80 + 7;
    run(way, [&](const NormRopeCall& c) {
      store_f32(c.q.x.view().data, index, problem.dtype, std::numeric_limits<float>::infinity());
    });
    EXPECT_EQ(not_finite(call->q.out.view()), (std::vector<std::int64_t>{index, index + 16}))
        << way;
    EXPECT_TRUE(not_finite(call->q.rstd).empty()) << way;
  }
}

// dout reaches the norm of its token through the mean, and dg where its own share lies.
TEST_P(RmsNormRopeNan, InDoutReachesItsNormAndItsShareOfDg) {
  for (const std::string& way : all_ways()) {
    for (const std::int64_t index : {2 * 80 + 20, 2 * 80 + 39, 4 * 80 + 41}) {
      run(way, [&](const NormRopeCall& c) {
        store_f32(c.q.dout.view().data, index, problem.dtype, NAN);
      });
      EXPECT_TRUE(not_finite(call->q.out.view()).empty()) << way;
      EXPECT_EQ(not_finite(call->q.dx.view()), norm_of(index)) << way;
      EXPECT_EQ(not_finite(call->q.dg), weights_of(index)) << way << ", " << index;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scopes, RmsNormRopeNan, ::testing::Values(NormScope::row, NormScope::head),
                         [](const auto& scope) {
                           return scope.param == NormScope::row ? "row" : "head";
                         });

}  // namespace
}  // namespace octet::testing
