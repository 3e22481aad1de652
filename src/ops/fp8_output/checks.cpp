#include "ops/fp8_output/checks.hpp"

#include "core/block_scales.hpp"
#include "core/message.hpp"

namespace octet {
std::string describe(const Fp8Output& fp8) {
  std::string result =
      text(" --fp8 ", name(fp8.format), " --block ", fp8.block ? name(*fp8.block) : "none",
           " --transposed-block ", fp8.transposed_block ? name(*fp8.transposed_block) : "none");
  if (fp8.amax_floor != 0) result += " --amax-floor " + exact_text(fp8.amax_floor);
  if (fp8.pow2_scales) result += " --pow2-scales";
  return result;
}

void check_fp8_output(std::string_view op, const Fp8Output& fp8) {
  check_fp8({op, "format"}, fp8.format);
  if (!fp8.block && !fp8.transposed_block) {
    refuse_argument(op, ": block and transposed_block are both empty: there is nothing to write");
  }
  if (fp8.block) check_any_block(op, "block", *fp8.block);
  if (fp8.transposed_block) check_any_block(op, "transposed_block", *fp8.transposed_block);
  check_amax_floor(op, fp8.amax_floor);
  if (has_mx_block(fp8)) check_mx_scales(op, fp8);
}

void check_mx_scales(std::string_view op, const Fp8Output& fp8) {
  if (fp8.amax_floor == 0 && !fp8.pow2_scales) return;
  refuse_argument(op, ": scales of mx blocks are powers of two that follow from amax alone: ",
                  fp8.pow2_scales ? "pow2_scales" : "amax_floor", " does not go with them");
}

std::string refuse_fused_scales(const Fp8Output& fp8) {
  if (has_mx_block(fp8)) return "mx blocks are written by the quantiser alone: unfused runs it";
  if (fp8.block == kWholeTensor || fp8.transposed_block == kWholeTensor) {
    return "the scale of a whole tensor needs every row first: unfused casts after the operator";
  }
  if (fp8.block == kEachColumn || fp8.transposed_block == kEachRow) {
    return "column scales need every row first: unfused casts after the operator";
  }
  if (fp8.transposed_block == kEachColumn) {
    return "row scales go with the row-major copy only: unfused writes them transposed";
  }
  return "";
}

void write_fp8_copies(Call& call, const std::optional<Fp8Output>& fp8, Fp8Copies& copies,
                      std::int64_t rows, std::int64_t cols, const Fp8Names& names) {
  if (!fp8) {
    copies = {};
    return;
  }
  const BlockShape block = fp8->block.value_or(kUnscaled);
  const BlockShape transposed = fp8->transposed_block.value_or(kUnscaled);
  call.writes_if(fp8->block.has_value(), names.out, copies.out,
                 QuantizedForm{fp8->format, rows, cols, block, names.out_shape});
  call.writes_if(fp8->transposed_block.has_value(), names.transposed, copies.transposed,
                 QuantizedForm{fp8->format, cols, rows, transposed, names.transposed_shape});
}

void check_fp8_groups(std::string_view op, const Fp8Output& fp8) {
  if (fp8.block && *fp8.block != kBlock1x128) {
    fail(ErrorCode::unsupported, op, ": block must be 1x128 with groups, got ", name(*fp8.block),
         fp8.block->rows == kBlock ? ": a block of 128 rows would have rows of two groups" : "");
  }
  if (fp8.transposed_block && *fp8.transposed_block != kBlock1x128 &&
      *fp8.transposed_block != kBlock128x128) {
    fail(ErrorCode::unsupported, op,
         ": transposed_block must be 1x128 or 128x128 with groups, got ",
         name(*fp8.transposed_block));
  }
}

void write_fp8_groups(Call& call, const std::optional<Fp8Output>& fp8, Fp8Copies& copies,
                      std::int64_t groups, std::int64_t rows, std::int64_t cols,
                      const Fp8Names& names) {
  if (!fp8) {
    copies = {};
    return;
  }
  const BlockShape block = fp8->block.value_or(kUnscaled);
  const BlockShape transposed = fp8->transposed_block.value_or(kUnscaled);
  call.writes_if(fp8->block.has_value(), names.out, copies.out,
                 QuantizedForm{fp8->format, rows, cols, block, names.out_shape});
  call.writes_if(fp8->transposed_block.has_value(), names.transposed, copies.transposed,
                 QuantizedBatchForm{fp8->format, max_token_blocks(groups, rows), cols, kBlock,
                                    transposed, names.transposed_shape});
}

QuantizeProblem quantize_problem(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols,
                                 Dtype input, Device device) {
  QuantizeProblem result;
  result.rows = rows;
  result.cols = cols;
  result.input_dtype = input;
  result.format = fp8.format;
  result.block = fp8.block;
  result.transposed_block = fp8.transposed_block;
  result.amax_floor = fp8.amax_floor;
  result.pow2_scales = fp8.pow2_scales;
  result.device = device;
  return result;
}

Fp8Output options_of(const QuantizeProblem& cast) {
  return {cast.format, cast.block, cast.transposed_block, cast.amax_floor, cast.pow2_scales};
}

}  // namespace octet
