// The feed-forward half of a layer in FP8, forward and backward, on the CPU: y = h w_down^T with
// h = relu(gate)^2 * up. With power-of-two scales these integers are exact in FP8, so the results can
// be checked by hand.
#include <octet/octet.hpp>

#include <algorithm>
#include <cstdio>

static octet::Tensor filled(std::int64_t rows, std::int64_t cols, float value) {
  octet::Tensor tensor(octet::Dtype::f32, {rows, cols});
  std::fill_n(static_cast<float*>(tensor.data()), rows * cols, value);
  return tensor;
}
static float first(const octet::Tensor& tensor) { return *static_cast<float*>(tensor.data()); }

int main() {
  const std::int64_t tokens = 4, features = 8, inputs = 16;
  octet::Fp8Mlp layer({.m = tokens,
                       .f = features,
                       .k = inputs,
                       .dtype = octet::Dtype::f32,
                       .activation = octet::GateActivation::relu_squared,
                       .dw_dtype = octet::Dtype::f32,
                       .pow2_scales = true});
  const octet::Tensor x = filled(tokens, inputs, 0.5f);
  const octet::Tensor w_gate_up = filled(2 * features, inputs, 0.25f);  // gate above up
  const octet::Tensor w_down = filled(inputs, features, 3);
  const octet::Tensor y = filled(tokens, inputs, 0), dy = filled(tokens, inputs, 1);
  const octet::Tensor dx = filled(tokens, inputs, 0), dw_down = filled(inputs, features, 0);
  const octet::Tensor dw_gate_up = filled(2 * features, inputs, 0);
  layer.forward(x, w_gate_up, w_down, y);       // gate = up = 2, h = 8
  layer.backward(dy, dx, dw_gate_up, dw_down);  // dh = 48, dgate = 48 * 2 * 4, dup = 48 * 4
  std::printf("y %g  dx %g  dw_gate_up %g  dw_down %g\n", first(y), first(dx), first(dw_gate_up),
              first(dw_down));  // y 192  dx 1152  dw_gate_up 768  dw_down 32
  const bool right = first(y) == 192 && first(dx) == 1152 && first(dw_gate_up) == 768;
  return right && first(dw_down) == 32 ? 0 : 1;
}
