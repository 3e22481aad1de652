// What operators that write FP8 check: the options, the copies they are given, and what their
// Hopper kernels refuse.
#pragma once

#include "core/call.hpp"
#include "core/checks.hpp"
#include "dispatch/implementation.hpp"

#include <octet/ops/fp8_output.hpp>
#include <octet/ops/quantize.hpp>

#include <string>
#include <string_view>

namespace octet {

// The names of the copies and of their shapes in messages.
struct Fp8Names {
  std::string_view out = "fp8.out";
  std::string_view transposed = "fp8.transposed";
  std::string_view out_shape = "[rows, cols]";
  std::string_view transposed_shape = "[cols, rows]";
};

// " --fp8 e4m3 --block 1x128 --transposed-block 1x128", with the other options if set.
std::string describe(const Fp8Output& fp8);
void check_fp8_output(std::string_view op, const Fp8Output& fp8);
// Refuses what the scales of mx blocks do not have, where a copy has such blocks.
void check_mx_scales(std::string_view op, const Fp8Output& fp8);
inline bool has_mx_block(const Fp8Output& fp8) {
  return (fp8.block && is_mx(*fp8.block)) || (fp8.transposed_block && is_mx(*fp8.transposed_block));
}
// Lists the requested copies of a [rows, cols] output, and clears the views of the others.
void write_fp8_copies(Call& call, const std::optional<Fp8Output>& fp8, Fp8Copies& copies,
                      std::int64_t rows, std::int64_t cols, const Fp8Names& names = {});

// The same for groups of rows: the blocks that groups leave, and the copies of the rows, where the
// transposed one has token blocks.
void check_fp8_groups(std::string_view op, const Fp8Output& fp8);
void write_fp8_groups(Call& call, const std::optional<Fp8Output>& fp8, Fp8Copies& copies,
                      std::int64_t groups, std::int64_t rows, std::int64_t cols,
                      const Fp8Names& names);

// The cast that follows the plain operator if it is not fused.
QuantizeProblem quantize_problem(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols,
                                 Dtype input, Device device);
// The options of a cast: what an operator that is fused with it writes.
Fp8Output options_of(const QuantizeProblem& cast);

// Why no fused implementation, which has some rows of the output at a time, writes the scales of these
// copies; empty for blocks of 128 and for a row-major copy with a scale per row.
std::string refuse_fused_scales(const Fp8Output& fp8);

// Why the Hopper kernels that write FP8 in tiles refuse a problem whose output is [rows, cols]; empty
// if they do not.
template <class Problem>
std::string refuse_fp8_on_hopper(const Problem& problem, std::int64_t rows, std::int64_t cols,
                                 const Machine& machine) {
  if (!problem.fp8) return "writes only FP8 output";
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (!is_16bit(problem.dtype)) {
    return text("takes bf16 and f16, the problem has ", name(problem.dtype));
  }
  if (problem.fp8->block == kBlock128x1 || problem.fp8->transposed_block == kBlock128x1) {
    return "128x1 blocks have no fused kernel: unfused casts after the operator";
  }
  if (std::string refusal = refuse_fused_scales(*problem.fp8); !refusal.empty()) return refusal;
  if (problem.fp8->block == kEachRow) return "row scales need whole rows, a block has a tile";
  if (ceil_div(rows, kBlock) > (std::int64_t{1} << 30) / ceil_div(cols, kBlock) - 1) {
    return "more than 2^30 tiles of 128x128";
  }
  return "";
}

// Why the Hopper kernels that write a row-major copy with a scale per row, and nothing else, refuse a
// problem whose output has problem.rows rows; empty if they do not.
template <class Problem>
std::string refuse_row_cast(const Problem& problem, const Machine& machine) {
  if (!problem.fp8) return "writes only FP8 output";
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (!is_16bit(problem.dtype)) {
    return text("takes bf16 and f16, the problem has ", name(problem.dtype));
  }
  if (std::string refusal = refuse_fused_scales(*problem.fp8); !refusal.empty()) return refusal;
  if (problem.fp8->block != kEachRow) return "writes scales of whole rows, blocks 1xall";
  if (problem.fp8->transposed_block) return "a transposed copy needs 128 rows, a block has one";
  return problem.rows >= std::int64_t{1} << 31 ? "2^31 rows or more" : "";
}

}  // namespace octet
