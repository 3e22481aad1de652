// rope: rotary position embedding of q and k, and the rotation back for their gradients. q, k and v
// may lie packed in one tensor, as one projection makes them, and their gradients too.
#include "torch/error.hpp"
#include "torch/operators.hpp"
#include "torch/plan_cache.hpp"

#include <string>

namespace octet_torch {

namespace {

// (cos, sin, positions, interleaved) of the stack: cos and sin are [rows, columns], positions
// [batch, seq] or None.
struct Angles {
  Tensor cos, sin, positions;
  octet_rope_style style;

  Angles(const StackValue* stack, int first)
      : cos(stack[first]),
        sin(stack[first + 1]),
        positions(optional_at(stack, first + 2)),
        style(bool_at(stack, first + 3) ? OCTET_ROPE_INTERLEAVED : OCTET_ROPE_ROTATE_HALF) {}
};

enum class Pass { forward, backward };

// Rotates q [batch, seq, q_heads, head_dim] and k [batch, seq, k_heads, head_dim].
void rotate(Pass pass, const octet_tensor& q, const octet_tensor& k, const octet_tensor& q_out,
            const octet_tensor& k_out, const Angles& angles) {
  octet_rotation_args tables{};
  tables.cos = view_of(angles.cos, "cos", 2);
  tables.sin = view_of(angles.sin, "sin", 2);
  octet_rope_problem problem;
  octet_init_rope_problem(&problem);
  problem.dtype = q.dtype;
  problem.batch = q.shape[0];
  problem.seq = q.shape[1];
  problem.q_heads = q.shape[2];
  problem.k_heads = k.shape[2];
  problem.head_dim = q.shape[3];
  problem.device = q.device;
  problem.rotation.style = angles.style;
  problem.rotation.cache_rows = tables.cos.shape[0];
  problem.rotation.cache_dtype = tables.cos.dtype;
  // Tables as wide as a head hold every angle twice, as Hugging Face's do.
  problem.rotation.full_cache = tables.cos.shape[1] == problem.head_dim ? 1 : 0;
  problem.rotation.rotary_dim = tables.cos.shape[1] * (problem.rotation.full_cache ? 1 : 2);
  if (angles.positions.get() != nullptr) {
    tables.positions = index_view_of(angles.positions, "positions", 2);
    problem.rotation.positions_dtype = tables.positions.dtype;
  }
  void* const stream = current_stream(problem.device);
  if (pass == Pass::forward) {
    octet_rope_forward_args args;
    OCTET_INIT(&args);
    args.q = q;
    args.k = k;
    args.q_out = q_out;
    args.k_out = k_out;
    args.rotation = tables;
    const CachedPlan plan = find_plan(problem, octet_make_rope_forward_plan);
    const Workspace workspace(plan.workspace_bytes, angles.cos);
    check(
        octet_run_rope_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes, stream));
  } else {
    octet_rope_backward_args args;
    OCTET_INIT(&args);
    args.dq_out = q;
    args.dk_out = k;
    args.dq = q_out;
    args.dk = k_out;
    args.rotation = tables;
    const CachedPlan plan = find_plan(problem, octet_make_rope_backward_plan);
    const Workspace workspace(plan.workspace_bytes, angles.cos);
    check(
        octet_run_rope_backward(plan.get(), &args, workspace.data(), plan.workspace_bytes, stream));
  }
}

Tensor empty_heads(const octet_tensor& view, const Tensor& like) {
  return empty({view.shape[0], view.shape[1], view.shape[2], view.shape[3]},
               torch_dtype(view.dtype), like);
}

// (q, k, cos, sin, positions, interleaved) -> q, k rotated. q may have any strides but the last.
template <Pass pass>
void rotate_two(StackValue* stack) {
  const Tensor q(stack[0]), k(stack[1]);
  const Angles angles(stack, 2);
  const octet_tensor q_view = view_of(q, "q", 4), k_view = view_of(k, "k", 4);
  Tensor q_out = empty_heads(q_view, q), k_out = empty_heads(k_view, k);
  rotate(pass, q_view, k_view, view_of(q_out, "q_out"), view_of(k_out, "k_out"), angles);
  stack[0] = q_out.release();
  stack[1] = k_out.release();
}

// Where q, k and v lie in a dense tensor [batch, seq, (heads + 2 kv_heads) head_dim].
struct Packed {
  Tensor q, k, v;

  Packed(const Tensor& qkv, std::int64_t batch, std::int64_t seq, std::int64_t heads,
         std::int64_t kv_heads, std::int64_t head_dim) {
    const std::int64_t width = (heads + 2 * kv_heads) * head_dim;
    const auto part = [&](std::int64_t count, std::int64_t before) {
      return strided_view(qkv, {batch, seq, count, head_dim}, {seq * width, width, head_dim, 1},
                          before * head_dim);
    };
    q = part(heads, 0);
    k = part(kv_heads, heads);
    v = part(kv_heads, heads + kv_heads);
  }
};

// (qkv, heads, kv_heads, cos, sin, positions, interleaved) -> q, k rotated, v
void rope_qkv(StackValue* stack) {
  const Tensor qkv(stack[0]);
  const std::int64_t heads = int_at(stack, 1), kv_heads = int_at(stack, 2);
  const Angles angles(stack, 3);
  const octet_tensor view = view_of(qkv, "qkv", 3);
  const std::int64_t batch = view.shape[0], seq = view.shape[1], all = heads + 2 * kv_heads;
  if (heads < 1 || kv_heads < 1 || view.shape[2] % all != 0) {
    refuse("octet: qkv must have (heads + 2 kv_heads) head_dim columns, got " +
           std::to_string(view.shape[2]) + " for " + std::to_string(heads) + " heads and " +
           std::to_string(kv_heads) + " kv_heads");
  }
  if (view.strides[2] != 1 || view.strides[1] != view.shape[2] ||
      (batch > 1 && view.strides[0] != seq * view.shape[2])) {
    refuse("octet: qkv must be contiguous");
  }
  const Packed in(qkv, batch, seq, heads, kv_heads, view.shape[2] / all);
  const octet_tensor q = view_of(in.q, "q"), k = view_of(in.k, "k");
  Tensor q_out = empty_heads(q, qkv), k_out = empty_heads(k, qkv), v_out = empty_heads(k, qkv);
  rotate(Pass::forward, q, k, view_of(q_out, "q_out"), view_of(k_out, "k_out"), angles);
  copy_into(v_out, in.v);  // an operator's result may not be a view of its argument
  stack[0] = q_out.release();
  stack[1] = k_out.release();
  stack[2] = v_out.release();
}

// (dq, dk, dv, cos, sin, positions, interleaved) -> dqkv
void rope_qkv_backward(StackValue* stack) {
  const Tensor dq(stack[0]), dk(stack[1]), dv(stack[2]);
  const Angles angles(stack, 3);
  const octet_tensor q = view_of(dq, "dq", 4), k = view_of(dk, "dk", 4), v = view_of(dv, "dv", 4);
  const std::int64_t batch = q.shape[0], seq = q.shape[1], head_dim = q.shape[3];
  Tensor dqkv = empty({batch, seq, (q.shape[2] + k.shape[2] + v.shape[2]) * head_dim},
                      torch_dtype(q.dtype), dq);
  const Packed out(dqkv, batch, seq, q.shape[2], k.shape[2], head_dim);
  rotate(Pass::backward, q, k, view_of(out.q, "dq"), view_of(out.k, "dk"), angles);
  copy_into(out.v, dv);
  stack[0] = dqkv.release();
}

constexpr Operator kOperators[] = {
    {"rope(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor? positions, bool interleaved) -> "
     "(Tensor q_out, Tensor k_out)",
     &boxed<rotate_two<Pass::forward>>},
    {"rope_backward(Tensor dq_out, Tensor dk_out, Tensor cos, Tensor sin, Tensor? positions, "
     "bool interleaved) -> (Tensor dq, Tensor dk)",
     &boxed<rotate_two<Pass::backward>>},
    {"rope_qkv(Tensor qkv, int heads, int kv_heads, Tensor cos, Tensor sin, Tensor? positions, "
     "bool interleaved) -> (Tensor q, Tensor k, Tensor v)",
     &boxed<rope_qkv>},
    {"rope_qkv_backward(Tensor dq, Tensor dk, Tensor dv, Tensor cos, Tensor sin, "
     "Tensor? positions, bool interleaved) -> Tensor dqkv",
     &boxed<rope_qkv_backward>},
};

}  // namespace

Operators rope_operators() { return kOperators; }

}  // namespace octet_torch
