// G5, G6 and Q over outputs that are corrupted on purpose.
#include "check/product_case.hpp"

namespace octet {
namespace {

void fill(const GuardedMatrix& matrix, float value) {
  for (std::int64_t r = 0; r < matrix.view().rows(); ++r) {
    for (std::int64_t c = 0; c < matrix.view().cols(); ++c) set_element(matrix.view(), r, c, value);
  }
}

class GuardedOutput : public testing::TestWithParam<Dtype> {
 protected:
  GuardedMatrix matrix_{GetParam(), 37, 53, 5};

  bool passes() const { return judge_g6("d", matrix_.inspect(), {}).pass; }
  // Writes an element at `offset` from the first, inside or outside the matrix.
  void write(std::int64_t offset) { set_element(matrix_.view() + offset, 0, 0, 1); }
};

TEST_P(GuardedOutput, G6PassesWhereEveryElementIsWrittenAndNoneOutside) {
  fill(matrix_, 0.5f);
  EXPECT_TRUE(passes());
}

TEST_P(GuardedOutput, G6SeesOneUnwrittenElement) {
  const TensorView& view = matrix_.view();
  const GuardedMatrix untouched(GetParam(), 1, 1, 0);
  fill(matrix_, 0.5f);
  std::memcpy((view + (36 * 58 + 52)).data, untouched.view().data,
              static_cast<std::size_t>(size_bytes(GetParam())));
  const GateResult g6 = judge_g6("d", matrix_.inspect(), {});
  EXPECT_FALSE(g6.pass);
  EXPECT_EQ(g6.value, "1 unwritten, 0 bytes outside");
}

TEST_P(GuardedOutput, G6SeesAWriteBeforeBehindAndBetweenTheRows) {
  for (const std::int64_t offset : {std::int64_t{-1}, std::int64_t{53}, std::int64_t{58 * 37}}) {
    matrix_ = GuardedMatrix(GetParam(), 37, 53, 5);
    fill(matrix_, 0.5f);
    write(offset);
    EXPECT_FALSE(passes()) << "offset " << offset;
    EXPECT_EQ(matrix_.inspect().unwritten, 0);
  }
}

TEST_P(GuardedOutput, AnAccumulatedOutputIsGuardedToo) {
  const Tensor old(GetParam(), {37, 53});
  matrix_.fill_from(old);
  EXPECT_TRUE(passes());
  write(-1);
  EXPECT_FALSE(passes());
}

TEST_P(GuardedOutput, G5SeesOneBitBetweenTwoRuns) {
  GuardedMatrix second(GetParam(), 37, 53, 0);
  fill(matrix_, 0.5f);
  fill(second, 0.5f);
  EXPECT_TRUE(judge_g5("d", matrix_.view(), second.view()).pass);
  auto* last = static_cast<unsigned char*>((second.view() + (37 * 53 - 1)).data);
  *last ^= 1;
  const GateResult g5 = judge_g5("d", matrix_.view(), second.view());
  EXPECT_EQ(g5.gate, "G5");
  EXPECT_FALSE(g5.pass);
  EXPECT_EQ(g5.value, "1 differ");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GuardedOutput,
                         testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                         [](const auto& test) { return std::string(name(test.param)); });

class GuardedCopy : public testing::TestWithParam<BlockShape> {
 protected:
  QuantizedLayout layout_{131, 300, Dtype::e4m3, GetParam()};
  Tensor input_{Dtype::bf16, {131, 300}};

  void SetUp() override { fill_random(input_, Distribution::normal, {1, 0}, 1); }
  void write(const GuardedQuantized& copy) const {
    QuantizeProblem problem{.rows = 131, .cols = 300, .block = GetParam()};
    const QuantizePlan plan = plan_quantize(problem);
    const Buffer workspace(plan.workspace_bytes);
    run(plan, {input_, copy.view(), {}}, {workspace.data(), workspace.bytes()});
  }
  static std::uint8_t& value(const GuardedQuantized& copy, std::int64_t offset) {
    return static_cast<std::uint8_t*>(copy.view().values.data)[offset];
  }
};

TEST_P(GuardedCopy, G6PassesWithPaddingOfItsOwnAndWithout) {
  for (const bool owns_padding : {true, false}) {
    const GuardedQuantized copy(layout_, owns_padding);
    EXPECT_EQ(copy.inspect().unwritten,
              131 * 300 + layout_.scale_shape[0] * layout_.scale_shape[1]);
    write(copy);
    const GateResult g6 = judge_g6("q", copy.inspect(), {});
    EXPECT_TRUE(g6.pass) << g6.value;
  }
}

TEST_P(GuardedCopy, G6SeesPaddingThatIsNotCleared) {
  const GuardedQuantized copy(layout_, true);
  write(copy);
  value(copy, 300) = 1;
  EXPECT_EQ(copy.inspect().bad_padding, 1);
  EXPECT_FALSE(judge_g6("q", copy.inspect(), {}).pass);
}

TEST_P(GuardedCopy, G6SeesAWriteIntoForeignPaddingAndAroundTheTensor) {
  for (const std::int64_t offset : {std::int64_t{-1}, std::int64_t{300}, 131 * layout_.pitch,
                                    static_cast<std::int64_t>(layout_.bytes)}) {
    const GuardedQuantized copy(layout_, false);
    write(copy);
    value(copy, offset) = 0;
    EXPECT_EQ(copy.inspect().outside, 1) << "offset " << offset;
  }
}

TEST_P(GuardedCopy, QSeesOneWrongValueAndOneWrongScale) {
  const OracleTensor wanted = quantize_oracle(input_, {Dtype::e4m3, GetParam()}, 1);
  const GuardedQuantized copy(layout_, true);
  write(copy);
  EXPECT_TRUE(judge_quantized("q", copy.view(), wanted.view()).pass);
  value(copy, 2 * layout_.pitch + 3) ^= 1;
  EXPECT_EQ(judge_quantized("q", copy.view(), wanted.view()).value, "1 differ");
  auto& scale = *static_cast<float*>(copy.view().scales.data);
  scale = std::nextafter(scale, 0.0f);
  const GateResult q = judge_quantized("q", copy.view(), wanted.view());
  EXPECT_EQ(q.gate, "Q");
  EXPECT_FALSE(q.pass);
  EXPECT_EQ(q.value, "2 differ");
}

INSTANTIATE_TEST_SUITE_P(Blocks, GuardedCopy,
                         testing::Values(kBlock1x128, kBlock128x1, kBlock128x128),
                         [](const auto& test) { return "block" + name(test.param); });

}  // namespace
}  // namespace octet
