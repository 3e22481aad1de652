#include <octet/quantized.hpp>

#include "core/block_scales.hpp"
#include "core/checks.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <charconv>

namespace octet {
namespace {

constexpr std::int64_t kScalePadding = 4;  // floats: one 16-byte load

}  // namespace

std::string name(BlockShape block) {
  if (block == kUnscaled) return "unscaled";
  const auto extent = [](std::int64_t value) {
    return value == kAll ? std::string("all") : std::to_string(value);
  };
  return extent(block.rows) + "x" + extent(block.cols);
}

std::optional<BlockShape> parse_block(std::string_view text) {
  const std::size_t cross = text.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const auto extent = [](std::string_view part) -> std::optional<std::int64_t> {
    if (part == "all") return kAll;
    std::int64_t value = 0;
    const auto result = std::from_chars(part.data(), part.data() + part.size(), value);
    if (result.ec != std::errc{} || result.ptr != part.data() + part.size() || value < 1) {
      return std::nullopt;
    }
    return value;
  };
  const auto rows = extent(text.substr(0, cross));
  const auto cols = extent(text.substr(cross + 1));
  if (!rows || !cols) return std::nullopt;
  return BlockShape{*rows, *cols};
}

std::string describe(const QuantizedView& view) {
  if (view.scales.data == nullptr) return describe(view.values);
  return text(describe(view.values), " with ", name(view.block), " blocks, scales ",
              describe_shape(view.scales));
}

QuantizedLayout::QuantizedLayout(std::int64_t rows_, std::int64_t cols_, Dtype dtype_,
                                 BlockShape block_)
    : rows(rows_), cols(cols_), dtype(dtype_), block(block_) {
  constexpr std::string_view kOp = "quantized layout";
  check_extent(kOp, "rows", rows);
  check_extent(kOp, "cols", cols);
  check_size(kOp, rows, cols, Dtype::f32);
  check_fp8({kOp, "dtype"}, dtype);
  check_any_block(kOp, "blocks", block);
  pitch = round_up(cols, kBlock);
  scale_shape[0] = blocks_along(rows, block.rows);
  scale_shape[1] = blocks_along(cols, block.cols);
  const int contiguous = block == kBlock1x128 || is_whole_row(block) ? 0 : 1;
  scale_strides[contiguous] = 1;
  scale_strides[1 - contiguous] = round_up(scale_shape[contiguous], kScalePadding);
  check_size(kOp, rows, pitch, Dtype::f32);
  const std::int64_t scale_count = scale_shape[1 - contiguous] * scale_strides[1 - contiguous];
  scales_offset = static_cast<std::size_t>(round_up(rows * pitch, kAlignment));
  bytes = scales_offset + static_cast<std::size_t>(
                              round_up(scale_count * size_bytes(scale_dtype(block)), kAlignment));
}

QuantizedView QuantizedLayout::view(void* memory, Device device) const {
  QuantizedView result;
  result.values = make_matrix(memory, dtype, rows, cols, pitch, device);
  result.scales = make_matrix(static_cast<char*>(memory) + scales_offset, scale_dtype(block),
                              scale_shape[0], scale_shape[1], scale_strides[0], device);
  result.scales.strides[1] = scale_strides[1];
  result.block = block;
  result.owns_padding = true;
  return result;
}

QuantizedBatchLayout::QuantizedBatchLayout(std::int64_t batch_, std::int64_t rows_,
                                           std::int64_t cols_, Dtype dtype_, BlockShape block_)
    : batch(batch_), rows(rows_), cols(cols_), dtype(dtype_), block(block_) {
  constexpr std::string_view kOp = "quantized layout";
  check_extent(kOp, "batch", batch);
  if (!(block == kBlock1x128 || block == kBlock128x128)) {
    fail(ErrorCode::unsupported, kOp, ": blocks of a batch must be 1x128 or 128x128, got ",
         name(block));
  }
  const QuantizedLayout one(rows, cols, dtype, block);
  pitch = one.pitch;
  const std::int64_t one_scales = std::max(one.scale_shape[0] * one.scale_strides[0],
                                           one.scale_shape[1] * one.scale_strides[1]);
  check_size(kOp, batch, rows * pitch, Dtype::f32);
  check_size(kOp, batch, one_scales, Dtype::f32);
  scale_shape[0] = batch;
  scale_strides[0] = one_scales;
  std::copy_n(one.scale_shape, 2, scale_shape + 1);
  std::copy_n(one.scale_strides, 2, scale_strides + 1);
  scales_offset = static_cast<std::size_t>(round_up(batch * rows * pitch, kAlignment));
  bytes = scales_offset + static_cast<std::size_t>(round_up(batch * one_scales * 4, kAlignment));
}

QuantizedBatchLayout QuantizedBatchLayout::token_blocks(std::int64_t blocks, std::int64_t features,
                                                        Dtype dtype, BlockShape block) {
  QuantizedBatchLayout layout(blocks, features, kBlock, dtype, block);
  if (block == kBlock128x128) {
    const std::int64_t line = round_up(blocks, kScalePadding);
    layout.scale_strides[0] = 1;
    layout.scale_strides[1] = line;
    layout.scale_strides[2] = line * layout.scale_shape[1];
    layout.bytes = layout.scales_offset +
                   static_cast<std::size_t>(round_up(layout.scale_strides[2] * 4, kAlignment));
  }
  return layout;
}

QuantizedView QuantizedBatchLayout::view(void* memory, Device device) const {
  QuantizedView result;
  result.values = make_view(memory, dtype, {batch, rows, cols}, device);
  result.values.strides = {rows * pitch, pitch, 1};
  result.scales = make_view(static_cast<char*>(memory) + scales_offset, Dtype::f32,
                            {scale_shape[0], scale_shape[1], scale_shape[2]}, device);
  std::copy_n(scale_strides, 3, result.scales.strides.begin());
  result.block = block;
  result.owns_padding = true;
  return result;
}

QuantizedTensor::QuantizedTensor(std::int64_t rows, std::int64_t cols, Dtype dtype,
                                 BlockShape block, Device device, const Allocator& allocator) {
  const QuantizedLayout layout(rows, cols, dtype, block);
  buffer_ = Buffer(layout.bytes, device, allocator);
  view_ = layout.view(buffer_.data(), device);
}

QuantizedTensor::QuantizedTensor(const QuantizedBatchLayout& layout, Device device,
                                 const Allocator& allocator)
    : buffer_(layout.bytes, device, allocator), view_(layout.view(buffer_.data(), device)) {}

}  // namespace octet
