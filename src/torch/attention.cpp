// attention: softmax(scale q k^T, masked) v of every head, and its gradients. Tensors are
// [batch, seq, heads, dim] with any strides but the last, or [total, heads, dim] with offsets.
#include "torch/error.hpp"
#include "torch/operators.hpp"
#include "torch/plan_cache.hpp"

namespace octet_torch {

namespace {

// (q, k, v, sink, offsets_q, offsets_kv) as they stand in the schemas.
struct Inputs {
  Tensor q, k, v;
  Tensor sink;                   // [heads_q], f32, or None
  Tensor offsets_q, offsets_kv;  // [sequences + 1], or None

  Inputs(const StackValue* stack, int first)
      : q(stack[first]),
        k(stack[first + 1]),
        v(stack[first + 2]),
        sink(optional_at(stack, first + 3)),
        offsets_q(optional_at(stack, first + 4)),
        offsets_kv(optional_at(stack, first + 5)) {}

  bool packed() const { return offsets_q.get() != nullptr; }
};

octet_attention_inputs views_of(const Inputs& in) {
  if (in.packed() != (in.offsets_kv.get() != nullptr)) {
    refuse("octet: offsets_q and offsets_kv must be given together");
  }
  const int rank = in.packed() ? 3 : 4;
  octet_attention_inputs views{};
  views.q = view_of(in.q, "q", rank);
  views.k = view_of(in.k, "k", rank);
  views.v = view_of(in.v, "v", rank);
  if (in.sink.get() != nullptr) views.sink = view_of(in.sink, "sink", 1);
  if (in.packed()) {
    views.offsets_q = index_view_of(in.offsets_q, "offsets_q", 1);
    views.offsets_kv = index_view_of(in.offsets_kv, "offsets_kv", 1);
  }
  return views;
}

// (max_seq_q, max_seq_kv, left, right, align, scale) as they stand in the schemas. The bounds are for
// offsets; 0: the number of rows.
octet_attention_problem problem_of(const octet_attention_inputs& in, const StackValue* stack,
                                   int first) {
  octet_attention_problem problem;
  octet_init_attention_problem(&problem);
  const bool packed = in.q.rank == 3;
  const int heads = packed ? 1 : 2;  // the dimension
  problem.dtype = in.q.dtype;
  problem.device = in.q.device;
  problem.heads_q = in.q.shape[heads];
  problem.heads_kv = in.k.shape[heads];
  problem.dim_qk = in.q.shape[heads + 1];
  problem.dim_v = in.v.shape[heads + 1];
  if (packed) {
    const std::int64_t longest_q = int_at(stack, first), longest_kv = int_at(stack, first + 1);
    if (in.offsets_q.shape[0] < 1) refuse("octet: offsets_q must have at least one element, got 0");
    problem.batch = in.offsets_q.shape[0] - 1;
    problem.offsets_dtype = in.offsets_q.dtype;
    problem.total_q = in.q.shape[0];
    problem.total_kv = in.k.shape[0];
    problem.seq_q = longest_q == 0 ? problem.total_q : longest_q;
    problem.seq_kv = longest_kv == 0 ? problem.total_kv : longest_kv;
  } else {
    problem.batch = in.q.shape[0];
    problem.seq_q = in.q.shape[1];
    problem.seq_kv = in.k.shape[1];
  }
  problem.left = int_at(stack, first + 2);
  problem.right = int_at(stack, first + 3);
  problem.align = static_cast<octet_mask_alignment>(int_at(stack, first + 4));
  problem.scale = static_cast<float>(double_at(stack, first + 5));
  problem.sink = in.sink.rank == 0 ? 0 : 1;
  return problem;
}

// A dense tensor of this view's shape.
Tensor empty_like(const octet_tensor& view, const Tensor& like) {
  const std::int64_t* s = view.shape;
  const std::int32_t dtype = torch_dtype(view.dtype);
  return view.rank == 3 ? empty({s[0], s[1], s[2]}, dtype, like)
                        : empty({s[0], s[1], s[2], s[3]}, dtype, like);
}

// (q, k, v, sink, offsets_q, offsets_kv, max_seq_q, max_seq_kv, left, right, align, scale, out_dtype)
// -> out, lse
void forward(StackValue* stack) {
  const Inputs in(stack, 0);
  octet_attention_forward_args args;
  OCTET_INIT(&args);
  args.inputs = views_of(in);
  octet_attention_problem problem = problem_of(args.inputs, stack, 6);
  problem.out_dtype = static_cast<octet_dtype>(int_at(stack, 12));
  octet_tensor form = args.inputs.q;  // of out
  form.shape[form.rank - 1] = problem.dim_v;
  if (problem.out_dtype != 0) form.dtype = problem.out_dtype;
  Tensor out = empty_like(form, in.q);
  Tensor lse = in.packed() ? empty({problem.heads_q, problem.total_q}, shim.f32, in.q)
                           : empty({problem.batch, problem.heads_q, problem.seq_q}, shim.f32, in.q);
  args.out = view_of(out, "out");
  args.lse = view_of(lse, "lse");
  const CachedPlan plan = find_plan(problem, octet_make_attention_forward_plan);
  const Workspace workspace(plan.workspace_bytes, in.q);
  check(octet_run_attention_forward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                    current_stream(problem.device)));
  stack[0] = out.release();
  stack[1] = lse.release();
}

// (dout, dlse, q, k, v, sink, offsets_q, offsets_kv, out, lse, max_seq_q, max_seq_kv, left, right, align,
//  scale) -> dq, dk, dv, dsink, which is [0] without a sink
void backward(StackValue* stack) {
  const Tensor dout(stack[0]), dlse = optional_at(stack, 1);
  const Inputs in(stack, 2);
  const Tensor out(stack[8]), lse(stack[9]);
  octet_attention_backward_args args;
  OCTET_INIT(&args);
  args.inputs = views_of(in);
  octet_attention_problem problem = problem_of(args.inputs, stack, 10);
  args.out = view_of(out, "out", args.inputs.q.rank);
  args.lse = view_of(lse, "lse", args.inputs.q.rank - 1);
  args.dout = view_of(dout, "dout", args.inputs.q.rank);
  if (dlse.get() != nullptr) args.dlse = view_of(dlse, "dlse", args.inputs.q.rank - 1);
  problem.out_dtype = args.out.dtype;
  Tensor dq = empty_like(args.inputs.q, in.q), dk = empty_like(args.inputs.k, in.q),
         dv = empty_like(args.inputs.v, in.q);
  Tensor dsink =
      problem.sink != 0 ? empty({problem.heads_q}, shim.f32, in.q) : absent(shim.f32, in.q);
  args.dq = view_of(dq, "dq");
  args.dk = view_of(dk, "dk");
  args.dv = view_of(dv, "dv");
  if (problem.sink != 0) args.dsink = view_of(dsink, "dsink");
  const CachedPlan plan = find_plan(problem, octet_make_attention_backward_plan);
  const Workspace workspace(plan.workspace_bytes, in.q);
  check(octet_run_attention_backward(plan.get(), &args, workspace.data(), plan.workspace_bytes,
                                     current_stream(problem.device)));
  stack[0] = dq.release();
  stack[1] = dk.release();
  stack[2] = dv.release();
  stack[3] = dsink.release();
}

// left, right: keys before and behind a query's place, -1 for all. align: bottom right (1) or top left
// (2). scale 0: 1 / sqrt(dim). out_dtype 0: that of q.
constexpr Operator kOperators[] = {
    {"attention_forward(Tensor q, Tensor k, Tensor v, Tensor? sink, Tensor? offsets_q, "
     "Tensor? offsets_kv, SymInt max_seq_q, SymInt max_seq_kv, int left, int right, int align, "
     "float scale, int out_dtype) -> (Tensor out, Tensor lse)",
     &boxed<forward>},
    {"attention_backward(Tensor dout, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor? sink, "
     "Tensor? offsets_q, Tensor? offsets_kv, Tensor out, Tensor lse, SymInt max_seq_q, "
     "SymInt max_seq_kv, int left, int right, int align, float scale) -> "
     "(Tensor dq, Tensor dk, Tensor dv, Tensor dsink)",
     &boxed<backward>},
};

}  // namespace

Operators attention_operators() { return kOperators; }

}  // namespace octet_torch
