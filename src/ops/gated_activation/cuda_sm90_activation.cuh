// The activations of gated_activation.hpp and their derivatives, one element at a time.
// Exponentials and reciprocals are those of the special function unit, good to about 2^-22. They
// flush subnormals to zero, which does no harm: the result is added to one, or is an activation far
// below one.
#pragma once

#include "device/constant.hpp"
#include "device/ptx/arithmetic.cuh"

#include <octet/ops/gated_activation.hpp>

namespace octet::sm90 {

// 1 / (1 + exp(-x))
__device__ __forceinline__ float sigmoid(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return ptx::reciprocal_approx(__fadd_rn(1.0f, ptx::exp2_approx(-kLog2E * x)));
}

// act(g) and act'(g); the compiler drops the one that is not used.
struct Activated {
  float value;
  float slope;
};

template <GateActivation kActivation>
__device__ __forceinline__ Activated activate(float g) {
  if constexpr (kActivation == GateActivation::silu) {
    const float s = sigmoid(g);
    const float value = g * s;
    return {value, __fmaf_rn(value, 1.0f - s, s)};
  } else if constexpr (kActivation == GateActivation::gelu_tanh) {
    // (1 + tanh z) / 2 is the sigmoid of 2z.
    constexpr float kTwice = 1.5957691216057308f;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715f;
    const float square = g * g;
    const float s = sigmoid(kTwice * g * __fmaf_rn(kCubic, square, 1.0f));
    const float inner = kTwice * __fmaf_rn(3 * kCubic, square, 1.0f);
    const float value = g * s;
    // For large |g| the slope of the sigmoid underflows to zero, and so does its product with any
    // finite factor. (g - g) is zero, or NaN where g is not finite.
    const float sigmoid_slope = s * (1.0f - s);
    return {value, sigmoid_slope == 0.0f ? s + (g - g) : __fmaf_rn(g * inner, sigmoid_slope, s)};
  } else if constexpr (kActivation == GateActivation::gelu_erf) {
    constexpr float kRoot = 0.70710678118654752f;     // sqrt(1 / 2)
    constexpr float kDensity = 0.39894228040143268f;  // 1 / sqrt(2 pi)
    constexpr float kLog2E = 1.4426950408889634f;
    const float s = 0.5f * erfcf(-kRoot * g);
    const float density = kDensity * ptx::exp2_approx(-0.5f * kLog2E * g * g);
    return {g * s, density == 0.0f ? s + (g - g) : __fmaf_rn(g, density, s)};
  } else {
    const float positive = g <= 0.0f ? 0.0f : g;  // NaN stays NaN
    return {positive * positive, 2.0f * positive};
  }
}

// Calls body(Constant<activation>()), so that a thread branches once for many elements.
template <class Body>
__device__ __forceinline__ void with_activation(GateActivation activation, const Body& body) {
  switch (activation) {
    case GateActivation::silu: body(Constant<GateActivation::silu>()); break;
    case GateActivation::gelu_tanh: body(Constant<GateActivation::gelu_tanh>()); break;
    case GateActivation::gelu_erf: body(Constant<GateActivation::gelu_erf>()); break;
    case GateActivation::relu_squared: body(Constant<GateActivation::relu_squared>()); break;
  }
}

}  // namespace octet::sm90
