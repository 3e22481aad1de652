// rope: rotary position embedding of q and k, and the rotation back for their gradients.
#include "torch/error.hpp"
#include "torch/operators.hpp"
#include "torch/plan_cache.hpp"
#include "torch/tensor.hpp"

namespace octet_torch {

namespace {

// The arguments of both passes: (q, k, cos, sin, interleaved) -> q, k rotated. q is
// [batch, seq, heads, head_dim] with any strides but the last; cos and sin are [seq, columns].
struct Rotation {
  Tensor q, k, cos, sin;
  octet_tensor q_view, k_view;
  octet_rotation_args tables{};
  octet_rope_problem problem;
  Tensor q_out, k_out;

  explicit Rotation(const StackValue* stack)
      : q(stack[0]), k(stack[1]), cos(stack[2]), sin(stack[3]) {
    q_view = view_of(q, "q", 4);
    k_view = view_of(k, "k", 4);
    tables.cos = view_of(cos, "cos", 2);
    tables.sin = view_of(sin, "sin", 2);
    octet_init_rope_problem(&problem);
    problem.dtype = q_view.dtype;
    problem.batch = q_view.shape[0];
    problem.seq = q_view.shape[1];
    problem.q_heads = q_view.shape[2];
    problem.k_heads = k_view.shape[2];
    problem.head_dim = q_view.shape[3];
    problem.device = q_view.device;
    problem.rotation.style = bool_at(stack, 4) ? OCTET_ROPE_INTERLEAVED : OCTET_ROPE_ROTATE_HALF;
    problem.rotation.cache_rows = tables.cos.shape[0];
    problem.rotation.cache_dtype = tables.cos.dtype;
    // Tables as wide as a head hold every angle twice, as Hugging Face's do.
    problem.rotation.full_cache = tables.cos.shape[1] == problem.head_dim ? 1 : 0;
    problem.rotation.rotary_dim = tables.cos.shape[1] * (problem.rotation.full_cache ? 1 : 2);
    q_out = out_of(q_view, q);
    k_out = out_of(k_view, k);
  }

  static Tensor out_of(const octet_tensor& view, const Tensor& like) {
    return empty({view.shape[0], view.shape[1], view.shape[2], view.shape[3]},
                 torch_dtype(view.dtype), like);
  }

  void leave(StackValue* stack) {
    stack[0] = q_out.release();
    stack[1] = k_out.release();
  }
};

void rope(StackValue* stack) {
  Rotation call(stack);
  const CachedPlan plan = find_plan(call.problem, octet_make_rope_forward_plan);
  octet_rope_forward_args args;
  OCTET_INIT(&args);
  args.q = call.q_view;
  args.k = call.k_view;
  args.q_out = view_of(call.q_out, "q_out");
  args.k_out = view_of(call.k_out, "k_out");
  args.rotation = call.tables;
  const Workspace workspace(plan.workspace_bytes, call.q);
  check(octet_run_rope_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                               current_stream(call.problem.device)));
  call.leave(stack);
}

void rope_backward(StackValue* stack) {
  Rotation call(stack);
  const CachedPlan plan = find_plan(call.problem, octet_make_rope_backward_plan);
  octet_rope_backward_args args;
  OCTET_INIT(&args);
  args.dq_out = call.q_view;
  args.dk_out = call.k_view;
  args.dq = view_of(call.q_out, "dq");
  args.dk = view_of(call.k_out, "dk");
  args.rotation = call.tables;
  const Workspace workspace(plan.workspace_bytes, call.q);
  check(octet_run_rope_backward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                current_stream(call.problem.device)));
  call.leave(stack);
}

constexpr Operator kOperators[] = {
    {"rope(Tensor q, Tensor k, Tensor cos, Tensor sin, bool interleaved) -> "
     "(Tensor q_out, Tensor k_out)",
     &boxed<rope>},
    {"rope_backward(Tensor dq_out, Tensor dk_out, Tensor cos, Tensor sin, bool interleaved) -> "
     "(Tensor dq, Tensor dk)",
     &boxed<rope_backward>},
};

}  // namespace

Operators rope_operators() { return kOperators; }

}  // namespace octet_torch
