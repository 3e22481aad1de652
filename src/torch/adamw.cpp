// adamw_: one step of AdamW over one parameter, in place; adamw_cast_ writes it in FP8 as well.
#include "torch/error.hpp"
#include "torch/layer.hpp"
#include "torch/plan_cache.hpp"

#include <string>

namespace octet_torch {

namespace {

// Dense: the elements fill their memory without gaps, in any order of dimensions.
bool is_dense(const octet_tensor& view) {
  std::int64_t stride = 1;
  bool seen[OCTET_MAX_RANK] = {};
  for (int n = 0; n < view.rank; ++n) {
    int next = 0;
    while (next < view.rank &&
           (seen[next] || (view.shape[next] != 1 && view.strides[next] != stride))) {
      ++next;
    }
    if (next == view.rank) return false;
    seen[next] = true;
    stride *= view.shape[next];
  }
  return true;
}

std::int64_t elements_of(const octet_tensor& view) {
  std::int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
  return count;
}

// The same memory as [count].
octet_tensor flat(octet_tensor view) {
  view.shape[0] = elements_of(view);
  view.strides[0] = 1;
  view.rank = 1;
  return view;
}

octet_tensor weight_view(const Tensor& tensor) {
  const octet_tensor view = view_of(tensor, "w");
  if (elements_of(view) != 0 && !is_dense(view)) {
    refuse("octet: w must be dense, without gaps between its elements");
  }
  return view;
}

// w, which the FP8 copies need as a matrix whose rows lie one after the other.
const octet_tensor& row_major(const octet_tensor& w) {
  if (w.rank != 2 || w.shape[0] == 0 || w.shape[1] == 0 ||
      (w.shape[0] > 1 && w.strides[0] != w.shape[1]) || (w.shape[1] > 1 && w.strides[1] != 1)) {
    refuse("octet: w must be a contiguous matrix that is not empty");
  }
  return w;
}

// A tensor whose elements lie as those of w do.
octet_tensor view_like(const octet_tensor& w, const Tensor& tensor, const char* name) {
  const octet_tensor view = view_of(tensor, name);
  bool same = view.rank == w.rank;
  for (int i = 0; same && i < w.rank; ++i) same = view.shape[i] == w.shape[i];
  if (!same) refuse(std::string("octet: ") + name + " must have the shape of w");
  for (int i = 0; same && i < w.rank; ++i) {
    same = view.shape[i] == 1 || view.strides[i] == w.strides[i];
  }
  if (!same && elements_of(w) != 0) {
    refuse(std::string("octet: ") + name + " must have the strides of w");
  }
  return flat(view);
}

constexpr int kFirstCopy = 12;  // of the stack: behind the step

// (w, g, m, v, master, grad_scale, lr, beta1, beta2, eps, weight_decay, step) -> (), and with
// kCast (..., values, scales, t_values, t_scales, format): w [N, K] and w^T in FP8 as well
template <bool kCast>
void adamw(StackValue* stack) {
  const Tensor w(stack[0]), g(stack[1]), m(stack[2]), v(stack[3]);
  const Tensor master = optional_at(stack, 4), grad_scale = optional_at(stack, 5);
  Quantized row, column;
  if constexpr (kCast) {
    row = {Tensor(stack[kFirstCopy]), Tensor(stack[kFirstCopy + 1])};
    column = {Tensor(stack[kFirstCopy + 2]), Tensor(stack[kFirstCopy + 3])};
  }
  octet_adamw_args args;
  OCTET_INIT(&args);
  const octet_tensor weight = weight_view(w);
  args.w = flat(weight);
  args.g = view_like(weight, g, "g");
  args.m = view_like(weight, m, "m");
  args.v = view_like(weight, v, "v");
  octet_adamw_problem problem;
  octet_init_adamw_problem(&problem);
  problem.count = args.w.shape[0];
  problem.dtype = args.w.dtype;
  problem.grad_dtype = args.g.dtype;
  problem.moments_dtype = args.m.dtype;
  problem.device = args.w.device;
  if (master.get() != nullptr) {
    problem.master = 1;
    args.master = view_like(weight, master, "master");
  }
  if (grad_scale.get() != nullptr) {
    problem.grad_scale = 1;
    args.grad_scale = flat(view_of(grad_scale, "grad_scale"));
  }
  Copies copies;
  if constexpr (kCast) {
    const auto format = static_cast<octet_dtype>(int_at(stack, kFirstCopy + 4));
    problem.rows = row_major(weight).shape[0];
    problem.cols = weight.shape[1];
    copies = {
        given_fp8(std::move(row), problem.rows, problem.cols, format, square_block(), "w"),
        given_fp8(std::move(column), problem.cols, problem.rows, format, square_block(), "w_t")};
    problem.fp8 = output_of(copies, format);
    args.fp8 = views_of(copies);
  }
  args.lr = double_at(stack, 6);
  args.beta1 = double_at(stack, 7);
  args.beta2 = double_at(stack, 8);
  args.eps = double_at(stack, 9);
  args.weight_decay = double_at(stack, 10);
  args.step = int_at(stack, 11);
  const CachedPlan plan = find_plan(problem, octet_make_adamw_plan);
  const Workspace workspace(plan.workspace_bytes, w);
  check(octet_run_adamw(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                        current_stream(problem.device)));
}

constexpr Operator kOperators[] = {
    {"adamw_(Tensor(a!) w, Tensor g, Tensor(b!) m, Tensor(c!) v, Tensor(d!)? master, "
     "Tensor? grad_scale, float lr, float beta1, float beta2, float eps, float weight_decay, "
     "int step) -> ()",
     &boxed<adamw<false>>},
    {"adamw_cast_(Tensor(a!) w, Tensor g, Tensor(b!) m, Tensor(c!) v, Tensor(d!)? master, "
     "Tensor? grad_scale, float lr, float beta1, float beta2, float eps, float weight_decay, "
     "int step, Tensor(e!) values, Tensor(f!) scales, Tensor(g!) t_values, Tensor(h!) t_scales, "
     "int format) -> ()",
     &boxed<adamw<true>>},
};

}  // namespace

Operators adamw_operators() { return kOperators; }

}  // namespace octet_torch
