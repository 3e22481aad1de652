// gated_mlp: y = (silu(x Wg^T) * (x Wu^T)) Wd^T, FP8 between the two layers in both passes.
//
// gate | up = x W_gate_up^T is one product with Wg above Wu, and stays in the dtype of x for
// backward. h = silu(gate) * up is only written in FP8, and so is the gradient of gate | up: neither
// is read again by a cast. h^T is saved, or made again in backward from gate | up.
// Where one pass cannot write their scales (Scaling), h and that gradient exist in the dtype of x as
// well.
#include "torch/error.hpp"
#include "torch/swiglu.hpp"

#include <string>

namespace octet_torch {

namespace {

// The weights of both layers: w_gate_up [2F, K] and w_down [K, F].
struct Weights {
  Tensor gate_up, down;
  std::int64_t f = 0, k = 0;

  Weights(StackValue gate_up_value, StackValue down_value)
      : gate_up(gate_up_value), down(down_value) {}

  void check() {
    const octet_tensor view = view_of(gate_up, "w_gate_up", 2);
    if (view.shape[0] % 2 != 0) {
      refuse("octet: w_gate_up must be [2 F, K], got " + std::to_string(view.shape[0]) + " rows");
    }
    f = view.shape[0] / 2;
    k = view.shape[1];
    check_shape(view_of(down, "w_down", 2), "w_down", "[K, F]", k, f);
  }

  octet_tensor main_grad_of_gate_up(const Tensor& main_grad) const {
    return main_grad_view(main_grad, "main_grad_gate_up", "[2 F, K]",
                          view_of(gate_up, "w_gate_up"));
  }
  octet_tensor main_grad_of_down(const Tensor& main_grad) const {
    return main_grad_view(main_grad, "main_grad_down", "[K, F]", view_of(down, "w_down"));
  }
};

// The gradient of gate | up in FP8.
Copies activated_backward(const Tensor& dh, const Halves& halves, const Tensor& like,
                          const Recipe& recipe, bool row, bool column) {
  const Scaling scaling = recipe.scaling();
  if (scaling.is_blockwise()) {
    return swiglu_backward_in_fp8(dh, halves, like, recipe.grad_format, row, column);
  }
  return cast(swiglu_backward_of(dh, halves, like), "d_gate_up", recipe.grad_encoding(),
              row ? scaling.rows() : octet_no_copy(), column ? scaling.rows() : octet_no_copy());
}

// (x, x_values, x_scales, x_t, x_t_scales, w_gate_up, w_gate_up_values, w_gate_up_scales,
//  w_gate_up_t, w_gate_up_t_scales, w_down, w_down_values, w_down_scales, w_down_t,
//  w_down_t_scales, main_grad_gate_up, main_grad_down, accumulate, format, grad_format, wgrad, save,
//  save_x, save_h, source, g, eps)
// -> y, gate_up, x_t, x_t_scales, h_t, h_t_scales
void gated_mlp_forward(StackValue* stack) {
  const Tensor x(stack[0]);
  Quantized given_x{optional_at(stack, 1), optional_at(stack, 2)};
  const Quantized given_x_t{optional_at(stack, 3), optional_at(stack, 4)};  // for backward
  Weights weights(stack[5], stack[10]);
  Quantized given_gate_up{optional_at(stack, 6), optional_at(stack, 7)};
  const Quantized given_gate_up_t{optional_at(stack, 8), optional_at(stack, 9)};  // for backward
  Quantized given_down{optional_at(stack, 11), optional_at(stack, 12)};
  const Quantized given_down_t{optional_at(stack, 13), optional_at(stack, 14)};  // for backward
  const Tensor main_grad_gate_up = optional_at(stack, 15), main_grad_down = optional_at(stack, 16);
  const Recipe recipe(stack, 18);
  const Tensor source = optional_at(stack, 24), g = optional_at(stack, 25);  // for backward
  const bool save = bool_at(stack, 21), save_x = bool_at(stack, 22), save_h = bool_at(stack, 23);

  weights.check();
  if (main_grad_gate_up.get() != nullptr) weights.main_grad_of_gate_up(main_grad_gate_up);
  if (main_grad_down.get() != nullptr) weights.main_grad_of_down(main_grad_down);
  const octet_tensor x_view = view_of(x, "x", 2);
  const std::int64_t m = x_view.shape[0], f = weights.f, k = weights.k;
  check_shape(x_view, "x", "[M, K]", m, k);
  const Scaling scaling = recipe.scaling();
  const octet_block t_block = scaling.transposed(), w_block = scaling.weights();
  const bool fast = scaling.fast_accumulation();
  Copies in;
  in.row = given_fp8(std::move(given_x), m, k, recipe.format, scaling.rows(), "x");
  if (!in.row) {
    in = cast(x, "x", recipe.encoding(), scaling.rows(), save_x ? t_block : octet_no_copy(),
              Returned::column);
  }
  Fp8 w = given_fp8(std::move(given_gate_up), 2 * f, k, recipe.format, w_block, "w_gate_up");
  if (!w) w = cast(weights.gate_up, "w_gate_up", recipe.encoding(), w_block, octet_no_copy()).row;
  const std::int32_t dtype = torch_dtype(x_view.dtype);
  Tensor gate_up = empty({m, 2 * f}, dtype, x);
  multiply(in.row, w, view_of(gate_up, "gate_up"), {.fast_accumulation = fast}, x);
  Copies h = swiglu_in_fp8(halves_of(gate_up, "gate_up"), x, recipe.format, scaling, true, save_h);
  w = given_fp8(std::move(given_down), k, f, recipe.format, w_block, "w_down");
  if (!w) w = cast(weights.down, "w_down", recipe.encoding(), w_block, octet_no_copy()).row;
  Tensor y = empty({m, k}, dtype, x);
  multiply(h.row, w, view_of(y, "y"), {.fast_accumulation = fast}, x);
  if (!save) gate_up = absent(dtype, x);
  stack[0] = y.release();
  stack[1] = gate_up.release();
  in.column.release(&stack[2], &stack[3], x);
  h.column.release(&stack[4], &stack[5], x);
}

struct Gradients {
  Tensor dx, dw_gate_up, dw_down;
};

// (dy, gate_up, x_t, x_t_scales, h_t, h_t_scales, w_gate_up, w_gate_up_t, w_gate_up_t_scales, w_down,
// w_down_t, w_down_t_scales) are stack[0] to stack[11].
Gradients backward(const StackValue* stack, const Tensor* main_grads, bool accumulate,
                   const Recipe& recipe, bool need_dx, bool need_dw) {
  const Tensor dy(stack[0]), gate_up(stack[1]);
  Quantized given_x_t{optional_at(stack, 2), optional_at(stack, 3)};
  Quantized given_h_t{optional_at(stack, 4), optional_at(stack, 5)};
  Weights weights(stack[6], stack[9]);
  Quantized given_gate_up_t{optional_at(stack, 7), optional_at(stack, 8)};
  Quantized given_down_t{optional_at(stack, 10), optional_at(stack, 11)};

  weights.check();
  const octet_tensor dy_view = view_of(dy, "dy", 2);
  const std::int64_t m = dy_view.shape[0], f = weights.f, k = weights.k;
  check_shape(dy_view, "dy", "[M, K]", m, k);
  check_shape(view_of(gate_up, "gate_up", 2), "gate_up", "[M, 2 F]", m, 2 * f);
  const Halves halves = halves_of(gate_up, "gate_up");
  const Scaling scaling = recipe.scaling();
  const octet_block t_block = scaling.transposed(), w_block = scaling.weights();
  const bool fast = scaling.fast_accumulation();
  const std::int32_t dtype = torch_dtype(dy_view.dtype);
  const bool fresh = need_dw && main_grads == nullptr;
  Gradients out{need_dx ? empty({m, k}, dtype, dy) : absent(dtype, dy),
                fresh ? empty({2 * f, k}, dtype, dy) : absent(dtype, dy),
                fresh ? empty({k, f}, dtype, dy) : absent(dtype, dy)};
  // Everything is looked at before the main gradients are written.
  octet_tensor dw_gate_up{}, dw_down{};
  Fp8 x_t, h_t;
  if (need_dw) {
    dw_gate_up =
        fresh ? view_of(out.dw_gate_up, "dw_gate_up") : weights.main_grad_of_gate_up(main_grads[0]);
    dw_down = fresh ? view_of(out.dw_down, "dw_down") : weights.main_grad_of_down(main_grads[1]);
    if (given_x_t.values.get() == nullptr) refuse("octet: dw needs x_t");
    x_t = given_fp8(std::move(given_x_t), k, m, recipe.format, t_block, "x_t");
    h_t = given_fp8(std::move(given_h_t), f, m, recipe.format, t_block, "h_t");
  }
  if (m == 0) {  // no tokens
    if (need_dw && !accumulate) {
      set_to_zero(fresh ? out.dw_gate_up : main_grads[0]);
      set_to_zero(fresh ? out.dw_down : main_grads[1]);
    }
    return out;
  }

  Copies cast_dy = cast(dy, "dy", recipe.grad_encoding(), scaling.rows(),
                        need_dw ? scaling.rows() : octet_no_copy());
  Tensor dh = empty({m, f}, dtype, dy);
  {
    Fp8 w_t = given_fp8(std::move(given_down_t), f, k, recipe.format, w_block, "w_down_t");
    if (!w_t)
      w_t = cast(weights.down, "w_down", recipe.encoding(), octet_no_copy(), w_block).column;
    multiply(cast_dy.row, w_t, view_of(dh, "dh"), {.fast_accumulation = fast}, dy);
  }
  if (need_dw) {
    if (!h_t) h_t = swiglu_in_fp8(halves, dy, recipe.format, scaling, false, true).column;
    multiply(cast_dy.column, h_t, dw_down, {.accumulate = accumulate, .fast_accumulation = fast},
             dy);
  }
  const Copies d_gate_up = activated_backward(dh, halves, dy, recipe, need_dx, need_dw);
  if (need_dx) {
    Fp8 w_t =
        given_fp8(std::move(given_gate_up_t), k, 2 * f, recipe.format, w_block, "w_gate_up_t");
    if (!w_t) {
      w_t = cast(weights.gate_up, "w_gate_up", recipe.encoding(), octet_no_copy(), w_block).column;
    }
    multiply(d_gate_up.row, w_t, view_of(out.dx, "dx"), {.fast_accumulation = fast}, dy);
  }
  if (need_dw) {
    multiply(d_gate_up.column, x_t, dw_gate_up,
             {.accumulate = accumulate, .fast_accumulation = fast}, dy);
  }
  return out;
}

// (..., format, grad_format, wgrad, need_dx, need_dw) -> dx, dw_gate_up, dw_down
void gated_mlp_backward(StackValue* stack) {
  Gradients out =
      backward(stack, nullptr, false, Recipe(stack, 12), bool_at(stack, 15), bool_at(stack, 16));
  stack[0] = out.dx.release();
  stack[1] = out.dw_gate_up.release();
  stack[2] = out.dw_down.release();
}

// (..., main_grad_gate_up, main_grad_down, accumulate, format, grad_format, wgrad, need_dx) -> dx
void gated_mlp_backward_main_grad(StackValue* stack) {
  const Tensor main_grads[] = {Tensor(stack[12]), Tensor(stack[13])};
  Gradients out =
      backward(stack, main_grads, bool_at(stack, 14), Recipe(stack, 15), bool_at(stack, 18), true);
  stack[0] = out.dx.release();
}

// The numbers are those of linear.cpp.
constexpr Operator kOperators[] = {
    {"gated_mlp_forward(Tensor x, Tensor? x_values, Tensor? x_scales, Tensor? x_t, "
     "Tensor? x_t_scales, Tensor w_gate_up, Tensor? w_gate_up_values, Tensor? w_gate_up_scales, "
     "Tensor? w_gate_up_t, Tensor? w_gate_up_t_scales, Tensor w_down, Tensor? w_down_values, "
     "Tensor? w_down_scales, Tensor? w_down_t, Tensor? w_down_t_scales, "
     "Tensor? main_grad_gate_up, Tensor? main_grad_down, bool accumulate, int format, "
     "int grad_format, int wgrad, bool save, bool save_x, bool save_h, Tensor? source, Tensor? g, "
     "float eps) -> (Tensor y, Tensor gate_up, Tensor x_t, Tensor x_t_scales, Tensor h_t, "
     "Tensor h_t_scales)",
     &boxed<gated_mlp_forward>},
    {"gated_mlp_backward(Tensor dy, Tensor gate_up, Tensor? x_t, Tensor? x_t_scales, Tensor? h_t, "
     "Tensor? h_t_scales, Tensor w_gate_up, Tensor? w_gate_up_t, Tensor? w_gate_up_t_scales, "
     "Tensor w_down, Tensor? w_down_t, Tensor? w_down_t_scales, int format, int grad_format, "
     "int wgrad, bool need_dx, bool need_dw) -> (Tensor dx, Tensor dw_gate_up, Tensor dw_down)",
     &boxed<gated_mlp_backward>},
    {"gated_mlp_backward_main_grad(Tensor dy, Tensor gate_up, Tensor? x_t, Tensor? x_t_scales, "
     "Tensor? h_t, Tensor? h_t_scales, Tensor w_gate_up, Tensor? w_gate_up_t, "
     "Tensor? w_gate_up_t_scales, Tensor w_down, Tensor? w_down_t, Tensor? w_down_t_scales, "
     "Tensor(a!) main_grad_gate_up, Tensor(b!) main_grad_down, bool accumulate, int format, "
     "int grad_format, int wgrad, bool need_dx) -> Tensor dx",
     &boxed<gated_mlp_backward_main_grad>},
};

}  // namespace

Operators gated_mlp_operators() { return kOperators; }

}  // namespace octet_torch
