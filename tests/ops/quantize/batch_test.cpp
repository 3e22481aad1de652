// quantize over a batch: every matrix has the bits it would have alone, and no other byte is
// written.
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "ops/quantize/images.hpp"
#include "ops/quantize/paths.hpp"
#include "ops/quantize/random_problem.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

// Matrices with gaps between their rows and between each other.
struct BatchInput {
  Input rows;
  TensorView view;

  explicit BatchInput(const QuantizeProblem& problem)
      : rows(problem.batch * (problem.rows + 1), problem.cols, problem.input_dtype, 3),
        view(make_view(rows.view().data, problem.input_dtype,
                       {problem.batch, problem.rows, problem.cols})) {
    const std::int64_t pitch = rows.view().strides[0];
    view.strides = {(problem.rows + 1) * pitch, pitch, 1};
  }
  void draw(Data data, Random& random) {
    for (std::int64_t r = 0; r < rows.view().rows(); ++r) {
      for (std::int64_t c = 0; c < rows.view().cols(); ++c) {
        rows.set(r, c, random_value(data, random));
      }
    }
  }
};

struct Copies {
  Image out;
  Image transposed;

  Copies(const QuantizeProblem& problem, Layout layout)
      : out(layout, problem.batch, problem.rows, problem.cols, problem.format,
            problem.block.value_or(kBlock1x128)),
        transposed(layout, problem.batch, problem.cols, problem.rows, problem.format,
                   problem.transposed_block.value_or(kBlock1x128)) {}
};

void expect_matrices_alone(const QuantizeProblem& problem, const BatchInput& input, Layout layout,
                           const std::string& what, int threads = 2) {
  QuantizeProblem dense = problem;
  dense.batch = 0;
  const Copies wanted(problem, layout);
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    const ForeignCopies alone(dense);
    quantize_by(Path::reference, dense, alone.args(matrix_of(input.view, i)));
    if (problem.block) wanted.out.set_matrix(i, alone.out.view());
    if (problem.transposed_block) wanted.transposed.set_matrix(i, alone.transposed.view());
  }
  if (problem.block) clear_padding(wanted.out.view());
  if (problem.transposed_block) clear_padding(wanted.transposed.view());
  for (const Path path : all_paths()) {
    const Copies got(problem, layout);
    quantize_by(path, problem, {input.view, got.out.view(), got.transposed.view()}, threads);
    const std::string repeat = text(name(path), layout == Layout::foreign ? ", foreign" : "", what,
                                    ": ", describe(problem));
    got.out.expect_equal(wanted.out, "out, " + repeat);
    got.transposed.expect_equal(wanted.transposed, "transposed, " + repeat);
  }
}

TEST(QuantizeBatch, HasTheBitsOfEachMatrixAlone) {
  constexpr std::int64_t kExtents[] = {1, 8, 100, 127, 128, 129, 200, 256, 257};
  constexpr std::optional<BlockShape> kBlocks[] = {std::nullopt, kBlock1x128, kBlock128x128};
  constexpr Data kData[] = {Data::normal, Data::tiny, Data::zeros, Data::some_non_finite};
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    QuantizeProblem problem = random_problem(kBlocks, random);
    problem.rows = any_of(kExtents, random);
    problem.cols = any_of(kExtents, random);
    problem.batch = 1 + static_cast<std::int64_t>(random() % 5);
    BatchInput input(problem);
    input.draw(any_of(kData, random), random);
    expect_matrices_alone(problem, input, any_of({Layout::ours, Layout::foreign}, random),
                          text(", seed ", seed));
  }
}

QuantizeProblem weights(std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  return {.rows = rows,
          .cols = cols,
          .block = kBlock128x128,
          .transposed_block = kBlock128x128,
          .batch = batch};
}

// Large enough for streaming stores.
TEST(QuantizeBatch, HasTheSameBitsWhereLargeOutputsAreStreamed) {
  const QuantizeProblem problem = weights(5, 1000, 1800);
  BatchInput input(problem);
  Random random(7);
  input.draw(Data::normal, random);
  expect_matrices_alone(problem, input, Layout::ours, "");
}

TEST(QuantizeBatchThreads, AnyNumberOfThreadsGivesTheSameBits) {
  const QuantizeProblem problem = weights(7, 300, 500);
  BatchInput input(problem);
  Random random(8);
  input.draw(Data::normal, random);
  for (const int threads : {1, 2, 3, 7}) {
    expect_matrices_alone(problem, input, Layout::ours, text(", ", threads, " threads"), threads);
  }
}

TEST(QuantizeBatch, DescribesItselfAsACommand) {
  EXPECT_EQ(describe(weights(8, 3, 70)),
            "quantize --shape 3x70 --batch 8 --dtype bf16 --format e4m3 --block 128x128 "
            "--transposed-block 128x128 --device cpu");
}

}  // namespace
}  // namespace octet
