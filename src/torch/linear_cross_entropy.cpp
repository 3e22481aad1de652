// linear_cross_entropy: the loss of x w^T against targets, and the gradients of x and w in the same
// pass over chunks of tokens.
//
// For sum and mean, forward returns the gradients of the loss; autograd multiplies them by the
// gradient of the loss. Backward is for a gradient per token, which is known only then, and for f16,
// where a gradient that is not scaled yet may underflow: it computes the logits again.
#include "torch/error.hpp"
#include "torch/layer.hpp"
#include "torch/plan_cache.hpp"

namespace octet_torch {

namespace {

// (x, w, w_values, w_scales, w_t, w_t_scales, targets) as they stand in the schemas.
struct Inputs {
  Tensor x;           // [M, K]
  Tensor w;           // [V, K]
  Quantized given_w;  // in FP8, or none
  Quantized given_w_t;
  Tensor targets;  // [M]

  Inputs(const StackValue* stack, int first)
      : x(stack[first]),
        w(stack[first + 1]),
        given_w{optional_at(stack, first + 2), optional_at(stack, first + 3)},
        given_w_t{optional_at(stack, first + 4), optional_at(stack, first + 5)},
        targets(stack[first + 6]) {}
};

// (ignore_index, reduction, fp8, format, grad_format, wgrad) as they stand in the schemas.
octet_linear_cross_entropy_problem problem_of(const Inputs& in, const StackValue* stack,
                                              int first) {
  const octet_tensor x = view_of(in.x, "x", 2), w = view_of(in.w, "w", 2);
  const Recipe recipe(stack, first + 3);
  octet_linear_cross_entropy_problem problem;
  octet_init_linear_cross_entropy_problem(&problem);
  problem.m = x.shape[0];
  problem.v = w.shape[0];
  problem.k = x.shape[1];
  check_shape(w, "w", "[V, K]", problem.v, problem.k);
  problem.dtype = x.dtype;
  problem.dw_dtype = x.dtype;
  problem.target_dtype = index_view_of(in.targets, "target", 1).dtype;
  problem.ignore_index = int_at(stack, first);
  problem.reduction = static_cast<octet_loss_reduction>(int_at(stack, first + 1));
  problem.fp8 = bool_at(stack, first + 2) ? 1 : 0;
  problem.format = recipe.format;
  problem.grad_format = recipe.grad_format;
  problem.wgrad_blocks = recipe.wgrad;
  problem.device = x.device;
  return problem;
}

// The tensors that both passes read. Returns the owners of w in FP8.
template <class Args>
Copies set_inputs(Inputs& in, octet_linear_cross_entropy_problem& problem, Args& args) {
  args.x = view_of(in.x, "x", 2);
  args.w = view_of(in.w, "w", 2);
  args.targets = index_view_of(in.targets, "target", 1);
  Copies given{
      given_fp8(std::move(in.given_w), problem.v, problem.k, problem.format, square_block(), "w"),
      given_fp8(std::move(in.given_w_t), problem.k, problem.v, problem.format, square_block(),
                "w_t")};
  if (given.row && given.column && problem.fp8 != 0) {
    problem.weights_quantized = 1;
    args.weights.w = given.row.view;
    args.weights.w_t = given.column.view;
  }
  return given;
}

struct Gradients {
  Tensor dx;  // [M, K], or absent
  Tensor dw;  // [V, K], or absent
};

// Allocates what is asked for; with main_grad dw is written there, or added to it.
template <class Args>
Gradients set_gradients(const Inputs& in, const Tensor* main_grad, bool accumulate, bool need_dx,
                        bool need_dw, octet_linear_cross_entropy_problem& problem, Args& args) {
  problem.need_dx = need_dx ? 1 : 0;
  problem.need_dw = need_dw ? 1 : 0;
  problem.training = need_dx || need_dw ? 1 : 0;
  const std::int32_t dtype = torch_dtype(problem.dtype), dw_dtype = torch_dtype(problem.dw_dtype);
  const bool fresh = need_dw && main_grad == nullptr;
  Gradients out{need_dx ? empty({problem.m, problem.k}, dtype, in.x) : absent(dtype, in.x),
                fresh ? empty({problem.v, problem.k}, dw_dtype, in.x) : absent(dw_dtype, in.x)};
  if (need_dx) args.dx = view_of(out.dx, "dx");
  if (fresh) args.dw = view_of(out.dw, "dw");
  if (main_grad != nullptr) {
    args.dw = main_grad_view(*main_grad, "main_grad", "[V, K]", args.w);
    problem.dw_dtype = args.dw.dtype;
    problem.accumulate_dw = accumulate ? 1 : 0;
  }
  return out;
}

// (x, w, w in FP8, targets, main_grad, accumulate, ignore_index, reduction, fp8, format, grad_format,
//  wgrad, need_dx, need_dw) -> loss, lse, dx, dw. main_grad only says that dw is wanted in its dtype.
void forward(StackValue* stack) {
  Inputs in(stack, 0);
  const Tensor main_grad = optional_at(stack, 7);
  octet_linear_cross_entropy_problem problem = problem_of(in, stack, 9);
  octet_linear_cross_entropy_forward_args args;
  OCTET_INIT(&args);
  const Copies weights = set_inputs(in, problem, args);
  if (main_grad.get() != nullptr) {
    problem.dw_dtype = main_grad_view(main_grad, "main_grad", "[V, K]", args.w).dtype;
  }
  Gradients out =
      set_gradients(in, nullptr, false, bool_at(stack, 15), bool_at(stack, 16), problem, args);
  const bool per_token = problem.reduction == OCTET_LOSS_NONE;
  Tensor loss = empty({per_token ? problem.m : 1}, shim.f32, in.x);
  Tensor lse = empty({problem.m}, shim.f32, in.x);
  args.loss = view_of(loss, "loss");
  args.lse = view_of(lse, "lse");
  const CachedPlan plan = find_plan(problem, octet_make_linear_cross_entropy_forward_plan);
  const Workspace workspace(plan.workspace_bytes, in.x);
  check(octet_run_linear_cross_entropy_forward(
      plan.get(), &args, workspace.data(), plan.workspace_bytes, current_stream(problem.device)));
  stack[0] = loss.release();
  stack[1] = lse.release();
  stack[2] = out.dx.release();
  stack[3] = out.dw.release();
}

// dloss [M], or [1] for a reduction, is stack[0]; x to targets and lse follow.
Gradients backward(StackValue* stack, const Tensor* main_grad, bool accumulate, int options,
                   bool need_dx, bool need_dw) {
  const Tensor dloss(stack[0]);
  Inputs in(stack, 1);
  const Tensor lse(stack[8]);
  octet_linear_cross_entropy_problem problem = problem_of(in, stack, options);
  octet_linear_cross_entropy_backward_args args;
  OCTET_INIT(&args);
  const Copies weights = set_inputs(in, problem, args);
  Gradients out = set_gradients(in, main_grad, accumulate, need_dx, need_dw, problem, args);
  args.loss_grad = view_of(dloss, "dloss", 1);
  args.lse = view_of(lse, "lse", 1);
  const CachedPlan plan = find_plan(problem, octet_make_linear_cross_entropy_backward_plan);
  const Workspace workspace(plan.workspace_bytes, in.x);
  check(octet_run_linear_cross_entropy_backward(
      plan.get(), &args, workspace.data(), plan.workspace_bytes, current_stream(problem.device)));
  return out;
}

// (..., ignore_index, reduction, fp8, format, grad_format, wgrad, need_dx, need_dw) -> dx, dw
void backward_fresh(StackValue* stack) {
  Gradients out = backward(stack, nullptr, false, 9, bool_at(stack, 15), bool_at(stack, 16));
  stack[0] = out.dx.release();
  stack[1] = out.dw.release();
}

// (..., main_grad, accumulate, ignore_index, reduction, fp8, format, grad_format, wgrad, need_dx) -> dx
void backward_main_grad(StackValue* stack) {
  const Tensor main_grad(stack[9]);
  Gradients out = backward(stack, &main_grad, bool_at(stack, 10), 11, bool_at(stack, 17), true);
  stack[0] = out.dx.release();
}

// reduction: none (0), sum (1) or mean (2). format, grad_format: e4m3 (4) or e5m2 (5). wgrad: x^T in
// 1x128 (1) or 128x128 (2) blocks.
constexpr Operator kOperators[] = {
    {"linear_cross_entropy(Tensor x, Tensor w, Tensor? w_values, Tensor? w_scales, Tensor? w_t, "
     "Tensor? w_t_scales, Tensor target, Tensor? main_grad, bool accumulate, int ignore_index, "
     "int reduction, bool fp8, int format, int grad_format, int wgrad, bool need_dx, bool need_dw) "
     "-> "
     "(Tensor loss, Tensor lse, Tensor dx, Tensor dw)",
     &boxed<forward>},
    {"linear_cross_entropy_backward(Tensor dloss, Tensor x, Tensor w, Tensor? w_values, "
     "Tensor? w_scales, Tensor? w_t, Tensor? w_t_scales, Tensor target, Tensor lse, "
     "int ignore_index, int reduction, bool fp8, int format, int grad_format, int wgrad, "
     "bool need_dx, bool need_dw) -> (Tensor dx, Tensor dw)",
     &boxed<backward_fresh>},
    {"linear_cross_entropy_backward_main_grad(Tensor dloss, Tensor x, Tensor w, Tensor? w_values, "
     "Tensor? w_scales, Tensor? w_t, Tensor? w_t_scales, Tensor target, Tensor lse, "
     "Tensor(a!) main_grad, bool accumulate, int ignore_index, int reduction, bool fp8, int "
     "format, "
     "int grad_format, int wgrad, bool need_dx) -> Tensor dx",
     &boxed<backward_main_grad>},
};

}  // namespace

Operators linear_cross_entropy_operators() { return kOperators; }

}  // namespace octet_torch
