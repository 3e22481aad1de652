// rms_norm: each row divided by its root mean square, times a weight per column; the input may be
// the sum of x and a residual.
#include "torch/error.hpp"
#include "torch/layer.hpp"
#include "torch/plan_cache.hpp"

namespace octet_torch {

namespace {

octet_rms_norm_problem problem_of(const octet_tensor& x, const octet_tensor& g, double eps) {
  octet_rms_norm_problem problem;
  octet_init_rms_norm_problem(&problem);
  problem.dtype = x.dtype;
  problem.rows = x.shape[0];
  problem.cols = x.shape[1];
  problem.weight_dtype = g.dtype;
  problem.dg_dtype = g.dtype;
  problem.eps = static_cast<float>(eps);
  problem.device = x.device;
  return problem;
}

// y, or its copies in FP8.
struct Forward {
  Tensor y, sum, rstd;
  Copies fp8;
};

Forward forward(const Tensor& x, const Tensor& residual, const Tensor& g, double eps,
                Copies fp8 = {}, octet_dtype format = OCTET_E4M3) {
  octet_rms_norm_forward_args args;
  OCTET_INIT(&args);
  args.x = view_of(x, "x", 2);
  args.g = view_of(g, "g", 1);
  octet_rms_norm_problem problem = problem_of(args.x, args.g, eps);
  const std::int32_t dtype = torch_dtype(problem.dtype);
  Forward out;
  out.rstd = empty({problem.rows}, shim.f32, x);
  args.rstd = view_of(out.rstd, "rstd");
  if (fp8.row || fp8.column) {
    problem.fp8 = output_of(fp8, format);
    args.fp8 = views_of(fp8);
    out.fp8 = std::move(fp8);
  } else {
    out.y = empty({problem.rows, problem.cols}, dtype, x);
    args.y = view_of(out.y, "y");
  }
  if (residual.get() != nullptr) {
    problem.residual = 1;
    out.sum = empty({problem.rows, problem.cols}, dtype, x);
    args.residual = view_of(residual, "residual", 2);
    args.sum = view_of(out.sum, "sum");
  }
  if (problem.rows == 0 && problem.fp8.enabled != 0) return out;  // no tokens
  const CachedPlan plan = find_plan(problem, octet_make_rms_norm_forward_plan);
  const Workspace workspace(plan.workspace_bytes, x);
  check(octet_run_rms_norm_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                   current_stream(problem.device)));
  return out;
}

// y in FP8, one copy or both: in one pass where the norm can write them, otherwise through y.
Forward forward_in_fp8(const Tensor& x, const Tensor& residual, const Tensor& g, double eps,
                       octet_dtype format, const Scaling& scaling, bool row, bool column) {
  const octet_tensor view = view_of(x, "x", 2);
  const octet_block block = row ? scaling.rows() : octet_no_copy();
  const octet_block transposed_block = column ? scaling.transposed() : octet_no_copy();
  if (scaling.one_pass_writes(view.dtype, row, column)) {
    Copies copies = empty_copies(view.shape[0], view.shape[1], format, block, transposed_block, x);
    return forward(x, residual, g, eps, std::move(copies), format);
  }
  Forward out = forward(x, residual, g, eps);
  out.fp8 = cast(out.y, "y", {format, scaling}, block, transposed_block, Returned::both);
  return out;
}

struct Backward {
  Tensor dx, dg;
};

// h is x, or the sum that forward wrote.
Backward backward(const Tensor& dy, const Tensor* dsum, const Tensor& h, const Tensor& g,
                  const Tensor& rstd, double eps) {
  octet_rms_norm_backward_args args;
  OCTET_INIT(&args);
  args.dy = view_of(dy, "dy", 2);
  args.h = view_of(h, "h", 2);
  args.g = view_of(g, "g", 1);
  args.rstd = view_of(rstd, "rstd", 1);
  octet_rms_norm_problem problem = problem_of(args.h, args.g, eps);
  if (dsum != nullptr) {
    problem.residual = 1;
    args.dsum = view_of(*dsum, "dsum", 2);
  }
  const CachedPlan plan = find_plan(problem, octet_make_rms_norm_backward_plan);
  Backward out{empty({problem.rows, problem.cols}, torch_dtype(problem.dtype), dy),
               empty({problem.cols}, torch_dtype(problem.dg_dtype), dy)};
  args.dx = view_of(out.dx, "dx");
  args.dg = view_of(out.dg, "dg");
  const Workspace workspace(plan.workspace_bytes, dy);
  check(octet_run_rms_norm_backward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                    current_stream(problem.device)));
  return out;
}

// (x, g, eps) -> y, rstd
void rms_norm(StackValue* stack) {
  const Tensor x(stack[0]), g(stack[1]);
  Forward out = forward(x, Tensor(), g, double_at(stack, 2));
  stack[0] = out.y.release();
  stack[1] = out.rstd.release();
}

// (x, residual, g, eps) -> y, sum, rstd
void rms_norm_residual(StackValue* stack) {
  const Tensor x(stack[0]), residual(stack[1]), g(stack[2]);
  Forward out = forward(x, residual, g, double_at(stack, 3));
  stack[0] = out.y.release();
  stack[1] = out.sum.release();
  stack[2] = out.rstd.release();
}

// (x, residual, g, eps, format, wgrad, save_x)
// -> carrier, values, scales, t_values, t_scales, sum, rstd
void rms_norm_quantized(StackValue* stack) {
  const Tensor x(stack[0]), residual = optional_at(stack, 1), g(stack[2]);
  const auto format = static_cast<octet_dtype>(int_at(stack, 4));
  const octet_tensor view = view_of(x, "x", 2);
  Forward out = forward_in_fp8(x, residual, g, double_at(stack, 3), format,
                               Scaling(int_at(stack, 5)), true, bool_at(stack, 6));
  if (residual.get() == nullptr) out.sum = absent(torch_dtype(view.dtype), x);
  stack[0] = carrier_like(view, x).release();
  out.fp8.row.release(&stack[1], &stack[2], x);
  out.fp8.column.release(&stack[3], &stack[4], x);
  stack[5] = out.sum.release();
  stack[6] = out.rstd.release();
}

// (x, g, eps, format, wgrad) -> t_values, t_scales of the normed x^T
void rms_norm_transposed(StackValue* stack) {
  const Tensor x(stack[0]), g(stack[1]);
  const auto format = static_cast<octet_dtype>(int_at(stack, 3));
  Forward out = forward_in_fp8(x, Tensor(), g, double_at(stack, 2), format,
                               Scaling(int_at(stack, 4)), false, true);
  out.fp8.column.release(&stack[0], &stack[1], x);
}

// (dy, x, g, rstd, eps) -> dx, dg
void rms_norm_backward(StackValue* stack) {
  const Tensor dy(stack[0]), x(stack[1]), g(stack[2]), rstd(stack[3]);
  Backward out = backward(dy, nullptr, x, g, rstd, double_at(stack, 4));
  stack[0] = out.dx.release();
  stack[1] = out.dg.release();
}

// (dy, dsum, sum, g, rstd, eps) -> dx, dg
void rms_norm_residual_backward(StackValue* stack) {
  const Tensor dy(stack[0]), dsum(stack[1]), sum(stack[2]), g(stack[3]), rstd(stack[4]);
  Backward out = backward(dy, &dsum, sum, g, rstd, double_at(stack, 5));
  stack[0] = out.dx.release();
  stack[1] = out.dg.release();
}

constexpr Operator kOperators[] = {
    {"rms_norm(Tensor x, Tensor g, float eps) -> (Tensor y, Tensor rstd)", &boxed<rms_norm>},
    {"rms_norm_residual(Tensor x, Tensor residual, Tensor g, float eps) -> "
     "(Tensor y, Tensor sum, Tensor rstd)",
     &boxed<rms_norm_residual>},
    {"rms_norm_quantized(Tensor x, Tensor? residual, Tensor g, float eps, int format, int wgrad, "
     "bool save_x) -> (Tensor carrier, Tensor values, Tensor scales, Tensor t_values, "
     "Tensor t_scales, Tensor sum, Tensor rstd)",
     &boxed<rms_norm_quantized>},
    {"rms_norm_transposed(Tensor x, Tensor g, float eps, int format, int wgrad) -> "
     "(Tensor t_values, Tensor t_scales)",
     &boxed<rms_norm_transposed>},
    {"rms_norm_backward(Tensor dy, Tensor x, Tensor g, Tensor rstd, float eps) -> "
     "(Tensor dx, Tensor dg)",
     &boxed<rms_norm_backward>},
    {"rms_norm_residual_backward(Tensor dy, Tensor dsum, Tensor sum, Tensor g, Tensor rstd, "
     "float eps) -> (Tensor dx, Tensor dg)",
     &boxed<rms_norm_residual_backward>},
};

}  // namespace

Operators rms_norm_operators() { return kOperators; }

}  // namespace octet_torch
