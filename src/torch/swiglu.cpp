// swiglu: silu(gate) * up. gate and up are two tensors, or the halves of one.
#include "torch/swiglu.hpp"

#include "torch/error.hpp"
#include "torch/plan_cache.hpp"

#include <string>

namespace octet_torch {

namespace {

octet_gated_activation_problem problem_of(const octet_tensor& gate) {
  octet_gated_activation_problem problem;
  octet_init_gated_activation_problem(&problem);
  problem.dtype = gate.dtype;
  problem.rows = gate.shape[0];
  problem.cols = gate.shape[1];
  problem.device = gate.device;
  return problem;
}

void run_forward(const octet_gated_activation_problem& problem,
                 octet_gated_activation_forward_args& args, const Halves& in, const Tensor& like) {
  args.gate = in.gate;
  args.up = in.up;
  const CachedPlan plan = find_plan(problem, octet_make_gated_activation_forward_plan);
  const Workspace workspace(plan.workspace_bytes, like);
  check(octet_run_gated_activation_forward(plan.get(), &args, workspace.data(),
                                           plan.workspace_bytes, current_stream(problem.device)));
}

void run_backward(const octet_gated_activation_problem& problem,
                  octet_gated_activation_backward_args& args, const Tensor& dy, const Halves& in,
                  const Tensor& like) {
  args.dy = view_of(dy, "dy", 2);
  args.gate = in.gate;
  args.up = in.up;
  const CachedPlan plan = find_plan(problem, octet_make_gated_activation_backward_plan);
  const Workspace workspace(plan.workspace_bytes, like);
  check(octet_run_gated_activation_backward(plan.get(), &args, workspace.data(),
                                            plan.workspace_bytes, current_stream(problem.device)));
}

// (gate, up) with up None for a packed gate.
struct Input {
  Tensor gate, up;
  Halves halves;

  Input(const StackValue* stack, int first)
      : gate(stack[first]), up(optional_at(stack, first + 1)) {
    if (packed()) {
      halves = halves_of(gate, "gate_up");
    } else {
      halves = {view_of(gate, "gate", 2), view_of(up, "up", 2)};
    }
  }

  bool packed() const { return up.get() == nullptr; }
};

// (gate, up) -> y
void swiglu(StackValue* stack) {
  const Input in(stack, 0);
  stack[0] = swiglu_of(in.halves, in.gate).release();
}

// (gate, up, format, wgrad, save_x) -> carrier, values, scales, t_values, t_scales
void swiglu_quantized(StackValue* stack) {
  const Input in(stack, 0);
  const auto format = static_cast<octet_dtype>(int_at(stack, 2));
  Copies out =
      swiglu_in_fp8(in.halves, in.gate, format, Scaling(int_at(stack, 3)), true, bool_at(stack, 4));
  stack[0] = carrier_like(in.halves.gate, in.gate).release();
  out.row.release(&stack[1], &stack[2], in.gate);
  out.column.release(&stack[3], &stack[4], in.gate);
}

// (dy, gate, up) -> dgate, dup; of a packed gate one packed gradient
void swiglu_backward(StackValue* stack) {
  const Tensor dy(stack[0]);
  const Input in(stack, 1);
  const octet_gated_activation_problem problem = problem_of(in.halves.gate);
  const std::int32_t dtype = torch_dtype(problem.dtype);
  Tensor d_gate = empty({problem.rows, problem.cols * (in.packed() ? 2 : 1)}, dtype, in.gate);
  Tensor d_up =
      in.packed() ? absent(dtype, in.gate) : empty({problem.rows, problem.cols}, dtype, in.gate);
  const Halves out = in.packed() ? halves_of(d_gate, "d_gate_up")
                                 : Halves{view_of(d_gate, "d_gate"), view_of(d_up, "d_up")};
  octet_gated_activation_backward_args args;
  OCTET_INIT(&args);
  args.dgate = out.gate;
  args.dup = out.up;
  run_backward(problem, args, dy, in.halves, in.gate);
  stack[0] = d_gate.release();
  stack[1] = d_up.release();
}

constexpr Operator kOperators[] = {
    {"swiglu(Tensor gate, Tensor? up) -> Tensor", &boxed<swiglu>},
    {"swiglu_quantized(Tensor gate, Tensor? up, int format, int wgrad, bool save_x) -> "
     "(Tensor carrier, Tensor values, Tensor scales, Tensor t_values, Tensor t_scales)",
     &boxed<swiglu_quantized>},
    {"swiglu_backward(Tensor dy, Tensor gate, Tensor? up) -> (Tensor dgate, Tensor dup)",
     &boxed<swiglu_backward>},
};

}  // namespace

Halves halves_of(const Tensor& packed, const char* name) {
  Halves halves;
  halves.gate = view_of(packed, name, 2);
  if (halves.gate.shape[1] % 2 != 0) {
    refuse(std::string("octet: ") + name + " must have an even number of columns, gate | up, got " +
           std::to_string(halves.gate.shape[1]));
  }
  halves.gate.shape[1] /= 2;
  halves.up = halves.gate;
  halves.up.data = static_cast<char*>(halves.gate.data) +
                   halves.gate.shape[1] * halves.gate.strides[1] *
                       static_cast<std::int64_t>(octet_dtype_size(halves.gate.dtype));
  return halves;
}

Copies swiglu_in_fp8(const Halves& in, const Tensor& like, octet_dtype format,
                     const Scaling& scaling, bool row, bool column) {
  octet_gated_activation_problem problem = problem_of(in.gate);
  const octet_block block = row ? scaling.rows() : octet_no_copy();
  const octet_block transposed_block = column ? scaling.transposed() : octet_no_copy();
  if (problem.rows != 0 && !scaling.one_pass_writes(problem.dtype, row, column)) {
    return cast(swiglu_of(in, like), "y", {format, scaling}, block, transposed_block,
                Returned::both);
  }
  Copies out = empty_copies(problem.rows, problem.cols, format, block, transposed_block, like);
  if (problem.rows == 0) return out;  // no tokens
  problem.fp8 = output_of(out, format);
  octet_gated_activation_forward_args args;
  OCTET_INIT(&args);
  args.fp8 = views_of(out);
  run_forward(problem, args, in, like);
  return out;
}

Copies swiglu_backward_in_fp8(const Tensor& dy, const Halves& in, const Tensor& like,
                              octet_dtype format, bool row, bool column) {
  octet_gated_activation_problem problem = problem_of(in.gate);
  Copies out =
      empty_copies(problem.rows, 2 * problem.cols, format, row ? row_block() : octet_no_copy(),
                   column ? row_block() : octet_no_copy(), like);
  problem.fp8 = output_of(out, format);
  octet_gated_activation_backward_args args;
  OCTET_INIT(&args);
  args.fp8 = views_of(out);
  run_backward(problem, args, dy, in, like);
  return out;
}

Tensor swiglu_of(const Halves& in, const Tensor& like) {
  const octet_gated_activation_problem problem = problem_of(in.gate);
  Tensor y = empty({problem.rows, problem.cols}, torch_dtype(problem.dtype), like);
  octet_gated_activation_forward_args args;
  OCTET_INIT(&args);
  args.y = view_of(y, "y");
  run_forward(problem, args, in, like);
  return y;
}

Tensor swiglu_backward_of(const Tensor& dy, const Halves& in, const Tensor& like) {
  const octet_gated_activation_problem problem = problem_of(in.gate);
  Tensor d_gate_up = empty({problem.rows, 2 * problem.cols}, torch_dtype(problem.dtype), like);
  const Halves out = halves_of(d_gate_up, "d_gate_up");
  octet_gated_activation_backward_args args;
  OCTET_INIT(&args);
  args.dgate = out.gate;
  args.dup = out.up;
  run_backward(problem, args, dy, in, like);
  return d_gate_up;
}

Operators swiglu_operators() { return kOperators; }

}  // namespace octet_torch
