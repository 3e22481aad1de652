// Each instruction set against the reference, in every bit of the output's memory, gaps included.
#include "ops/quantize/paths.hpp"
#include "ops/quantize/random_problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
namespace octet {
namespace {

constexpr Data kData[] = {Data::normal,   Data::tiny,        Data::huge,           Data::zeros,
                          Data::any_bits, Data::one_outlier, Data::some_non_finite};

void fill(Input& input, Data data, Random& random) {
  const TensorView& view = input.view();
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    for (std::int64_t c = 0; c < view.cols(); ++c) input.set(r, c, random_value(data, random));
  }
  if (data == Data::one_outlier) {
    const auto row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(view.rows()));
    const auto col = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(view.cols()));
    input.set(row, col, 3e4f);
  }
}

void expect_equal_to_reference(std::uint64_t seed) {
  Random random(seed);
  constexpr std::optional<BlockShape> kBlocks[] = {std::nullopt, kBlock1x128, kBlock128x1,
                                                   kBlock128x128};
  const QuantizeProblem problem = random_problem(kBlocks, random);
  const Data data = any_of(kData, random);
  Input input(problem.rows, problem.cols, problem.input_dtype,
              static_cast<std::int64_t>(random() % 40));
  fill(input, data, random);
  const ForeignCopies wanted(problem);
  quantize_by(Path::reference, problem, wanted.args(input.view()));
  for (Path path : simd_paths()) {
    const ForeignCopies got(problem);
    quantize_by(path, problem, got.args(input.view()));
    const std::string repeat = text(name(path), ", seed ", seed, ": ", describe(problem));
    EXPECT_TRUE(got.out.values() == wanted.out.values()) << "codes, " << repeat;
    EXPECT_TRUE(got.out.scale_bits() == wanted.out.scale_bits()) << "scales, " << repeat;
    EXPECT_TRUE(got.transposed.values() == wanted.transposed.values())
        << "transposed codes, " << repeat;
    EXPECT_TRUE(got.transposed.scale_bits() == wanted.transposed.scale_bits())
        << "transposed scales, " << repeat;
  }
}

TEST(QuantizeSimd, EqualsTheReferenceInEveryBitOnRandomProblems) {
  ASSERT_FALSE(simd_paths().empty()) << "this machine has no AVX2";
  for (std::uint64_t seed = 1; seed <= 600; ++seed) expect_equal_to_reference(seed);
}

// Large enough for streaming stores, with a tail in both directions.
TEST(QuantizeSimd, EqualsTheReferenceWhereLargeOutputsAreStreamed) {
  QuantizeProblem problem{.rows = 2050, .cols = 4225, .transposed_block = kBlock1x128};
  Random random(7);
  Input input(problem.rows, problem.cols, problem.input_dtype);
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      store_f32(input.view().data, r * problem.cols + c, problem.input_dtype,
                static_cast<float>(static_cast<std::int32_t>(random())));
    }
  }
  const auto quantized = [&](Path path, const QuantizedTensor& out,
                             const QuantizedTensor& transposed) {
    quantize_by(path, problem, {input.view(), out, transposed});
  };
  const auto bytes = [](const QuantizedTensor& tensor) {
    const TensorView& values = tensor.view().values;
    const auto* data = static_cast<const std::uint8_t*>(values.data);
    return std::vector<std::uint8_t>(data, data + values.rows() * values.strides[0]);
  };
  const QuantizedTensor out(problem.rows, problem.cols, problem.format, kBlock1x128);
  const QuantizedTensor transposed(problem.cols, problem.rows, problem.format, kBlock1x128);
  quantized(Path::reference, out, transposed);
  for (Path path : simd_paths()) {
    const QuantizedTensor simd_out(problem.rows, problem.cols, problem.format, kBlock1x128);
    const QuantizedTensor simd_transposed(problem.cols, problem.rows, problem.format, kBlock1x128);
    quantized(path, simd_out, simd_transposed);
    EXPECT_TRUE(bytes(simd_out) == bytes(out)) << name(path) << ": " << describe(problem);
    EXPECT_TRUE(bytes(simd_transposed) == bytes(transposed))
        << name(path) << ": " << describe(problem);
  }
}

}  // namespace
}  // namespace octet
