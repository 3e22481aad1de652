// moe_mlp: the experts of a mixture on tokens whose experts and weights are known, in FP8.
//
// All that forward keeps for backward is one tensor of bytes, in the layout of octet_moe_mlp_saved.
// Weights are cast where a product needs them and not saved.
#include "torch/error.hpp"
#include "torch/grouped.hpp"
#include "torch/plan_cache.hpp"

#include <string>

namespace octet_torch {

namespace {

// The weights of the experts that are here: w_gate_up [E, 2F, K] and w_down [E, K, F].
struct Experts {
  Tensor gate_up, down;
  octet_tensor gate_up_view, down_view;

  Experts(StackValue gate_up_value, StackValue down_value)
      : gate_up(gate_up_value), down(down_value) {}

  void check() {
    gate_up_view = experts_view(gate_up, "w_gate_up", "[experts, 2 F, K]");
    if (gate_up_view.shape[1] % 2 != 0) {
      refuse("octet: w_gate_up must be [experts, 2 F, K], got " +
             std::to_string(gate_up_view.shape[1]) + " rows");
    }
    down_view = view_of(down, "w_down", 3);
    check_shape(down_view, "w_down", "[experts, K, F]", gate_up_view.shape[0],
                gate_up_view.shape[2], gate_up_view.shape[1] / 2);
  }
};

// The options of the layer from stack[first] on:
// (experts, first_expert, capacity, activation, format, grad_format, wgrad)
constexpr int kOptions = 7;

octet_moe_mlp_problem problem_of(const octet_tensor& tokens, std::int64_t top_k,
                                 const Experts& weights, const StackValue* stack, int first) {
  const Recipe recipe(stack, first + 4);
  octet_moe_mlp_problem problem;
  octet_init_moe_mlp_problem(&problem);
  problem.dtype = tokens.dtype;
  problem.tokens = tokens.shape[0];
  problem.f = weights.down_view.shape[2];
  problem.k = weights.down_view.shape[1];
  problem.experts = int_at(stack, first);
  problem.top_k = top_k;
  problem.first_expert = int_at(stack, first + 1);
  problem.local_experts = weights.gate_up_view.shape[0];
  problem.capacity = int_at(stack, first + 2);
  problem.routing = 0;
  problem.activation = static_cast<octet_gate_activation>(int_at(stack, first + 3));
  problem.format = recipe.format;
  problem.grad_format = recipe.grad_format;
  problem.wgrad_blocks = recipe.wgrad;
  problem.weights_quantized = 1;
  problem.device = tokens.device;
  return problem;
}

octet_moe_mlp_saved saved_views(const octet_moe_mlp_problem& problem, const Tensor& memory) {
  std::uint64_t bytes = 0;
  check(octet_moe_mlp_saved_bytes(&problem, &bytes));
  octet_moe_mlp_saved saved{};
  void* const data = dense_memory(memory, shim.u8, static_cast<std::int64_t>(bytes), "saved");
  check(octet_view_moe_mlp_saved(&problem, data, &saved));
  return saved;
}

// (x, indices, weights, w_gate_up, w_down, main_grad_gate_up, main_grad_down, accumulate, experts,
//  first_expert, capacity, activation, format, grad_format, wgrad, save, save_dw)
// -> y, sizes, saved
void moe_mlp_forward(StackValue* stack) {
  const Tensor x(stack[0]), indices(stack[1]), weights(stack[2]);
  Experts experts(stack[3], stack[4]);
  const Tensor main_grad_gate_up = optional_at(stack, 5), main_grad_down = optional_at(stack, 6);
  const bool save = bool_at(stack, 8 + kOptions), save_dw = bool_at(stack, 9 + kOptions);

  experts.check();
  if (main_grad_gate_up.get() != nullptr) {
    experts_main_grad(main_grad_gate_up, "main_grad_gate_up", experts.gate_up_view);
  }
  if (main_grad_down.get() != nullptr) {
    experts_main_grad(main_grad_down, "main_grad_down", experts.down_view);
  }
  octet_moe_mlp_forward_args args;
  OCTET_INIT(&args);
  args.x = view_of(x, "x", 2);
  args.indices = index_view_of(indices, "indices", 2);
  args.weights = view_of(weights, "weights", 2);
  octet_moe_mlp_problem problem = problem_of(args.x, args.indices.shape[1], experts, stack, 8);
  problem.need_dw = save_dw ? 1 : 0;
  check_shape(args.x, "x", "[tokens, K]", args.indices.shape[0], problem.k);
  check_shape(args.weights, "weights", "[tokens, top_k]", problem.tokens, problem.top_k);
  Tensor y = empty({problem.tokens, problem.k}, torch_dtype(problem.dtype), x);
  Tensor sizes = empty({problem.local_experts}, shim.i32, x);
  Tensor saved = absent(shim.u8, x);
  if (problem.tokens == 0) {
    set_to_zero(sizes);
  } else {
    // Also without gradients, where the tensor ends with the call: the sizes are a result.
    std::uint64_t bytes = 0;
    check(octet_moe_mlp_saved_bytes(&problem, &bytes));
    saved = empty({static_cast<std::int64_t>(bytes)}, shim.u8, x);
    args.saved = saved_views(problem, saved);
    args.saved.sizes = index_view_of(sizes, "sizes", 1);
    const Fp8Batch gate_up = cast_experts(experts.gate_up, "w_gate_up", problem.format, Turned::no);
    const Fp8Batch down = cast_experts(experts.down, "w_down", problem.format, Turned::no);
    args.experts.gate_up.w = gate_up.view;
    args.experts.down.w = down.view;
    args.y = view_of(y, "y");
    const CachedPlan plan = find_plan(problem, octet_make_moe_mlp_forward_plan);
    const Workspace workspace(plan.workspace_bytes, x);
    check(octet_run_moe_mlp_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                    current_stream(problem.device)));
    // On CUDA a bad index counts as -1: nothing waits for the device.
    if (problem.device.type == OCTET_CPU) check(octet_check_moe_maps(&args.saved.status, nullptr));
    if (!save) saved = absent(shim.u8, x);
  }
  stack[0] = y.release();
  stack[1] = sizes.release();
  stack[2] = saved.release();
}

struct Gradients {
  Tensor dx, dweights, dw_gate_up, dw_down;
};

// (dy, saved, w_gate_up, w_down) are stack[0] to stack[3]; top_k and the options follow from
// stack[options] on, then saved_dw.
Gradients backward(const StackValue* stack, int options, const Tensor* main_grads, bool accumulate,
                   bool need_dx, bool need_dw) {
  const Tensor dy(stack[0]), saved(stack[1]);
  Experts experts(stack[2], stack[3]);
  const std::int64_t top_k = int_at(stack, options);
  const bool saved_dw = bool_at(stack, options + 1 + kOptions);

  experts.check();
  octet_moe_mlp_backward_args args;
  OCTET_INIT(&args);
  args.dy = view_of(dy, "dy", 2);
  octet_moe_mlp_problem problem = problem_of(args.dy, top_k, experts, stack, options + 1);
  check_shape(args.dy, "dy", "[tokens, K]", problem.tokens, problem.k);
  const std::int32_t dtype = torch_dtype(problem.dtype);
  const std::int64_t e = problem.local_experts, f = problem.f, k = problem.k;
  const bool fresh = need_dw && main_grads == nullptr;
  Gradients out{need_dx ? empty({problem.tokens, k}, dtype, dy) : absent(dtype, dy),
                empty({problem.tokens, top_k}, shim.f32, dy),
                fresh ? empty({e, 2 * f, k}, dtype, dy) : absent(dtype, dy),
                fresh ? empty({e, k, f}, dtype, dy) : absent(dtype, dy)};
  // Everything is looked at before the main gradients are written.
  if (need_dw) {
    args.dw_gate_up =
        fresh ? view_of(out.dw_gate_up, "dw_gate_up")
              : experts_main_grad(main_grads[0], "main_grad_gate_up", experts.gate_up_view);
    args.dw_down = fresh ? view_of(out.dw_down, "dw_down")
                         : experts_main_grad(main_grads[1], "main_grad_down", experts.down_view);
    if (!saved_dw) refuse("octet: the gradients of the experts need moe_mlp_forward with save_dw");
    if (args.dw_gate_up.dtype != args.dw_down.dtype) {
      refuse_dtype("octet: main_grad_gate_up and main_grad_down must have the same dtype");
    }
    problem.dw_dtype = args.dw_gate_up.dtype;
  }
  if (problem.tokens == 0) {
    if (need_dw && !accumulate) {
      set_to_zero(fresh ? out.dw_gate_up : main_grads[0]);
      set_to_zero(fresh ? out.dw_down : main_grads[1]);
    }
    return out;
  }
  problem.need_dw = saved_dw ? 1 : 0;
  args.saved = saved_views(problem, saved);
  problem.need_dw = need_dw ? 1 : 0;
  problem.need_dx = need_dx || !need_dw ? 1 : 0;
  problem.accumulate_dw = accumulate ? 1 : 0;
  Tensor unused;  // dx, where only the gradient of the weights of tokens is wanted
  if (problem.need_dx != 0) {
    if (!need_dx) unused = empty({problem.tokens, k}, dtype, dy);
    args.dx = view_of(need_dx ? out.dx : unused, "dx");
  }
  args.dweights = view_of(out.dweights, "dweights");
  const Fp8Batch down_t = cast_experts(experts.down, "w_down", problem.format, Turned::yes);
  args.saved.w_down_t = down_t.view;
  Fp8Batch gate_up_t;
  if (problem.need_dx != 0) {
    gate_up_t = cast_experts(experts.gate_up, "w_gate_up", problem.format, Turned::yes);
    args.saved.w_gate_up_t = gate_up_t.view;
  }
  const CachedPlan plan = find_plan(problem, octet_make_moe_mlp_backward_plan);
  const Workspace workspace(plan.workspace_bytes, dy);
  check(octet_run_moe_mlp_backward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                   current_stream(problem.device)));
  return out;
}

// (..., top_k, experts, ..., wgrad, saved_dw, need_dx, need_dw) -> dx, dweights, dw_gate_up, dw_down
void moe_mlp_backward(StackValue* stack) {
  constexpr int kNeeds = 4 + 1 + kOptions + 1;
  Gradients out =
      backward(stack, 4, nullptr, false, bool_at(stack, kNeeds), bool_at(stack, kNeeds + 1));
  stack[0] = out.dx.release();
  stack[1] = out.dweights.release();
  stack[2] = out.dw_gate_up.release();
  stack[3] = out.dw_down.release();
}

// (..., main_grad_gate_up, main_grad_down, accumulate, top_k, ..., saved_dw, need_dx)
// -> dx, dweights
void moe_mlp_backward_main_grad(StackValue* stack) {
  const Tensor main_grads[] = {Tensor(stack[4]), Tensor(stack[5])};
  Gradients out =
      backward(stack, 7, main_grads, bool_at(stack, 6), bool_at(stack, 7 + 1 + kOptions + 1), true);
  stack[0] = out.dx.release();
  stack[1] = out.dweights.release();
}

// activation: octet_gate_activation. The other numbers are those of linear.cpp.
constexpr Operator kOperators[] = {
    {"moe_mlp_forward(Tensor x, Tensor indices, Tensor weights, Tensor w_gate_up, Tensor w_down, "
     "Tensor? main_grad_gate_up, Tensor? main_grad_down, bool accumulate, int experts, "
     "int first_expert, int capacity, int activation, int format, int grad_format, int wgrad, "
     "bool save, bool save_dw) -> (Tensor y, Tensor sizes, Tensor saved)",
     &boxed<moe_mlp_forward>},
    {"moe_mlp_backward(Tensor dy, Tensor saved, Tensor w_gate_up, Tensor w_down, int top_k, "
     "int experts, int first_expert, int capacity, int activation, int format, int grad_format, "
     "int wgrad, bool saved_dw, bool need_dx, bool need_dw) "
     "-> (Tensor dx, Tensor dweights, Tensor dw_gate_up, Tensor dw_down)",
     &boxed<moe_mlp_backward>},
    {"moe_mlp_backward_main_grad(Tensor dy, Tensor saved, Tensor w_gate_up, Tensor w_down, "
     "Tensor(a!) main_grad_gate_up, Tensor(b!) main_grad_down, bool accumulate, int top_k, "
     "int experts, int first_expert, int capacity, int activation, int format, int grad_format, "
     "int wgrad, bool saved_dw, bool need_dx) -> (Tensor dx, Tensor dweights)",
     &boxed<moe_mlp_backward_main_grad>},
};

}  // namespace

Operators moe_mlp_operators() { return kOperators; }

}  // namespace octet_torch
