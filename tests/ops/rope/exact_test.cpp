// Rotations by quarter turns of small integers: every result is exact.
#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace octet {
namespace {

float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data()); }

std::vector<float> values_of(const Tensor& tensor, std::size_t count) {
  return {floats(tensor), floats(tensor) + count};
}

// cos and sin of p quarter turns for position p, the same for every pair.
struct QuarterTurns {
  Tensor cos;
  Tensor sin;

  QuarterTurns(std::int64_t rows, std::int64_t cols)
      : cos(Dtype::f32, {rows, cols}), sin(Dtype::f32, {rows, cols}) {
    constexpr float kCos[] = {1, 0, -1, 0};
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      floats(cos)[i] = kCos[i / cols % 4];
      floats(sin)[i] = kCos[(i / cols + 3) % 4];
    }
  }
};

Tensor counting(std::initializer_list<std::int64_t> shape, std::int64_t count) {
  Tensor tensor(Dtype::f32, shape);
  for (std::int64_t i = 0; i < count; ++i) floats(tensor)[i] = static_cast<float>(i + 1);
  return tensor;
}

RopeProblem two_tokens() {
  RopeProblem problem{.seq = 2, .q_heads = 1, .head_dim = 4, .dtype = Dtype::f32};
  return problem;
}

TEST(Rope, RotatesHalvesOfAHead) {
  const Tensor q = counting({1, 2, 1, 4}, 8);
  const Tensor out(Dtype::f32, {1, 2, 1, 4});
  const QuarterTurns turns(2, 2);
  run(plan_rope_forward(two_tokens()), {q, {}, out, {}, {turns.cos, turns.sin, {}}});
  // The first token stays. In the second, 5 is paired with 7 and 6 with 8: (a, b) -> (-b, a).
  EXPECT_EQ(values_of(out, 8), (std::vector<float>{1, 2, 3, 4, -7, -8, 5, 6}));
}

TEST(Rope, RotatesNeighbours) {
  RopeProblem problem = two_tokens();
  problem.rotation.style = RopeStyle::interleaved;
  const Tensor q = counting({1, 2, 1, 4}, 8);
  const Tensor out(Dtype::f32, {1, 2, 1, 4});
  const QuarterTurns turns(2, 2);
  run(plan_rope_forward(problem), {q, {}, out, {}, {turns.cos, turns.sin, {}}});
  EXPECT_EQ(values_of(out, 8), (std::vector<float>{1, 2, 3, 4, -6, 5, -8, 7}));
}

TEST(Rope, RotatesBackwards) {
  const Tensor q = counting({1, 2, 1, 4}, 8);
  const Tensor out(Dtype::f32, {1, 2, 1, 4});
  const QuarterTurns turns(2, 2);
  run(plan_rope_backward(two_tokens()), {q, {}, out, {}, {turns.cos, turns.sin, {}}});
  EXPECT_EQ(values_of(out, 8), (std::vector<float>{1, 2, 3, 4, 7, 8, -5, -6}));
}

TEST(Rope, RotatesKWithQAndCopiesWhatIsNotRotated) {
  RopeProblem problem = two_tokens();
  problem.q_heads = 2;
  problem.k_heads = 1;
  problem.rotation.rotary_dim = 2;
  const Tensor q = counting({1, 2, 2, 4}, 16);
  const Tensor k = counting({1, 2, 1, 4}, 8);
  const Tensor q_out(Dtype::f32, {1, 2, 2, 4});
  const Tensor k_out(Dtype::f32, {1, 2, 1, 4});
  const QuarterTurns turns(2, 1);
  run(plan_rope_forward(problem), {q, k, q_out, k_out, {turns.cos, turns.sin, {}}});
  EXPECT_EQ(values_of(q_out, 16), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8,  //
                                                      -10, 9, 11, 12, -14, 13, 15, 16}));
  EXPECT_EQ(values_of(k_out, 8), (std::vector<float>{1, 2, 3, 4, -6, 5, 7, 8}));
}

TEST(Rope, ReadsPositionsAndTheFirstOfEachPairOfAFullCache) {
  for (const RopeStyle style : {RopeStyle::rotate_half, RopeStyle::interleaved}) {
    RopeProblem problem = two_tokens();
    problem.rotation = {style, 0, 3, true, Dtype::f32, Dtype::i32};
    const Tensor q = counting({1, 2, 1, 4}, 8);
    const Tensor out(Dtype::f32, {1, 2, 1, 4});
    const QuarterTurns turns(3, 4);
    for (int row = 0; row < 3; ++row) {
      const std::vector<int> unread =
          style == RopeStyle::interleaved ? std::vector<int>{1, 3} : std::vector<int>{2, 3};
      for (const int column : unread) {
        floats(turns.cos)[row * 4 + column] = 100;
        floats(turns.sin)[row * 4 + column] = 100;
      }
    }
    std::int32_t positions[] = {2, 1};
    run(plan_rope_forward(problem),
        {q, {}, out, {}, {turns.cos, turns.sin, make_view(positions, Dtype::i32, {1, 2})}});
    const std::vector<float> wanted = style == RopeStyle::interleaved
                                          ? std::vector<float>{-1, -2, -3, -4, -6, 5, -8, 7}
                                          : std::vector<float>{-1, -2, -3, -4, -7, -8, 5, 6};
    EXPECT_EQ(values_of(out, 8), wanted);
  }
}

}  // namespace
}  // namespace octet
