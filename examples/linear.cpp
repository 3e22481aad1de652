// One block-scaled FP8 linear layer, forward and backward, on the CPU.
// With power-of-two scales small integers are exact in FP8, so the results can be checked by hand.
#include <octet/octet.hpp>

#include <algorithm>
#include <cstdio>

int main() {
  // clang-format off
  // [readme]
  const std::int64_t tokens = 4, outputs = 8, inputs = 256;
  octet::Fp8Linear layer({.m = tokens, .n = outputs, .k = inputs,
                          .dtype = octet::Dtype::f32, .dw_dtype = octet::Dtype::f32,
                          .pow2_scales = true});
  octet::Tensor x(octet::Dtype::f32, {tokens, inputs}), w(octet::Dtype::f32, {outputs, inputs});
  octet::Tensor y(octet::Dtype::f32, {tokens, outputs}), dy(octet::Dtype::f32, {tokens, outputs});
  octet::Tensor dx(octet::Dtype::f32, {tokens, inputs}), dw(octet::Dtype::f32, {outputs, inputs});
  std::fill_n(static_cast<float*>(x.data()), tokens * inputs, 2.0f);
  std::fill_n(static_cast<float*>(w.data()), outputs * inputs, 7.0f);
  std::fill_n(static_cast<float*>(dy.data()), tokens * outputs, 1.0f);
  layer.forward(x, w, y);       // y  = x w^T
  layer.backward(dy, dx, dw);   // dx = dy w,  dw = dy^T x
  const auto first = [](const octet::Tensor& t) { return *static_cast<const float*>(t.data()); };
  std::printf("y %g  dx %g  dw %g\n", first(y), first(dx), first(dw));  // y 3584  dx 56  dw 8
  // [/readme]
  // clang-format on
  const bool right =
      first(y) == 2 * 7 * inputs && first(dx) == 7 * outputs && first(dw) == 2 * tokens;
  return right ? 0 : 1;
}
