// The operators on heads: rope and rms_norm_rope.
#include "outputs.hpp"

#include <algorithm>

namespace octet::same {
namespace {

enum class Layout { dense, gaps, heads_first };

// Shapes of q and k, their layout, and the rotation.
struct Heads {
  std::int64_t batch;
  std::int64_t seq;
  std::int64_t q_heads;
  std::int64_t k_heads;
  std::int64_t head_dim;
  Dtype dtype;
  Layout layout;
  bool in_place;
  Rotation rotation;
};

Heads any_heads(Trial& trial) {
  Draw& draw = trial.draw;
  Heads heads{};
  heads.batch = draw.pick("batch", {1, 2, 3});
  heads.seq = draw.pick("seq", {1, 2, 7, 16, 33});
  heads.q_heads = draw.pick("q_heads", {1, 2, 3, 8});
  heads.k_heads = draw.pick("k_heads", {0, 1, 2, 3});
  heads.head_dim = draw.pick("head_dim", {2, 8, 22, 32, 64, 96, 128, 256});
  heads.dtype = trial.float_dtype("dtype");
  heads.layout = draw.pick<Layout>(
      "layout",
      {{"dense", Layout::dense}, {"gaps", Layout::gaps}, {"heads_first", Layout::heads_first}});
  heads.in_place = draw.once_in(4, "in_place");
  Rotation& rotation = heads.rotation;
  rotation.style = draw.pick<RopeStyle>(
      "style", {{"rotate_half", RopeStyle::rotate_half}, {"interleaved", RopeStyle::interleaved}});
  if (draw.below(2) == 0) {
    rotation.rotary_dim = 2 * draw.size("half_rotary_dim", static_cast<double>(heads.head_dim / 2));
  }
  rotation.full_cache = draw.once_in(3, "full_cache");
  rotation.cache_dtype = trial.float_dtype("cache");
  if (draw.below(2) == 0) {
    rotation.positions_dtype =
        draw.pick<Dtype>("positions", {{"i32", Dtype::i32}, {"i64", Dtype::i64}});
    rotation.cache_rows = draw.pick("cache_rows", {1, 3, 40});
  }
  return heads;
}

// Of rope and of rms_norm_rope.
template <class Problem>
void set_heads(const Heads& heads, Problem& problem) {
  problem.batch = heads.batch;
  problem.seq = heads.seq;
  problem.q_heads = heads.q_heads;
  problem.k_heads = heads.k_heads;
  problem.head_dim = heads.head_dim;
  problem.dtype = heads.dtype;
  problem.rotation = heads.rotation;
}

// The view of [batch, seq, count, head_dim] on elements that make() gives a number of.
template <class Make>
TensorView heads_view(const Heads& heads, std::int64_t count, const Make& make) {
  if (count == 0) return {};
  TensorView view = make_view(static_cast<void*>(nullptr), heads.dtype,
                              {heads.batch, heads.seq, count, heads.head_dim});
  const std::int64_t token = count * heads.head_dim;
  if (heads.layout == Layout::gaps) {
    view.strides[1] = token + 37;
    view.strides[0] = heads.seq * view.strides[1];
  } else if (heads.layout == Layout::heads_first) {
    view.strides = {heads.seq * token, heads.head_dim, heads.seq * heads.head_dim, 1};
  }
  const TensorView memory = make(heads.batch * view.strides[0]);
  view.data = memory.data;
  view.device = memory.device;
  return view;
}

TensorView read_heads(Trial& trial, const Heads& heads, std::int64_t count) {
  return heads_view(heads, count,
                    [&](std::int64_t total) { return trial.elements("", heads.dtype, total); });
}

struct InOut {
  TensorView in;
  TensorView out;
};

InOut turned_heads(Trial& trial, const Heads& heads, std::int64_t count, const std::string& name) {
  if (heads.in_place) {
    const TensorView both = heads_view(
        heads, count, [&](std::int64_t total) { return trial.elements(name, heads.dtype, total); });
    return {both, both};
  }
  return {read_heads(trial, heads, count), heads_view(heads, count, [&](std::int64_t total) {
            return trial.poison(name, heads.dtype, total);
          })};
}

// Random numbers: the operators do not ask for cos^2 + sin^2 = 1.
RotationArgs rotation_args(Trial& trial, const Heads& heads) {
  const Rotation& rotation = heads.rotation;
  const std::int64_t dim = rotation.rotary_dim != 0 ? rotation.rotary_dim : heads.head_dim;
  const std::int64_t rows = rotation.cache_rows != 0 ? rotation.cache_rows : heads.seq;
  const std::int64_t cols = rotation.full_cache ? dim : dim / 2;
  RotationArgs args;
  args.cos = trial.input(rotation.cache_dtype, rows, cols);
  args.sin = trial.input(rotation.cache_dtype, rows, cols);
  if (rotation.positions_dtype) {
    args.positions = trial.indices(*rotation.positions_dtype, heads.batch, heads.seq, rows);
  }
  return args;
}

}  // namespace

void try_rope(Trial& trial) {
  const Heads heads = any_heads(trial);
  RopeProblem problem;
  problem.device = trial.device;
  set_heads(heads, problem);
  const PlanOptions options = trial.plan_options();
  const RotationArgs rotation = rotation_args(trial, heads);
  const auto try_pass = [&](const std::string& pass, auto args, const auto& make_plan) {
    const InOut q = turned_heads(trial, heads, heads.q_heads, pass + " q");
    const InOut k = turned_heads(trial, heads, heads.k_heads, pass + " k");
    args = {q.in, k.in, q.out, k.out, rotation};
    trial.run_pass(pass, make_plan, problem, options, args);
  };
  try_pass("forward", RopeForwardArgs{}, plan_rope_forward);
  try_pass("backward", RopeBackwardArgs{}, plan_rope_backward);
}

void try_rms_norm_rope(Trial& trial) {
  Draw& draw = trial.draw;
  const Heads heads = any_heads(trial);
  RmsNormRopeProblem problem;
  problem.device = trial.device;
  set_heads(heads, problem);
  problem.norm = draw.pick<NormScope>("norm", {{"row", NormScope::row}, {"head", NormScope::head}});
  problem.weight_dtype = trial.float_dtype("weight");
  problem.eps = draw.pick<float>("eps", {{"1e-6", 1e-6f}, {"1e-5", 1e-5f}});
  problem.one_plus_weight = draw.once_in(3, "one_plus_weight");
  problem.training = !draw.once_in(6, "inference");
  problem.dg_dtype = trial.float_dtype("dg");
  const PlanOptions options = trial.plan_options();
  const bool by_row = problem.norm == NormScope::row;
  const auto weights = [&](std::int64_t count) { return (by_row ? count : 1) * heads.head_dim; };
  const auto norms = [&](std::int64_t count) {
    return heads.batch * heads.seq * (by_row ? 1 : count);
  };
  const bool has_k = heads.k_heads > 0;

  const InOut q = turned_heads(trial, heads, heads.q_heads, "q_out");
  const InOut k = turned_heads(trial, heads, heads.k_heads, "k_out");
  RmsNormRopeForwardArgs forward;
  forward.q = q.in;
  forward.k = k.in;
  forward.q_out = q.out;
  forward.k_out = k.out;
  forward.g_q = trial.vector(problem.weight_dtype, weights(heads.q_heads));
  if (has_k) forward.g_k = trial.vector(problem.weight_dtype, weights(heads.k_heads));
  if (problem.training) {
    forward.rstd_q = trial.output_vector("rstd_q", Dtype::f32, norms(heads.q_heads));
    if (has_k) forward.rstd_k = trial.output_vector("rstd_k", Dtype::f32, norms(heads.k_heads));
  }
  forward.rotation = rotation_args(trial, heads);
  trial.run_pass("forward", plan_rms_norm_rope_forward, problem, options, forward);
  if (!problem.training) return;

  const InOut dq = turned_heads(trial, heads, heads.q_heads, "dq");
  const InOut dk = turned_heads(trial, heads, heads.k_heads, "dk");
  RmsNormRopeBackwardArgs backward;
  backward.dq_out = dq.in;
  backward.dk_out = dk.in;
  backward.dq = dq.out;
  backward.dk = dk.out;
  backward.q = read_heads(trial, heads, heads.q_heads);
  backward.k = read_heads(trial, heads, heads.k_heads);
  backward.g_q = forward.g_q;
  backward.g_k = forward.g_k;
  backward.rstd_q = trial.positive_vector(norms(heads.q_heads));
  if (has_k) backward.rstd_k = trial.positive_vector(norms(heads.k_heads));
  backward.dg_q = trial.output_vector("dg_q", problem.dg_dtype, weights(heads.q_heads));
  if (has_k) backward.dg_k = trial.output_vector("dg_k", problem.dg_dtype, weights(heads.k_heads));
  backward.rotation = forward.rotation;
  trial.run_pass("backward", plan_rms_norm_rope_backward, problem, options, backward);
}

}  // namespace octet::same
