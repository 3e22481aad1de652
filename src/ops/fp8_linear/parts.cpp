#include "ops/fp8_linear/parts.hpp"

#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/fp8_output/checks.hpp"

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
  return quantize_problem({format, block, transposed_block, layer.amax_floor, layer.pow2_scales},
                          rows, cols, layer.dtype, layer.device);
}

}  // namespace

LinearProducts fp8_products(const Fp8LinearProblem& layer) {
  const GemmOperand x{layer.format, kBlock1x128};
  const GemmOperand x_t{layer.format, x_t_block(layer)};
  const GemmOperand w{layer.format, kBlock128x128};
  const GemmOperand dy{layer.grad_format, kBlock1x128};
  return linear_products(layer, {x, w}, {dy, w}, {dy, x_t});
}

LinearProducts plain_products(const Fp8LinearProblem& layer) {
  const GemmOperand stored{layer.dtype, {}, Major::k};
  const GemmOperand viewed{layer.dtype, {}, Major::mn};
  return linear_products(layer, {stored, stored}, {stored, viewed}, {viewed, viewed});
}

QuantizeProblem cast_of_x(const Fp8LinearProblem& layer) {
  return cast_of(layer, layer.m, layer.k, layer.format, kBlock1x128,
                 block_if(saves_x(layer), x_t_block(layer)));
}

QuantizeProblem cast_of_w(const Fp8LinearProblem& layer) {
  return cast_of(layer, layer.n, layer.k, layer.format, kBlock128x128,
                 block_if(saves_w(layer), kBlock128x128));
}

QuantizeProblem cast_of_dy(const Fp8LinearProblem& layer) {
  return cast_of(layer, layer.m, layer.n, layer.grad_format, block_if(layer.need_dx, kBlock1x128),
                 block_if(layer.need_dw, kBlock1x128));
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
