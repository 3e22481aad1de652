// linear: y = x w^T, dx = dy w, dw = dy^T x, with the casts to FP8 inside.
//
// x and w may be given in FP8 as well: x by the operator that made it, w where it is cast once per
// step of the optimiser. Then x is only looked at for its shape, and w not at all.
// Saved between the passes: x^T in FP8, an output of forward or given, and w itself. Backward casts
// w^T again, which gives the same bits as a copy made in forward and does not keep one byte per
// weight alive per call.
#include "torch/error.hpp"
#include "torch/layer.hpp"

namespace octet_torch {

namespace {

// (x, x_values, x_scales, x_t, x_t_scales, w, w_values, w_scales, w_t, w_t_scales, main_grad,
//  accumulate, format, grad_format, wgrad, save_x, bias, source, g, eps) -> y, x_t, x_t_scales
// source, g and eps are what backward makes x^T of where it is not saved.
void linear_forward(StackValue* stack) {
  const Tensor x(stack[0]), w(stack[5]);
  Quantized given_x{optional_at(stack, 1), optional_at(stack, 2)};
  const Quantized given_x_t{optional_at(stack, 3), optional_at(stack, 4)};
  Quantized given_w{optional_at(stack, 6), optional_at(stack, 7)};
  const Quantized given_w_t{optional_at(stack, 8), optional_at(stack, 9)};  // for backward
  const Tensor main_grad = optional_at(stack, 10);                          // for backward
  const Recipe recipe(stack, 12);
  const Scaling scaling = recipe.scaling();
  const bool save_x = bool_at(stack, 15);
  const Tensor bias = optional_at(stack, 16);
  const Tensor source = optional_at(stack, 17), g = optional_at(stack, 18);  // for backward

  const octet_tensor x_view = view_of(x, "x", 2), w_view = view_of(w, "w", 2);
  const std::int64_t m = x_view.shape[0], n = w_view.shape[0], k = x_view.shape[1];
  check_shape(w_view, "w", "[N, K]", n, k);
  if (main_grad.get() != nullptr) main_grad_view(main_grad, "main_grad", "[N, K]", w_view);
  Copies cast_x;
  cast_x.row = given_fp8(std::move(given_x), m, k, recipe.format, scaling.rows(), "x");
  if (!cast_x.row) {
    cast_x = cast(x, "x", recipe.encoding(), scaling.rows(),
                  save_x ? scaling.transposed() : octet_no_copy(), Returned::column);
  }
  Fp8 cast_w = given_fp8(std::move(given_w), n, k, recipe.format, scaling.weights(), "w");
  if (!cast_w) cast_w = cast(w, "w", recipe.encoding(), scaling.weights(), octet_no_copy()).row;
  Tensor y = empty({m, n}, torch_dtype(x_view.dtype), x);
  multiply(cast_x.row, cast_w, view_of(y, "y"),
           {.fast_accumulation = scaling.fast_accumulation(), .bias = &bias}, x);
  stack[0] = y.release();
  cast_x.column.release(&stack[1], &stack[2], x);
}

struct Gradients {
  Tensor dx;  // [M, K], or absent
  Tensor dw;  // [N, K], or absent
};

// (dy, x_t, x_t_scales, w, w_t, w_t_scales) are stack[0] to stack[5]. With main_grad dw is written
// there, or added to it, and not returned.
Gradients backward(const StackValue* stack, const Tensor* main_grad, bool accumulate,
                   const Recipe& recipe, bool need_dx, bool need_dw) {
  const Tensor dy(stack[0]), w(stack[3]);
  Quantized given_x_t{optional_at(stack, 1), optional_at(stack, 2)};
  Quantized given_w_t{optional_at(stack, 4), optional_at(stack, 5)};
  const octet_tensor dy_view = view_of(dy, "dy", 2), w_view = view_of(w, "w", 2);
  const std::int64_t m = dy_view.shape[0], n = w_view.shape[0], k = w_view.shape[1];
  check_shape(dy_view, "dy", "[M, N]", m, n);
  const Scaling scaling = recipe.scaling();
  const bool fast = scaling.fast_accumulation();
  const std::int32_t dtype = torch_dtype(dy_view.dtype);
  Gradients out{need_dx ? empty({m, k}, dtype, dy) : absent(dtype, dy),
                need_dw && main_grad == nullptr ? empty({n, k}, dtype, dy) : absent(dtype, dy)};
  // Everything is looked at before main_grad is written.
  octet_tensor dw{};
  Fp8 x_t;
  if (need_dw) {
    dw = main_grad != nullptr ? main_grad_view(*main_grad, "main_grad", "[N, K]", w_view)
                              : view_of(out.dw, "dw");
    x_t = given_fp8(std::move(given_x_t), k, m, recipe.format, scaling.transposed(), "x_t");
  }
  if (m == 0) {  // no tokens
    if (need_dw && !accumulate) set_to_zero(main_grad != nullptr ? *main_grad : out.dw);
    return out;
  }
  const Copies cast_dy =
      cast(dy, "dy", recipe.grad_encoding(), need_dx ? scaling.rows() : octet_no_copy(),
           need_dw ? scaling.rows() : octet_no_copy());
  if (need_dx) {
    Fp8 w_t = given_fp8(std::move(given_w_t), k, n, recipe.format, scaling.weights(), "w_t");
    if (!w_t) w_t = cast(w, "w", recipe.encoding(), octet_no_copy(), scaling.weights()).column;
    multiply(cast_dy.row, w_t, view_of(out.dx, "dx"), {.fast_accumulation = fast}, dy);
  }
  if (need_dw) {
    multiply(cast_dy.column, x_t, dw, {.accumulate = accumulate, .fast_accumulation = fast}, dy);
  }
  return out;
}

// (..., format, grad_format, wgrad, need_dx, need_dw) -> dx, dw
void linear_backward(StackValue* stack) {
  Gradients out =
      backward(stack, nullptr, false, Recipe(stack, 6), bool_at(stack, 9), bool_at(stack, 10));
  stack[0] = out.dx.release();
  stack[1] = out.dw.release();
}

// (..., main_grad, accumulate, format, grad_format, wgrad, need_dx) -> dx
void linear_backward_main_grad(StackValue* stack) {
  const Tensor main_grad(stack[6]);
  Gradients out =
      backward(stack, &main_grad, bool_at(stack, 7), Recipe(stack, 8), bool_at(stack, 11), true);
  stack[0] = out.dx.release();
}

// accumulate: dw is added to main_grad; otherwise it overwrites it.
// format, grad_format: e4m3 (4) or e5m2 (5). wgrad: how scales are shared, the number of a Scaling.
constexpr Operator kOperators[] = {
    {"linear_forward(Tensor x, Tensor? x_values, Tensor? x_scales, Tensor? x_t, "
     "Tensor? x_t_scales, Tensor w, Tensor? w_values, Tensor? w_scales, Tensor? w_t, "
     "Tensor? w_t_scales, Tensor? main_grad, bool accumulate, int format, int grad_format, "
     "int wgrad, bool save_x, Tensor? bias, Tensor? source, Tensor? g, float eps) -> "
     "(Tensor y, Tensor x_t, Tensor x_t_scales)",
     &boxed<linear_forward>},
    {"linear_backward(Tensor dy, Tensor? x_t, Tensor? x_t_scales, Tensor w, Tensor? w_t, "
     "Tensor? w_t_scales, int format, int grad_format, int wgrad, bool need_dx, bool need_dw) -> "
     "(Tensor dx, Tensor dw)",
     &boxed<linear_backward>},
    {"linear_backward_main_grad(Tensor dy, Tensor? x_t, Tensor? x_t_scales, Tensor w, Tensor? w_t, "
     "Tensor? w_t_scales, Tensor(a!) main_grad, bool accumulate, int format, int grad_format, "
     "int wgrad, bool need_dx) -> Tensor dx",
     &boxed<linear_backward_main_grad>},
};

}  // namespace

Operators linear_operators() { return kOperators; }

}  // namespace octet_torch
