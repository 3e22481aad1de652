// Where the values, scales and padding of a quantised tensor lie.
#include <octet/quantized.hpp>

#include "core/views.hpp"

#include <octet/error.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace octet {
namespace {

struct LayoutCase {
  std::int64_t rows;
  std::int64_t cols;
  BlockShape block;
};

void PrintTo(const LayoutCase& layout, std::ostream* stream) {
  *stream << layout.rows << "x" << layout.cols << " in " << name(layout.block) << " blocks";
}

std::vector<LayoutCase> layout_cases() {
  std::vector<LayoutCase> cases;
  for (std::int64_t rows : {1, 3, 4, 5, 127, 128, 129, 257}) {
    for (std::int64_t cols : {1, 15, 16, 127, 128, 129, 257, 513}) {
      for (BlockShape block : {kBlock1x128, kBlock128x1, kBlock128x128}) {
        cases.push_back({rows, cols, block});
      }
    }
  }
  return cases;
}

class Layout : public testing::TestWithParam<LayoutCase> {};
INSTANTIATE_TEST_SUITE_P(AllTails, Layout, testing::ValuesIn(layout_cases()));

// Marks every byte that an element of the view may touch; a byte with two owners is an overlap.
void claim(std::vector<int>& owners, const char* memory, const TensorView& view, int owner) {
  const int size = size_bytes(view.dtype);
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    for (std::int64_t c = 0; c < view.cols(); ++c) {
      const std::int64_t element = r * view.strides[0] + c * view.strides[1];
      const std::int64_t begin = static_cast<char*>(view.data) - memory + element * size;
      ASSERT_GE(begin, 0);
      ASSERT_LE(begin + size, static_cast<std::int64_t>(owners.size()));
      for (std::int64_t byte = begin; byte < begin + size; ++byte) {
        ASSERT_EQ(owners[byte], 0) << "byte " << byte << " at (" << r << ", " << c << ")";
        owners[byte] = owner;
      }
    }
  }
}

TEST_P(Layout, NoTwoElementsShareAByteAndAllLieInside) {
  const auto [rows, cols, block] = GetParam();
  const QuantizedLayout layout(rows, cols, Dtype::e4m3, block);
  alignas(kAlignment) static char memory[1 << 20];
  ASSERT_LE(layout.bytes, sizeof memory);
  const QuantizedView view = layout.view(memory);
  std::vector<int> owners(layout.bytes);
  claim(owners, memory, view.values, 1);
  claim(owners, memory, view.scales, 2);
}

TEST_P(Layout, RowsAndScalesStartOnTheirBoundaries) {
  const auto [rows, cols, block] = GetParam();
  const QuantizedLayout layout(rows, cols, Dtype::e5m2, block);
  EXPECT_EQ(layout.pitch % 128, 0);
  EXPECT_GE(layout.pitch, cols);
  EXPECT_LT(layout.pitch, cols + 128);
  EXPECT_EQ(layout.scales_offset % kAlignment, 0u);
  EXPECT_EQ(layout.bytes % kAlignment, 0u);
  const int contiguous = block == kBlock1x128 ? 0 : 1;
  EXPECT_EQ(layout.scale_strides[contiguous], 1);
  EXPECT_EQ(layout.scale_strides[1 - contiguous] % 4, 0) << "lines of scales are padded to 4";
  EXPECT_LT(layout.scale_strides[1 - contiguous], layout.scale_shape[contiguous] + 4);
}

TEST_P(Layout, HasOneScalePerBlock) {
  const auto [rows, cols, block] = GetParam();
  const QuantizedLayout layout(rows, cols, Dtype::e4m3, block);
  EXPECT_EQ(layout.scale_shape[0], (rows + block.rows - 1) / block.rows);
  EXPECT_EQ(layout.scale_shape[1], (cols + block.cols - 1) / block.cols);
}

TEST(QuantizedLayout, IsAsTheHeaderSays) {
  const QuantizedLayout rows(5, 300, Dtype::e4m3, kBlock1x128);
  EXPECT_EQ(rows.pitch, 384);
  EXPECT_EQ(rows.scale_strides[1], 8) << "[ceil(300/128)][5 padded to 4]";
  const QuantizedLayout columns(300, 5, Dtype::e4m3, kBlock128x1);
  EXPECT_EQ(columns.scale_strides[0], 8) << "[ceil(300/128)][5 padded to 4]";
  const QuantizedLayout square(300, 700, Dtype::e4m3, kBlock128x128);
  EXPECT_EQ(square.scale_strides[0], 8) << "[ceil(300/128)][ceil(700/128) padded to 4]";
}

TEST(QuantizedLayout, SizesBeyondTwoToTheThirtyOneAreExact) {
  const std::int64_t rows = 3'000'000'001;
  const std::int64_t cols = 5000;
  const QuantizedLayout layout(rows, cols, Dtype::e4m3, kBlock1x128);
  EXPECT_EQ(layout.pitch, 5120);
  EXPECT_EQ(layout.scale_strides[1], 3'000'000'004);
  const std::size_t values = 3'000'000'001ull * 5120;
  EXPECT_EQ(layout.scales_offset, (values + 255) / 256 * 256);
  const std::size_t scales = 40ull * 3'000'000'004 * 4;
  EXPECT_EQ(layout.bytes, layout.scales_offset + (scales + 255) / 256 * 256);
}

TEST(QuantizedLayout, RefusesWhatCannotBeStored) {
  const auto code = [](std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block) {
    try {
      QuantizedLayout(rows, cols, dtype, block);
    } catch (const Error& error) {
      return static_cast<int>(error.code());
    }
    return 0;
  };
  const int invalid = static_cast<int>(ErrorCode::invalid_argument);
  EXPECT_EQ(code(0, 128, Dtype::e4m3, kBlock1x128), invalid);
  EXPECT_EQ(code(128, -1, Dtype::e4m3, kBlock1x128), invalid);
  EXPECT_EQ(code(128, 128, Dtype::bf16, kBlock1x128), invalid);
  EXPECT_EQ(code(INT64_MAX, INT64_MAX, Dtype::e4m3, kBlock1x128), invalid);
  EXPECT_EQ(code(1, INT64_MAX, Dtype::e4m3, kBlock1x128), invalid);
  EXPECT_EQ(code(std::int64_t{1} << 57, 1, Dtype::e4m3, kBlock1x128), invalid)
      << "small without its padding, too big with it";
  EXPECT_EQ(code(128, 128, Dtype::e4m3, {1, 64}), static_cast<int>(ErrorCode::unsupported));
}

// Every element and scale of a batch, matrix by matrix, in bytes of its own.
void expect_batch_apart(const QuantizedBatchLayout& layout) {
  alignas(kAlignment) static char memory[1 << 20];
  ASSERT_LE(layout.bytes, sizeof memory);
  const QuantizedView batch = layout.view(memory);
  std::vector<int> owners(layout.bytes);
  for (std::int64_t i = 0; i < layout.batch; ++i) {
    const QuantizedView one = matrix_of(batch, i);
    EXPECT_EQ(one.values.cols(), layout.cols);
    EXPECT_FALSE(one.owns_padding) << "it is the batch's";
    claim(owners, memory, one.values, 1);
    claim(owners, memory, one.scales, 2);
  }
}

TEST(QuantizedBatchLayout, NoTwoElementsShareAByteAndAllLieInside) {
  for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
    for (const std::int64_t rows : {1, 5, 128, 257}) {
      for (const std::int64_t cols : {1, 128, 300}) {
        expect_batch_apart({3, rows, cols, Dtype::e4m3, block});
      }
      for (const std::int64_t blocks : {1, 3, 4, 9}) {
        expect_batch_apart(QuantizedBatchLayout::token_blocks(blocks, rows, Dtype::e5m2, block));
      }
    }
  }
}

TEST(QuantizedBatchLayout, IsAsTheHeaderSays) {
  const QuantizedBatchLayout weights(3, 300, 700, Dtype::e4m3, kBlock128x128);
  EXPECT_EQ(weights.pitch, 768);
  EXPECT_EQ(weights.scale_strides[0], 24) << "[batch][ceil(300/128)][ceil(700/128) padded to 4]";
  EXPECT_EQ(weights.scale_strides[1], 8);
  const auto rows = QuantizedBatchLayout::token_blocks(9, 5, Dtype::e4m3, kBlock1x128);
  EXPECT_EQ(rows.pitch, 128);
  EXPECT_EQ(rows.scale_strides[0], 8) << "[block][5 padded to 4]";
  EXPECT_EQ(rows.scale_strides[1], 1);
  const auto square = QuantizedBatchLayout::token_blocks(9, 300, Dtype::e4m3, kBlock128x128);
  EXPECT_EQ(square.scale_strides[0], 1) << "[ceil(300/128)][9 padded to 4]";
  EXPECT_EQ(square.scale_strides[1], 12);
}

TEST(QuantizedView, DescribesValuesBlocksAndScales) {
  const QuantizedTensor tensor(512, 4096, Dtype::e4m3, kBlock128x128);
  EXPECT_EQ(describe(tensor.view()), "e4m3[512, 4096] with 128x128 blocks, scales [4, 32]");
  EXPECT_TRUE(tensor.view().owns_padding);
}

TEST(BlockShape, NamesRoundTrip) {
  for (BlockShape block :
       {kBlock1x128, kBlock128x1, kBlock128x128, kWholeTensor, BlockShape{1, kAll}}) {
    EXPECT_EQ(parse_block(name(block)), block) << name(block);
  }
  for (const char* text : {"", "x", "1x", "x128", "128", "0x128", "-1x128", "1x128x1", "1 x128"}) {
    EXPECT_EQ(parse_block(text), std::nullopt) << text;
  }
  EXPECT_EQ(name(kUnscaled), "unscaled");
  EXPECT_EQ(parse_block("unscaled"), std::nullopt) << "an option asks for a block";
}

}  // namespace
}  // namespace octet
