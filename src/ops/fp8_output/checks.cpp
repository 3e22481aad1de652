#include "ops/fp8_output/checks.hpp"

#include "core/checks.hpp"
#include "core/message.hpp"

namespace octet {
namespace {

void check_block(std::string_view op, const char* option, const std::optional<BlockShape>& block) {
  if (!block) return;
  if (!(*block == kBlock1x128 || *block == kBlock128x1 || *block == kBlock128x128)) {
    fail(ErrorCode::unsupported, op, ": ", option, " must be 1x128, 128x1 or 128x128, got ",
         name(*block));
  }
}

}  // namespace

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
  check_block(op, "block", fp8.block);
  check_block(op, "transposed_block", fp8.transposed_block);
  check_amax_floor(op, fp8.amax_floor);
}

void check_fp8_copies(std::string_view op, const Fp8Output& fp8, const Fp8Copies& copies,
                      std::int64_t rows, std::int64_t cols, Device device, const Fp8Names& names) {
  if (fp8.block) {
    check_quantized({op, names.out}, copies.out, fp8.format, rows, cols, *fp8.block, device,
                    Pitch::aligned16, names.out_shape);
  }
  if (fp8.transposed_block) {
    check_quantized({op, names.transposed}, copies.transposed, fp8.format, cols, rows,
                    *fp8.transposed_block, device, Pitch::aligned16, names.transposed_shape);
  }
}

Fp8Copies wanted_copies(const Fp8Output& fp8, const Fp8Copies& copies) {
  return {fp8.block ? copies.out : QuantizedView(),
          fp8.transposed_block ? copies.transposed : QuantizedView()};
}

QuantizeProblem quantize_problem(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols,
                                 Dtype input, Device device) {
  QuantizeProblem result;
  result.rows = rows;
  result.cols = cols;
  result.input = input;
  result.format = fp8.format;
  result.block = fp8.block;
  result.transposed_block = fp8.transposed_block;
  result.amax_floor = fp8.amax_floor;
  result.pow2_scales = fp8.pow2_scales;
  result.device = device;
  return result;
}

}  // namespace octet
