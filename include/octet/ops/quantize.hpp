// quantize: 16- or 32-bit floats to block-scaled FP8, in either orientation or both, from one read.
//
//   per block:  a = max(amax over the finite values, amax_floor), exact in f32
//               a == 0:  s = scale = 1
//               else:    a = max(a, limit * 2^-126),  s = limit / a,  scale = a / limit
//               pow2_scales: scale is rounded up to a power of two, s = 1 / scale
//   values:     q = round_to_nearest_even(x * s), finite values saturate at limit (448 or 57344)
//               NaN -> 0x7F; infinities -> 0x7F in e4m3, 0x7C / 0xFC in e5m2
//
//   given_scales: scale is read from the copies, s = 1 / scale
//
//   1x32, 32x32 (mx): scale = 2^e, as ue8m0; a == 0: e = -127; else, with E = 8 (e4m3) or 15 (e5m2),
//               e = floor(log2(a)) - E, clamped to -127 .. 127 (OCP MX). MxScale::even rounds a to the
//               mantissa bits of the format first (ties away from zero); MxScale::up takes the smallest
//               e with a / 2^e <= limit. q = cast(x * 2^-e), as above
//   fold_mx:    1x128 and 128x128 copies hold the values of 1x32 and 32x32 blocks. With the largest e of
//               the blocks in one of 128, its scale is 2^e_max, f32, and
//               q' = round_to_nearest_even(q * 2^(e - e_max)): exact unless it falls below the normal
//               numbers of the format
//
//   input        [rows, cols]  f32, f16 or bf16; columns contiguous
//   out          [rows, cols]  FP8 with `block`: 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32, 32x32
//   transposed   [cols, rows]  FP8 with `transposed_block`, given in the coordinates of that copy
//
// So 1x128 along the columns is block = 1x128, 1x128 along the rows is transposed_block = 1x128 (or
// block = 128x1 if no transpose is needed), both together are "dual", and weights are 128x128 in
// both, which share their bytes and scales. Results are the same bits on every device, instruction
// set and thread count.
//
// A batch is several matrices of one shape, such as the weights of experts. Each is quantised by
// itself, as the operator would without a batch:
//
//   input        [batch, rows, cols]
//   out          [batch, rows, cols]  1x128 or 128x128
//   transposed   [batch, cols, rows]  1x128 or 128x128
//
// Groups are runs of rows of one buffer, such as the tokens of experts. A group table says where
// each begins (octet/ops/group_table.hpp), and no block has rows of two groups:
//
//   input        [rows, cols], or [source_rows, cols]: row r of the result is row source[r] of it;
//                with source_top_k, source has the slots of moe_maps, and it is row
//                source[r] / source_top_k
//   out          [rows, cols]  1x128
//   transposed   [max_token_blocks(groups, rows), cols, 128]  1x128 or 128x128, in token blocks:
//                each group begins a new block of 128 rows, and each block is a transposed matrix
//
// The token blocks of a group are the transposed copy of its rows alone, cut after every 128 rows;
// its last block is filled with zeros behind its last row. QuantizedBatchLayout::token_blocks lays
// them out. Blocks behind the last group's are not written, and `tail` says what becomes of rows of
// `out` behind the last group. Whether the padding of rows and blocks that are not written is
// cleared is not specified.
#pragma once

#include <octet/ops/group_table.hpp>
#include <octet/plan.hpp>
#include <octet/quantized.hpp>

#include <optional>

namespace octet {

// How the scale of an mx block follows from its largest magnitude.
enum class MxScale : std::int32_t { floor = 0, even = 1, up = 2 };

struct QuantizeProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype input_dtype = Dtype::bf16;
  Dtype format = Dtype::e4m3;
  std::optional<BlockShape> block = kBlock1x128;  // empty: no copy in the input's orientation
  std::optional<BlockShape> transposed_block{};   // empty: no transposed copy
  float amax_floor = 0;                           // 0 to 1e18
  bool pow2_scales = false;
  bool given_scales = false;          // scales of the copies are read, not written
  MxScale mx_scale = MxScale::floor;  // of mx blocks, and with fold_mx
  bool fold_mx = false;               // 1x128 and 128x128 copies of mx blocks
  std::int64_t batch = 0;             // matrices; 0: no batch, all tensors are matrices
  std::int64_t groups = 0;            // 1 to 1024 groups of at most 2^30 rows; 0: no groups
  std::int64_t source_rows = 0;      // with groups, rows of an input that is gathered; 0: it is not
  std::int64_t source_top_k = 0;     // slots of each row of that input; 0: source has its rows
  GroupTail tail = GroupTail::zero;  // with groups
  Device device{};
};

// Shapes of a batch and of groups are at the head of this file.
struct QuantizeArgs {
  TensorView input;          // [rows, cols]
  QuantizedView out;         // [rows, cols]; ignored without a block
  QuantizedView transposed;  // [cols, rows]; ignored without a transposed_block
  TensorView table{};        // with groups: the table of as many groups and rows
  // With source_rows: [rows], i32, contiguous. Entries of rows behind the last group are not read.
  // The others must be 0 to source_rows - 1, or to source_rows * source_top_k - 1; on the CPU one
  // that is not is an error, and nothing is written; on CUDA its row is NaN.
  TensorView source{};
};

using QuantizePlan = Plan<QuantizeProblem>;

// "quantize --shape 512x4096 --dtype bf16 --format e4m3 --block 1x128 --device cpu"; with groups,
// "--groups 8 --source-rows 64 --source-top-k 4 --tail untouched" after the shape
OCTET_API std::string describe(const QuantizeProblem& problem);
OCTET_API QuantizePlan plan_quantize(const QuantizeProblem& problem, const PlanOptions& = {});
OCTET_API void run(const QuantizePlan& plan, const QuantizeArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

}  // namespace octet
