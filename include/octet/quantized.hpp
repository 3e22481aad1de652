// Quantised tensors: FP8 values, their scales, and the shape of the block that shares a scale.
//
// x is recovered as value * scale. Scales are a logical matrix [ceil(rows/block.rows),
// ceil(cols/block.cols)]; its strides say how they lie in memory. Our own buffers use:
//   1x128:    [ceil(cols/128)][rows padded to 4], rows contiguous
//   128x1:    [ceil(rows/128)][cols padded to 4], cols contiguous
//   128x128:  [ceil(rows/128)][ceil(cols/128) padded to 4], cols contiguous
//   1xall, allxall: [1][rows of scales padded to 4]; allx1: [1][cols padded to 4]
//   1x32, 32x32 (mx): [rows of scales][ceil(cols/32) padded to 4], cols contiguous, ue8m0
// Scales are f32, those of mx blocks ue8m0.
// Values start on 16-byte boundaries, rows are padded to 128 bytes with zeros.
//
// Several matrices of one shape, such as the weights of experts, are one batch: a QuantizedView of
// values [batch, rows, cols] and scales [batch, ceil(rows/block.rows), ceil(cols/block.cols)].
#pragma once

#include <octet/buffer.hpp>
#include <octet/tensor.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace octet {

inline constexpr std::int64_t kBlock = 128;
inline constexpr std::int64_t kMxBlock = 32;

// The rows and columns of a tensor that share one scale.
struct BlockShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

inline constexpr std::int64_t kAll = -1;      // as rows or cols of a block: all of the tensor's
inline constexpr BlockShape kUnscaled{0, 0};  // no scales
inline constexpr BlockShape kWholeTensor{kAll, kAll};  // one scale
inline constexpr BlockShape kEachRow{1, kAll};         // a scale per row
inline constexpr BlockShape kEachColumn{kAll, 1};      // a scale per column
inline constexpr BlockShape kBlock1x128{1, kBlock};
inline constexpr BlockShape kBlock128x1{kBlock, 1};
inline constexpr BlockShape kBlock128x128{kBlock, kBlock};
inline constexpr BlockShape kBlock1x32{1, kMxBlock};
inline constexpr BlockShape kBlock32x32{kMxBlock, kMxBlock};

// Blocks of the OCP MX formats, whose scales are ue8m0.
constexpr bool is_mx(BlockShape block) { return block == kBlock1x32 || block == kBlock32x32; }
// Blocks whose scale does not change along a row, so that a product applies it once, at its end.
constexpr bool is_whole_row(BlockShape block) { return block == kEachRow || block == kWholeTensor; }
constexpr Dtype scale_dtype(BlockShape block) { return is_mx(block) ? Dtype::ue8m0 : Dtype::f32; }
// How many blocks `extent` rows or columns have, of `block` each or kAll.
constexpr std::int64_t blocks_along(std::int64_t extent, std::int64_t block) {
  return block == kAll ? 1 : (extent + block - 1) / block;
}

// "1x128", "1xall", "unscaled"
OCTET_API std::string name(BlockShape block);
OCTET_API std::optional<BlockShape> parse_block(std::string_view text);

struct QuantizedView {
  TensorView values;  // [rows, cols], e4m3 or e5m2; f32, f16 or bf16 if unscaled
  TensorView scales;  // [ceil(rows/block.rows), ceil(cols/block.cols)]; no data if unscaled
  BlockShape block{};
  // The bytes between the logical extents and the pitch belong to this view, so whoever writes the
  // view clears them (values to 0, scales to 1). Views made by QuantizedLayout own their padding.
  bool owns_padding = false;

  QuantizedView() = default;
  QuantizedView(const TensorView& unscaled) : values(unscaled) {}  // NOLINT: meant to convert
  QuantizedView(const TensorView& values_, const TensorView& scales_, BlockShape block_)
      : values(values_), scales(scales_), block(block_) {}
};

// "e4m3[512, 4096] with 128x128 blocks, scales [4, 32]"
OCTET_API std::string describe(const QuantizedView& view);

// Octet's layout of a quantised tensor in one piece of memory: values, then scales.
struct OCTET_API QuantizedLayout {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype dtype = Dtype::e4m3;
  BlockShape block{};
  std::int64_t pitch = 0;                  // bytes from one row of values to the next
  std::int64_t scale_shape[2] = {0, 0};    // logical
  std::int64_t scale_strides[2] = {0, 0};  // in elements
  std::size_t scales_offset = 0;           // bytes from the start of the values
  std::size_t bytes = 0;                   // values and scales together; 0: nothing to store

  QuantizedLayout() = default;
  // Throws Error if the block is not supported or the size exceeds 2^63.
  QuantizedLayout(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block);

  // The view over `memory`, which has `bytes` bytes and is aligned to kAlignment.
  QuantizedView view(void* memory, Device device = kCpu) const;
};

// The same for a batch of matrices: all values, then all scales. Each matrix is laid out as above.
struct OCTET_API QuantizedBatchLayout {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype dtype = Dtype::e4m3;
  BlockShape block{};
  std::int64_t pitch = 0;  // bytes from one row of values to the next; matrices follow one another
  std::int64_t scale_shape[3] = {0, 0, 0};    // logical
  std::int64_t scale_strides[3] = {0, 0, 0};  // in elements
  std::size_t scales_offset = 0;              // bytes from the start of the values
  std::size_t bytes = 0;                      // values and scales together; 0: nothing to store

  QuantizedBatchLayout() = default;
  // Throws Error if the block is not 1x128 or 128x128, or the size exceeds 2^63.
  QuantizedBatchLayout(std::int64_t batch, std::int64_t rows, std::int64_t cols, Dtype dtype,
                       BlockShape block);
  // Transposed copies of groups of rows: `blocks` matrices [features, 128 rows of one group]. With
  // 128x128 blocks, the scales of consecutive matrices are contiguous: [features / 128][blocks].
  static QuantizedBatchLayout token_blocks(std::int64_t blocks, std::int64_t features, Dtype dtype,
                                           BlockShape block);

  // The view over `memory`, which has `bytes` bytes and is aligned to kAlignment.
  QuantizedView view(void* memory, Device device = kCpu) const;
};

// An owning quantised tensor, or a batch of them, in our own layout.
class OCTET_API QuantizedTensor {
 public:
  QuantizedTensor() = default;
  QuantizedTensor(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block,
                  Device device = kCpu, const Allocator& allocator = {});
  explicit QuantizedTensor(const QuantizedBatchLayout& layout, Device device = kCpu,
                           const Allocator& allocator = {});

  const QuantizedView& view() const { return view_; }
  operator const QuantizedView&() const { return view_; }  // NOLINT: meant to convert

 private:
  Buffer buffer_;
  QuantizedView view_;
};

}  // namespace octet
