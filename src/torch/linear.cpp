// linear: y = x w^T, dx = dy w, dw = dy^T x, with the casts to FP8 inside.
//
// Saved between the passes: x^T in FP8, an output of forward, and w itself. Backward casts w^T
// again, which gives the same bits as a copy made in forward and does not keep one byte per weight
// alive per call.
#include "torch/error.hpp"
#include "torch/operators.hpp"
#include "torch/plan_cache.hpp"
#include "torch/quantized.hpp"

namespace octet_torch {

namespace {

const octet_block kSquare = octet_block_of(128, 128);

// The three options of a layer, as they stand in the schemas.
struct Recipe {
  octet_dtype format;
  octet_dtype grad_format;
  octet_wgrad_blocks wgrad;

  Recipe(const StackValue* stack, int first)
      : format(static_cast<octet_dtype>(int_at(stack, first))),
        grad_format(static_cast<octet_dtype>(int_at(stack, first + 1))),
        wgrad(static_cast<octet_wgrad_blocks>(int_at(stack, first + 2))) {}

  octet_block x_t_block() const {
    return wgrad == OCTET_WGRAD_SQUARE ? kSquare : octet_block_of(1, 128);
  }
};

octet_fp8_linear_problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k,
                                    const octet_tensor& like, const Recipe& recipe) {
  octet_fp8_linear_problem problem;
  octet_init_fp8_linear_problem(&problem);
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.dtype = like.dtype;
  problem.dw_dtype = like.dtype;
  problem.format = recipe.format;
  problem.grad_format = recipe.grad_format;
  problem.wgrad_blocks = recipe.wgrad;
  problem.device = like.device;
  return problem;
}

// x [M, K], w [N, K] -> y [M, N], x^T [K, M]
void forward(StackValue* stack, const Tensor& x, const Tensor& w, const Recipe& recipe,
             bool save_x) {
  const octet_tensor x_view = view_of(x, "x", 2), w_view = view_of(w, "w", 2);
  octet_fp8_linear_problem problem =
      problem_of(x_view.shape[0], w_view.shape[0], x_view.shape[1], x_view, recipe);
  problem.training = save_x ? 1 : 0;
  problem.need_dx = 0;  // w^T is not saved
  const CachedPlan plan = find_plan(problem, octet_make_fp8_linear_forward_plan);

  octet_fp8_linear_forward_args args;
  OCTET_INIT(&args);
  Tensor y = empty({problem.m, problem.n}, torch_dtype(problem.dtype), x);
  Quantized x_t;
  if (save_x) {
    const auto layout = layout_of(problem.k, problem.m, recipe.format, recipe.x_t_block());
    x_t = empty_quantized(layout, x);
    args.saved.x_t = view_of(x_t, layout, "x_t");
  } else {
    x_t = {absent(shim.u8, x), absent(shim.f32, x)};
  }
  args.x = x_view;
  args.w = w_view;
  args.y = view_of(y, "y");
  const Workspace workspace(plan.workspace_bytes, x);
  check(octet_run_fp8_linear_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                     current_stream(problem.device)));
  stack[0] = y.release();
  stack[1] = x_t.values.release();
  stack[2] = x_t.scales.release();
}

// Casts w^T [K, N] into memory of octet's layout.
octet_quantized cast_transposed(const Tensor& w, const octet_tensor& w_view,
                                const octet_quantized_layout& layout, void* memory) {
  octet_quantize_problem problem;
  octet_init_quantize_problem(&problem);
  problem.input_dtype = w_view.dtype;
  problem.rows = w_view.shape[0];
  problem.cols = w_view.shape[1];
  problem.format = layout.dtype;
  problem.block = octet_no_copy();
  problem.transposed_block = layout.block;
  problem.device = w_view.device;
  const CachedPlan plan = find_plan(problem, octet_make_quantize_plan);
  octet_quantize_args args;
  OCTET_INIT(&args);
  args.input = w_view;
  check(octet_make_quantized_view(&layout, memory, w_view.device, &args.transposed));
  const Workspace workspace(plan.workspace_bytes, w);
  check(octet_run_quantize(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                           current_stream(problem.device)));
  return args.transposed;
}

struct Gradients {
  Tensor dx;  // [M, K], or absent
  Tensor dw;  // [N, K], or absent
};

// dy [M, N], x^T [K, M] in FP8, w [N, K]. With main_grad dw is added to it and not returned.
Gradients backward(const Tensor& dy, const Quantized& x_t, const Tensor& w, const Tensor* main_grad,
                   const Recipe& recipe, bool need_dx, bool need_dw) {
  const octet_tensor dy_view = view_of(dy, "dy", 2), w_view = view_of(w, "w", 2);
  octet_fp8_linear_problem problem =
      problem_of(dy_view.shape[0], w_view.shape[0], w_view.shape[1], dy_view, recipe);
  problem.need_dx = need_dx ? 1 : 0;
  problem.need_dw = need_dw ? 1 : 0;
  octet_fp8_linear_backward_args args;
  OCTET_INIT(&args);
  args.dy = dy_view;
  if (main_grad != nullptr) {
    args.dw = view_of(*main_grad, "main_grad", 2);
    problem.dw_dtype = args.dw.dtype;
    problem.accumulate_dw = 1;
  }
  const CachedPlan plan = find_plan(problem, octet_make_fp8_linear_backward_plan);

  const std::int32_t dtype = torch_dtype(problem.dtype);
  Gradients out;
  out.dx = need_dx ? empty({problem.m, problem.k}, dtype, dy) : absent(dtype, dy);
  const bool fresh = need_dw && main_grad == nullptr;
  out.dw = fresh ? empty({problem.n, problem.k}, dtype, dy) : absent(dtype, dy);
  if (need_dw) {
    args.saved.x_t =
        view_of(x_t, layout_of(problem.k, problem.m, recipe.format, recipe.x_t_block()), "x_t");
  }
  if (fresh) args.dw = view_of(out.dw, "dw");
  octet_quantized_layout w_t{};
  if (need_dx) w_t = layout_of(problem.k, problem.n, recipe.format, kSquare);
  const Workspace w_t_memory(w_t.bytes, w);
  if (need_dx) {
    args.dx = view_of(out.dx, "dx");
    args.saved.w_t = cast_transposed(w, w_view, w_t, w_t_memory.data());
  }
  const Workspace workspace(plan.workspace_bytes, dy);
  check(octet_run_fp8_linear_backward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                      current_stream(problem.device)));
  return out;
}

void linear_forward(StackValue* stack) {
  const Tensor x(stack[0]), w(stack[1]);
  forward(stack, x, w, Recipe(stack, 2), bool_at(stack, 5));
}

void linear_forward_main_grad(StackValue* stack) {
  const Tensor x(stack[0]), w(stack[1]), main_grad(stack[2]);
  forward(stack, x, w, Recipe(stack, 3), true);
}

void linear_backward(StackValue* stack) {
  const Tensor dy(stack[0]), w(stack[3]);
  const Quantized x_t{Tensor(stack[1]), Tensor(stack[2])};
  Gradients out =
      backward(dy, x_t, w, nullptr, Recipe(stack, 4), bool_at(stack, 7), bool_at(stack, 8));
  stack[0] = out.dx.release();
  stack[1] = out.dw.release();
}

void linear_backward_main_grad(StackValue* stack) {
  const Tensor dy(stack[0]), w(stack[3]), main_grad(stack[4]);
  const Quantized x_t{Tensor(stack[1]), Tensor(stack[2])};
  Gradients out = backward(dy, x_t, w, &main_grad, Recipe(stack, 5), bool_at(stack, 8), true);
  stack[0] = out.dx.release();
}

// format, grad_format: e4m3 (4) or e5m2 (5). wgrad: x^T in 1x128 (1) or 128x128 (2) blocks.
constexpr Operator kOperators[] = {
    {"linear_forward(Tensor x, Tensor w, int format, int grad_format, int wgrad, bool save_x) -> "
     "(Tensor y, Tensor x_t, Tensor x_t_scales)",
     &boxed<linear_forward>},
    {"linear_forward_main_grad(Tensor x, Tensor w, Tensor main_grad, int format, int grad_format, "
     "int wgrad) -> (Tensor y, Tensor x_t, Tensor x_t_scales)",
     &boxed<linear_forward_main_grad>},
    {"linear_backward(Tensor dy, Tensor x_t, Tensor x_t_scales, Tensor w, int format, "
     "int grad_format, int wgrad, bool need_dx, bool need_dw) -> (Tensor dx, Tensor dw)",
     &boxed<linear_backward>},
    {"linear_backward_main_grad(Tensor dy, Tensor x_t, Tensor x_t_scales, Tensor w, "
     "Tensor(a!) main_grad, int format, int grad_format, int wgrad, bool need_dx) -> Tensor dx",
     &boxed<linear_backward_main_grad>},
};

}  // namespace

Operators linear_operators() { return kOperators; }

}  // namespace octet_torch
