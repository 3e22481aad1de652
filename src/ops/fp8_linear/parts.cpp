#include "ops/fp8_linear/parts.hpp"

#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/forms.hpp"

#include <array>

namespace octet {
namespace {

struct Operands {
  GemmOperand a;
  GemmOperand b;
};

// The products of a layer, each with its operands.
LinearProducts linear_products(const Fp8LinearProblem& layer, const Operands& y, const Operands& dx,
                               const Operands& dw) {
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k,
                           const Operands& operands) {
    GemmProblem result;
    result.m = m;
    result.n = n;
    result.k = k;
    result.a = operands.a;
    result.b = operands.b;
    result.out_dtype = layer.dtype;
    result.max_multiprocessors = layer.max_multiprocessors;
    result.device = layer.device;
    return result;
  };
  const auto [m, n, k] = std::array{layer.m, layer.n, layer.k};
  LinearProducts products{product(m, n, k, y), product(m, k, n, dx), product(n, k, m, dw)};
  products.y.bias_dtype = layer.bias_dtype;
  products.dw.out_dtype = layer.dw_dtype;
  products.dw.accumulate = layer.accumulate_dw;
  return products;
}

std::optional<BlockShape> block_if(bool wanted, BlockShape block) {
  return wanted ? std::optional(block) : std::nullopt;
}

QuantizeProblem cast_of(const Fp8LinearProblem& layer, std::int64_t rows, std::int64_t cols,
                        Dtype format, std::optional<BlockShape> block,
                        std::optional<BlockShape> transposed_block) {
  QuantizeProblem cast =
      quantize_problem({format, block, transposed_block, layer.amax_floor, layer.pow2_scales}, rows,
                       cols, layer.dtype, layer.device);
  cast.fold_mx = layer.granularity == Granularity::mxfp8;
  cast.mx_scale = layer.mx_scale;
  return cast;
}

void check_granularity(std::string_view op, const Fp8LinearProblem& layer) {
  const Granularity granularity = layer.granularity;
  if (name(granularity).empty()) {
    refuse_argument(op,
                    ": granularity must be blockwise (0), tensorwise (1), rowwise (2) or mxfp8 ",
                    "(3), got ", static_cast<std::int32_t>(granularity));
  }
  if (has_end_scales(layer) && layer.wgrad_blocks != WgradBlocks::rows) {
    refuse_argument(op, ": wgrad_blocks = square needs granularity blockwise or mxfp8, got ",
                    name(granularity), ", which has no blocks of 128; leave it at rows");
  }
  if (layer.fast_accumulation && !has_end_scales(layer)) {
    fail(ErrorCode::unsupported, op,
         ": fast_accumulation needs granularity tensorwise or rowwise, ",
         "whose scales are applied at the end of a product, got ", name(granularity));
  }
  const bool mx = granularity == Granularity::mxfp8;
  if (mx && (layer.amax_floor != 0 || layer.pow2_scales)) {
    refuse_argument(op, ": granularity mxfp8 has no ",
                    layer.pow2_scales ? "pow2_scales: its scales are powers of two"
                                      : "amax_floor: its scales follow from the data alone",
                    "; leave it unset");
  }
  const auto mx_scale = static_cast<std::int32_t>(layer.mx_scale);
  if (mx_scale < 0 || mx_scale > static_cast<std::int32_t>(MxScale::up)) {
    refuse_argument(op, ": mx_scale must be 0 (floor), 1 (even) or 2 (up), got ", mx_scale);
  }
  if (layer.mx_scale != MxScale::floor && !mx) {
    refuse_argument(op, ": mx_scale = ", name(layer.mx_scale), " needs granularity mxfp8, got ",
                    name(granularity));
  }
}

}  // namespace

LinearProducts fp8_products(const Fp8LinearProblem& layer) {
  const GemmOperand x{layer.format, activation_block(layer)};
  const GemmOperand x_t{layer.format, x_t_block(layer)};
  const GemmOperand w{layer.format, weight_block(layer)};
  const GemmOperand dy{layer.grad_format, activation_block(layer)};
  LinearProducts products = linear_products(layer, {x, w}, {dy, w}, {dy, x_t});
  for (GemmProblem* product : {&products.y, &products.dx, &products.dw}) {
    product->fast_accumulation = layer.fast_accumulation;
  }
  return products;
}

LinearProducts plain_products(const Fp8LinearProblem& layer) {
  const GemmOperand stored{layer.dtype, {}, Major::k};
  const GemmOperand viewed{layer.dtype, {}, Major::mn};
  return linear_products(layer, {stored, stored}, {stored, viewed}, {viewed, viewed});
}

QuantizeProblem cast_of_x(const Fp8LinearProblem& layer) {
  return cast_of(layer, layer.m, layer.k, layer.format, activation_block(layer),
                 block_if(saves_x(layer), x_t_block(layer)));
}

QuantizeProblem cast_of_w(const Fp8LinearProblem& layer) {
  return cast_of(layer, layer.n, layer.k, layer.format, weight_block(layer),
                 block_if(saves_w(layer), weight_block(layer)));
}

QuantizeProblem cast_of_dy(const Fp8LinearProblem& layer) {
  const BlockShape block = activation_block(layer);
  return cast_of(layer, layer.m, layer.n, layer.grad_format, block_if(layer.need_dx, block),
                 block_if(layer.need_dw, block));
}

QuantizedLayout out_layout(const QuantizeProblem& cast) {
  if (!cast.block) return {};
  return {cast.rows, cast.cols, cast.format, *cast.block};
}

QuantizedLayout transposed_layout(const QuantizeProblem& cast) {
  if (!cast.transposed_block) return {};
  return {cast.cols, cast.rows, cast.format, *cast.transposed_block};
}

void check_numerics(std::string_view op, const Fp8LinearProblem& layer) {
  check_float({op, "dtype"}, layer.dtype);
  check_fp8({op, "format"}, layer.format);
  check_fp8({op, "grad_format"}, layer.grad_format);
  check_float({op, "dw_dtype"}, layer.dw_dtype);
  if (layer.accumulate_dw && layer.dw_dtype == Dtype::f16) {
    fail(ErrorCode::unsupported, op, ": accumulate_dw needs an f32 or bf16 dw, got f16");
  }
  if (layer.wgrad_blocks != WgradBlocks::rows && layer.wgrad_blocks != WgradBlocks::square) {
    refuse_argument(op, ": wgrad_blocks must be rows (1) or square (2), got ",
                    static_cast<std::int32_t>(layer.wgrad_blocks));
  }
  check_amax_floor(op, layer.amax_floor);
  check_granularity(op, layer);
  check_count(op, "max_multiprocessors", layer.max_multiprocessors);
}

void check_trains(std::string_view op, std::string_view layer, bool training,
                  bool weights_quantized) {
  if (training && !weights_quantized) return;
  refuse_argument(op, ": ", layer, " needs training = true and weights_quantized = false, got ",
                  training ? "true" : "false", " and ", weights_quantized ? "true" : "false",
                  "; plan_", op, "_forward() takes the others");
}

void check_has_saved(std::string_view op, bool has_saved) {
  if (!has_saved) refuse_argument(op, "_backward: no forward of this layer has run before it");
}

QuantizedTensor allocate(const QuantizedLayout& layout, Device device, const Allocator& allocator) {
  if (layout.bytes == 0) return {};
  return {layout.rows, layout.cols, layout.dtype, layout.block, device, allocator};
}

}  // namespace octet
