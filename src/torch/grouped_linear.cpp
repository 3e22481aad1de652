// grouped_linear: y[t] = x[t] w_g^T for the rows t of every group g, in FP8.
//
// Sizes stay on the device. The table that forward makes of them serves backward too. Casts of x and
// dy run over groups; weights are cast where a product needs them and not saved. Sizes that do not fit
// are refused on the CPU; on CUDA nothing waits for the device, and the kernel clamps them.
#include "torch/error.hpp"
#include "torch/grouped.hpp"
#include "torch/plan_cache.hpp"

#include <string>

namespace octet_torch {

namespace {

// Refuses sizes on the CPU that give rows to a group of buffers without rows, which have no table.
void check_all_zero(const octet_tensor& sizes) {
  for (std::int64_t i = 0; i < sizes.shape[0]; ++i) {
    const std::int64_t at = i * sizes.strides[0];
    const std::int64_t size = sizes.dtype == OCTET_I32
                                  ? static_cast<const std::int32_t*>(sizes.data)[at]
                                  : static_cast<const std::int64_t*>(sizes.data)[at];
    if (size != 0) {
      refuse("octet: sizes[" + std::to_string(i) + "] must be 0 for 0 rows, got " +
             std::to_string(size));
    }
  }
}

// The table of the sizes, for buffers of `rows` rows.
Tensor make_table(const Tensor& sizes, std::int64_t given, std::int64_t groups, std::int64_t rows) {
  octet_group_table_args args;
  OCTET_INIT(&args);
  args.sizes = index_view_of(sizes, "sizes", 1);
  const bool on_cpu = args.sizes.device.type == OCTET_CPU;
  if (rows == 0) {
    if (on_cpu) check_all_zero(args.sizes);
    return absent(shim.i32, sizes);
  }
  octet_group_table_problem problem;
  octet_init_group_table_problem(&problem);
  problem.groups = groups;
  problem.rows = rows;
  problem.given = static_cast<octet_group_sizes>(given);
  problem.sizes_dtype = args.sizes.dtype;
  problem.device = args.sizes.device;
  std::int64_t words = 0;
  check(octet_group_table_words(groups, rows, &words));
  Tensor table = empty({words}, shim.i32, sizes);
  args.table = index_view_of(table, "table", 1);
  const CachedPlan plan = find_plan(problem, octet_make_group_table_plan);
  const Workspace workspace(plan.workspace_bytes, sizes);
  check(octet_run_group_table(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                              current_stream(problem.device)));
  if (on_cpu) check(octet_check_group_table(&args.table, nullptr));
  return table;
}

// (sizes, given, rows) -> table
void group_table(StackValue* stack) {
  const Tensor sizes(stack[0]);
  const std::int64_t given = int_at(stack, 1);
  const std::int64_t groups =
      index_view_of(sizes, "sizes", 1).shape[0] - (given == OCTET_GROUP_OFFSETS ? 1 : 0);
  stack[0] = make_table(sizes, given, groups, int_at(stack, 2)).release();
}

octet_fp8_grouped_linear_problem problem_of(const octet_tensor& rows, const octet_tensor& w,
                                            const Recipe& recipe) {
  octet_fp8_grouped_linear_problem problem;
  octet_init_fp8_grouped_linear_problem(&problem);
  problem.groups = w.shape[0];
  problem.rows = rows.shape[0];
  problem.n = w.shape[1];
  problem.k = w.shape[2];
  problem.dtype = rows.dtype;
  problem.format = recipe.format;
  problem.grad_format = recipe.grad_format;
  problem.wgrad_blocks = recipe.wgrad;
  problem.weights_quantized = 1;
  problem.device = rows.device;
  return problem;
}

// x^T in token blocks, in one piece of memory.
octet_quantized token_blocks_of(const octet_fp8_grouped_linear_problem& problem, Tensor& memory,
                                const Tensor* like) {
  octet_quantized_batch_layout layout;
  OCTET_INIT(&layout);
  std::int64_t blocks = 0;
  check(octet_max_token_blocks(problem.groups, problem.rows, &blocks));
  check(octet_make_token_block_layout(blocks, problem.k, problem.format,
                                      transposed_block(problem.wgrad_blocks), &layout));
  const auto bytes = static_cast<std::int64_t>(layout.bytes);
  if (like != nullptr) memory = empty({bytes}, shim.u8, *like);
  return view_of(layout, memory, "x_t", problem.device);
}

// (x, w, sizes, main_grad, accumulate, given, format, grad_format, wgrad, save_x)
// -> y, table, x_t
void grouped_linear_forward(StackValue* stack) {
  const Tensor x(stack[0]), w(stack[1]), sizes(stack[2]);
  const Tensor main_grad = optional_at(stack, 3);  // for backward
  const std::int64_t given = int_at(stack, 5);
  const Recipe recipe(stack, 6);
  const bool save_x = bool_at(stack, 9);

  const octet_tensor w_view = experts_view(w, "w", "[groups, N, K]");
  octet_fp8_grouped_linear_forward_args args;
  OCTET_INIT(&args);
  args.x = view_of(x, "x", 2);
  check_shape(args.x, "x", "[rows, K]", args.x.shape[0], w_view.shape[2]);
  if (main_grad.get() != nullptr) experts_main_grad(main_grad, "main_grad", w_view);
  octet_fp8_grouped_linear_problem problem = problem_of(args.x, w_view, recipe);
  Tensor y = empty({problem.rows, problem.n}, torch_dtype(problem.dtype), x);
  Tensor table = make_table(sizes, given, problem.groups, problem.rows);
  if (problem.rows == 0) {
    stack[0] = y.release();
    stack[1] = table.release();
    stack[2] = absent(shim.u8, x).release();
    return;
  }
  problem.training = save_x ? 1 : 0;
  Tensor x_t = absent(shim.u8, x);
  if (save_x) args.saved.x_t = token_blocks_of(problem, x_t, &x);
  const Fp8Batch w_fp8 = cast_experts(w, "w", recipe.format, Turned::no);
  args.weights.w = w_fp8.view;
  args.y = view_of(y, "y");
  args.table = index_view_of(table, "table", 1);
  const CachedPlan plan = find_plan(problem, octet_make_fp8_grouped_linear_forward_plan);
  const Workspace workspace(plan.workspace_bytes, x);
  check(octet_run_fp8_grouped_linear_forward(plan.get(), &args, workspace.data(),
                                             plan.workspace_bytes, current_stream(problem.device)));
  stack[0] = y.release();
  stack[1] = table.release();
  stack[2] = x_t.release();
}

struct Gradients {
  Tensor dx, dw;
};

// (dy, table, x_t, w) are stack[0] to stack[3].
Gradients backward(const StackValue* stack, const Tensor* main_grad, bool accumulate,
                   const Recipe& recipe, bool need_dx, bool need_dw) {
  const Tensor dy(stack[0]), table(stack[1]), w(stack[3]);
  Tensor x_t(stack[2]);
  const octet_tensor w_view = experts_view(w, "w", "[groups, N, K]");
  octet_fp8_grouped_linear_backward_args args;
  OCTET_INIT(&args);
  args.dy = view_of(dy, "dy", 2);
  check_shape(args.dy, "dy", "[rows, N]", args.dy.shape[0], w_view.shape[1]);
  octet_fp8_grouped_linear_problem problem = problem_of(args.dy, w_view, recipe);
  const std::int32_t dtype = torch_dtype(problem.dtype);
  const bool fresh = need_dw && main_grad == nullptr;
  Gradients out{
      need_dx ? empty({problem.rows, problem.k}, dtype, dy) : absent(dtype, dy),
      fresh ? empty({problem.groups, problem.n, problem.k}, dtype, dy) : absent(dtype, dy)};
  if (need_dw)
    args.dw = fresh ? view_of(out.dw, "dw") : experts_main_grad(*main_grad, "main_grad", w_view);
  if (problem.rows == 0) {
    if (need_dw && !accumulate) set_to_zero(fresh ? out.dw : *main_grad);
    return out;
  }
  if (!need_dx && !need_dw) return out;
  problem.need_dx = need_dx ? 1 : 0;
  problem.need_dw = need_dw ? 1 : 0;
  problem.accumulate_dw = accumulate ? 1 : 0;
  if (need_dw) {
    problem.dw_dtype = args.dw.dtype;
    args.saved.x_t = token_blocks_of(problem, x_t, nullptr);
  }
  Fp8Batch w_t;
  if (need_dx) {
    w_t = cast_experts(w, "w", recipe.format, Turned::yes);
    args.saved.w_t = w_t.view;
    args.dx = view_of(out.dx, "dx");
  }
  args.table = index_view_of(table, "table", 1);
  const CachedPlan plan = find_plan(problem, octet_make_fp8_grouped_linear_backward_plan);
  const Workspace workspace(plan.workspace_bytes, dy);
  check(octet_run_fp8_grouped_linear_backward(
      plan.get(), &args, workspace.data(), plan.workspace_bytes, current_stream(problem.device)));
  return out;
}

// (..., format, grad_format, wgrad, need_dx, need_dw) -> dx, dw
void grouped_linear_backward(StackValue* stack) {
  Gradients out =
      backward(stack, nullptr, false, Recipe(stack, 4), bool_at(stack, 7), bool_at(stack, 8));
  stack[0] = out.dx.release();
  stack[1] = out.dw.release();
}

// (..., main_grad, accumulate, format, grad_format, wgrad, need_dx) -> dx
void grouped_linear_backward_main_grad(StackValue* stack) {
  const Tensor main_grad(stack[4]);
  Gradients out =
      backward(stack, &main_grad, bool_at(stack, 5), Recipe(stack, 6), bool_at(stack, 9), true);
  stack[0] = out.dx.release();
}

// given: octet_group_sizes. The other numbers are those of linear.cpp.
constexpr Operator kOperators[] = {
    {"group_table(Tensor sizes, int given, int rows) -> Tensor table", &boxed<group_table>},
    {"grouped_linear_forward(Tensor x, Tensor w, Tensor sizes, Tensor? main_grad, bool accumulate, "
     "int given, int format, int grad_format, int wgrad, bool save_x) "
     "-> (Tensor y, Tensor table, Tensor x_t)",
     &boxed<grouped_linear_forward>},
    {"grouped_linear_backward(Tensor dy, Tensor table, Tensor x_t, Tensor w, int format, "
     "int grad_format, int wgrad, bool need_dx, bool need_dw) -> (Tensor dx, Tensor dw)",
     &boxed<grouped_linear_backward>},
    {"grouped_linear_backward_main_grad(Tensor dy, Tensor table, Tensor x_t, Tensor w, "
     "Tensor(a!) main_grad, bool accumulate, int format, int grad_format, int wgrad, bool need_dx) "
     "-> Tensor dx",
     &boxed<grouped_linear_backward_main_grad>},
};

}  // namespace

Operators grouped_linear_operators() { return kOperators; }

}  // namespace octet_torch
