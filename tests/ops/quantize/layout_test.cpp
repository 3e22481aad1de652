// Which bytes are written: guard bands, padding, and the two copies against each other.
#include "ops/quantize/paths.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace octet {
namespace {

constexpr std::uint8_t kPoison = 0xA5;
constexpr std::size_t kGuard = 256;

void fill(Input& input) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (std::int64_t r = 0; r < input.view().rows(); ++r) {
    for (std::int64_t c = 0; c < input.view().cols(); ++c) input.set(r, c, normal(random));
  }
}

// A copy in octet's own layout between two guard bands, poisoned throughout.
struct GuardedCopy {
  QuantizedLayout layout;
  Buffer memory;
  QuantizedView view;

  GuardedCopy(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block)
      : layout(rows, cols, dtype, block), memory(layout.bytes + 2 * kGuard) {
    std::memset(memory.data(), kPoison, memory.bytes());
    view = layout.view(bytes() + kGuard);
  }

  std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(memory.data()); }

  // The lines of scales in memory order, and the number of scales in a line without padding.
  bool rows_contiguous() const { return layout.scale_strides[0] == 1; }
  std::int64_t scale_lines() const { return layout.scale_shape[rows_contiguous() ? 1 : 0]; }
  std::int64_t scale_length() const { return layout.scale_shape[rows_contiguous() ? 0 : 1]; }
  std::int64_t scale_step() const { return layout.scale_strides[rows_contiguous() ? 1 : 0]; }

  void expect_clean(const std::string& repeat) const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(bytes()[i], kPoison) << "before the values, " << repeat;
      ASSERT_EQ(bytes()[kGuard + layout.bytes + i], kPoison) << "after the scales, " << repeat;
    }
    const std::uint8_t* values = bytes() + kGuard;
    for (std::int64_t r = 0; r < layout.rows; ++r) {
      for (std::int64_t c = layout.cols; c < layout.pitch; ++c) {
        ASSERT_EQ(values[r * layout.pitch + c], 0) << "padding of row " << r << ", " << repeat;
      }
    }
    for (auto i = static_cast<std::size_t>(layout.rows * layout.pitch); i < layout.scales_offset;
         ++i) {
      ASSERT_EQ(values[i], kPoison) << "between values and scales, " << repeat;
    }
    const auto* scales = reinterpret_cast<const float*>(values + layout.scales_offset);
    for (std::int64_t line = 0; line < scale_lines(); ++line) {
      for (std::int64_t i = 0; i < scale_step(); ++i) {
        const float scale = scales[line * scale_step() + i];
        if (i < scale_length()) {
          ASSERT_NE(bits_of(scale), 0xA5A5A5A5u) << "scale not written, " << repeat;
        } else {
          ASSERT_EQ(scale, 1.0f) << "padding of scales, " << repeat;
        }
      }
    }
    const auto* end = reinterpret_cast<const float*>(values + layout.bytes);
    for (const float* rest = scales + scale_lines() * scale_step(); rest != end; ++rest) {
      ASSERT_EQ(bits_of(*rest), 0xA5A5A5A5u) << "after the last scale, " << repeat;
    }
  }
};

constexpr std::int64_t kExtents[] = {1, 127, 128, 129, 257};
constexpr BlockShape kBlocks[] = {kBlock1x128, kBlock128x1, kBlock128x128};

TEST(QuantizeLayout, WritesNothingOutsideAndClearsOwnedPadding) {
  for (std::int64_t rows : kExtents) {
    for (std::int64_t cols : kExtents) {
      for (BlockShape block : kBlocks) {
        QuantizeProblem problem{
            .rows = rows, .cols = cols, .block = block, .transposed_block = block};
        Input input(rows, cols, problem.input_dtype, 3);
        fill(input);
        for (Path path : all_paths()) {
          const GuardedCopy out(rows, cols, problem.format, block);
          const GuardedCopy transposed(cols, rows, problem.format, block);
          quantize_by(path, problem, {input.view(), out.view, transposed.view});
          out.expect_clean(name(path) + ", out: " + describe(problem));
          transposed.expect_clean(name(path) + ", transposed: " + describe(problem));
        }
      }
    }
  }
}

TEST(QuantizeLayout, DoesNotWriteToGapsOfForeignCopies) {
  QuantizeProblem problem{.rows = 130, .cols = 200, .transposed_block = kBlock1x128};
  Input input(problem.rows, problem.cols, problem.input_dtype);
  fill(input);
  for (Path path : all_paths()) {
    const ForeignCopies copies(problem);
    quantize_by(path, problem, copies.args(input.view()));
    const TensorView& values = copies.out.view().values;
    const auto* first = static_cast<const std::uint8_t*>(values.data);
    for (std::size_t i = 0; i < copies.out.values().size(); ++i) {
      const std::int64_t offset = copies.out.values().data() + i - first;
      const bool inside = offset >= 0 && offset < problem.rows * values.strides[0] &&
                          offset % values.strides[0] < problem.cols;
      if (!inside) {
        ASSERT_EQ(copies.out.values()[i], kPoison) << name(path) << " at " << offset;
      }
    }
    std::size_t scales_written = 0;
    for (std::uint32_t bits : copies.out.scale_bits()) scales_written += bits != 0xA5A5A5A5u;
    EXPECT_EQ(scales_written, 130u * 2u) << name(path);
  }
}

// Nothing may be computed from such a stride; the sanitizers watch.
TEST(QuantizeLayout, TakesAnyStrideOfADimensionOfOneElement) {
  constexpr std::int64_t kAny = std::int64_t{1} << 62;
  const QuantizeProblem problem{.rows = 1, .cols = 1, .transposed_block = kBlock128x128};
  Input input(1, 1, problem.input_dtype);
  input.set(0, 0, 3);
  for (Path path : all_paths()) {
    const ForeignCopies copies(problem);
    QuantizeArgs args = copies.args(input.view());
    for (TensorView* view : {&args.input, &args.out.values, &args.out.scales,
                             &args.transposed.values, &args.transposed.scales}) {
      view->strides[0] = view->strides[1] = kAny;
    }
    quantize_by(path, problem, args);
    EXPECT_EQ(copies.out.code(0, 0), 0x7E) << name(path);
    EXPECT_EQ(copies.transposed.code(0, 0), 0x7E) << name(path);
    EXPECT_EQ(copies.transposed.scale(0, 0), 3.0f / 448) << name(path);
  }
}

// Transposes `input` by hand, quantises it and compares with the transposed copy.
void expect_transposed(const QuantizeProblem& problem, Path path) {
  Input input(problem.rows, problem.cols, problem.input_dtype);
  fill(input);
  Input transposed_input(problem.cols, problem.rows, problem.input_dtype);
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c < problem.cols; ++c) transposed_input.set(c, r, input.at(r, c));
  }
  const ForeignCopies copies(problem);
  quantize_by(path, problem, copies.args(input.view()));
  QuantizeProblem by_hand = problem;
  by_hand.rows = problem.cols;
  by_hand.cols = problem.rows;
  by_hand.block = problem.transposed_block;
  by_hand.transposed_block = std::nullopt;
  const ForeignCopies wanted(by_hand);
  quantize_by(Path::reference, by_hand, wanted.args(transposed_input.view()));
  EXPECT_TRUE(copies.transposed.values() == wanted.out.values())
      << name(path) << ": " << describe(problem);
  EXPECT_TRUE(copies.transposed.scale_bits() == wanted.out.scale_bits())
      << name(path) << ": " << describe(problem);
}

TEST(QuantizeLayout, TheTransposedCopyIsTheQuantisedTranspose) {
  for (Path path : all_paths()) {
    for (BlockShape block : kBlocks) {
      for (BlockShape transposed_block : kBlocks) {
        QuantizeProblem problem{
            .rows = 131, .cols = 270, .block = block, .transposed_block = transposed_block};
        expect_transposed(problem, path);
      }
    }
  }
}

TEST(QuantizeLayout, WeightsShareTheirBytesAndScales) {
  QuantizeProblem problem{
      .rows = 300, .cols = 200, .block = kBlock128x128, .transposed_block = kBlock128x128};
  Input input(problem.rows, problem.cols, problem.input_dtype);
  fill(input);
  for (Path path : all_paths()) {
    const ForeignCopies copies(problem);
    quantize_by(path, problem, copies.args(input.view()));
    for (std::int64_t r = 0; r < problem.rows; ++r) {
      for (std::int64_t c = 0; c < problem.cols; ++c) {
        ASSERT_EQ(copies.out.code(r, c), copies.transposed.code(c, r)) << name(path);
        ASSERT_EQ(copies.out.scale(r / kBlock, c / kBlock),
                  copies.transposed.scale(c / kBlock, r / kBlock))
            << name(path);
      }
    }
  }
}

}  // namespace
}  // namespace octet
