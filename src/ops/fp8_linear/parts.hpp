// The parts of a linear layer: its casts and products, for fp8_linear and for operators that
// contain such layers, and the state of fp8_linear's plans.
#pragma once

#include "ops/fp8_linear/bias_gradient.hpp"

#include <octet/ops/fp8_linear.hpp>
#include <octet/ops/gemm.hpp>
#include <octet/ops/quantize.hpp>

namespace octet {

// y[M, N] = x w^T,  dx[M, K] = dy w,  dw[N, K] = dy^T x
struct LinearProducts {
  GemmProblem y;
  GemmProblem dx;
  GemmProblem dw;
};

LinearProducts fp8_products(const Fp8LinearProblem& layer);
// The same products with operands in the layer's dtype; w^T, dy^T and x^T are views.
LinearProducts plain_products(const Fp8LinearProblem& layer);

// The casts. x is also transposed if dw needs it, w if dx needs it; dy is cast for the gradients
// that are requested.
QuantizeProblem cast_of_x(const Fp8LinearProblem& layer);
QuantizeProblem cast_of_w(const Fp8LinearProblem& layer);
QuantizeProblem cast_of_dy(const Fp8LinearProblem& layer);
// The layout of what a cast writes; 0 bytes if it does not write that copy.
QuantizedLayout out_layout(const QuantizeProblem& cast);
QuantizedLayout transposed_layout(const QuantizeProblem& cast);

// Whether scales are applied at the end of a product, not in every slice.
inline bool has_end_scales(const Fp8LinearProblem& layer) {
  return layer.granularity == Granularity::tensorwise || layer.granularity == Granularity::rowwise;
}
// The blocks of x, dy and dy^T, each along its own contraction.
inline BlockShape activation_block(const Fp8LinearProblem& layer) {
  if (!has_end_scales(layer)) return kBlock1x128;
  return layer.granularity == Granularity::rowwise ? kEachRow : kWholeTensor;
}
inline BlockShape weight_block(const Fp8LinearProblem& layer) {  // of w and of w^T
  return has_end_scales(layer) ? activation_block(layer) : kBlock128x128;
}
inline BlockShape x_t_block(const Fp8LinearProblem& layer) {
  return layer.wgrad_blocks == WgradBlocks::square ? kBlock128x128 : activation_block(layer);
}
inline bool saves_x(const Fp8LinearProblem& layer) { return layer.training && layer.need_dw; }
inline bool saves_w(const Fp8LinearProblem& layer) { return layer.training && layer.need_dx; }

// What the plans of fp8_linear hold: a fixed sequence of quantize and gemm plans, and where their
// operands lie in the workspace.
struct Fp8LinearForwardState {
  QuantizePlan quantize_x;
  std::optional<QuantizePlan> quantize_w;
  GemmPlan product;
  QuantizedLayout x_layout;
  QuantizedLayout w_layout;
};

struct Fp8LinearBackwardState {
  std::optional<QuantizePlan> quantize_dy;  // none if only dbias is computed
  std::optional<GemmPlan> dx_product;
  std::optional<GemmPlan> dw_product;
  QuantizedLayout dy_layout;
  QuantizedLayout dy_t_layout;
  std::optional<BiasGradient> dbias;
};

void check(const Fp8LinearProblem& problem);
// Checks everything but the extents and the device. Errors name `op`.
void check_numerics(std::string_view op, const Fp8LinearProblem& layer);

// Checks of the classes Fp8Linear and Fp8Mlp, named by `layer`: they train, cast their weights
// themselves, and run backward only after forward.
void check_trains(std::string_view op, std::string_view layer, bool training,
                  bool weights_quantized);
void check_has_saved(std::string_view op, bool has_saved);
// An empty tensor for a layout of 0 bytes.
QuantizedTensor allocate(const QuantizedLayout& layout, Device device, const Allocator& allocator);

}  // namespace octet
