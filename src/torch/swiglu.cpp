// swiglu: y = silu(gate) * up, of gate | up in one tensor [rows, 2 cols], as a fused projection
// writes them.
#include "torch/error.hpp"
#include "torch/operators.hpp"
#include "torch/plan_cache.hpp"
#include "torch/tensor.hpp"

#include <string>

namespace octet_torch {

namespace {

struct Halves {
  octet_tensor gate, up;
};

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

octet_gated_activation_problem problem_of(const octet_tensor& gate) {
  octet_gated_activation_problem problem;
  octet_init_gated_activation_problem(&problem);
  problem.dtype = gate.dtype;
  problem.rows = gate.shape[0];
  problem.cols = gate.shape[1];
  problem.device = gate.device;
  return problem;
}

// (gate_up) -> y
void swiglu(StackValue* stack) {
  const Tensor gate_up(stack[0]);
  const Halves in = halves_of(gate_up, "gate_up");
  const octet_gated_activation_problem problem = problem_of(in.gate);
  const CachedPlan plan = find_plan(problem, octet_make_gated_activation_forward_plan);
  Tensor y = empty({problem.rows, problem.cols}, torch_dtype(problem.dtype), gate_up);
  octet_gated_activation_forward_args args;
  OCTET_INIT(&args);
  args.gate = in.gate;
  args.up = in.up;
  args.y = view_of(y, "y");
  const Workspace workspace(plan.workspace_bytes, gate_up);
  check(octet_run_gated_activation_forward(plan.get(), &args, workspace.data(),
                                           plan.workspace_bytes, current_stream(problem.device)));
  stack[0] = y.release();
}

// (dy, gate_up) -> d_gate_up
void swiglu_backward(StackValue* stack) {
  const Tensor dy(stack[0]), gate_up(stack[1]);
  const Halves in = halves_of(gate_up, "gate_up");
  const octet_gated_activation_problem problem = problem_of(in.gate);
  const CachedPlan plan = find_plan(problem, octet_make_gated_activation_backward_plan);
  Tensor d_gate_up = empty({problem.rows, 2 * problem.cols}, torch_dtype(problem.dtype), gate_up);
  const Halves out = halves_of(d_gate_up, "d_gate_up");
  octet_gated_activation_backward_args args;
  OCTET_INIT(&args);
  args.dy = view_of(dy, "dy", 2);
  args.gate = in.gate;
  args.up = in.up;
  args.dgate = out.gate;
  args.dup = out.up;
  const Workspace workspace(plan.workspace_bytes, gate_up);
  check(octet_run_gated_activation_backward(plan.get(), &args, workspace.data(),
                                            plan.workspace_bytes, current_stream(problem.device)));
  stack[0] = d_gate_up.release();
}

constexpr Operator kOperators[] = {
    {"swiglu(Tensor gate_up) -> Tensor", &boxed<swiglu>},
    {"swiglu_backward(Tensor dy, Tensor gate_up) -> Tensor", &boxed<swiglu_backward>},
};

}  // namespace

Operators swiglu_operators() { return kOperators; }

}  // namespace octet_torch
