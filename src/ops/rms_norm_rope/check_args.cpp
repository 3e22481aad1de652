// Checks the tensors of a call of rms_norm_rope: those of q, then those of k.
#include "ops/rms_norm_rope/problem.hpp"

namespace octet {
namespace {

constexpr std::string_view kOp = "rms_norm_rope";

// The names of the tensors of q or of k, and their shapes, in messages.
struct Names {
  std::string_view x, g, rstd, out, dout, dx, dg;
  std::string_view heads_shape, row_weight_shape, head_rstd_shape;
};
constexpr Names kQ{"q",
                   "g_q",
                   "rstd_q",
                   "q_out",
                   "dq_out",
                   "dq",
                   "dg_q",
                   "[batch, seq, q_heads, head_dim]",
                   "[q_heads * head_dim]",
                   "[batch * seq * q_heads]"};
constexpr Names kK{"k",
                   "g_k",
                   "rstd_k",
                   "k_out",
                   "dk_out",
                   "dk",
                   "dg_k",
                   "[batch, seq, k_heads, head_dim]",
                   "[k_heads * head_dim]",
                   "[batch * seq * k_heads]"};

// The forms required of the tensors of q or k.
struct Forms {
  TensorForm heads, weight, gradient, rstd;

  Forms(const RmsNormRopeProblem& problem, const RotatedHeads& rotated, const Names& names,
        std::int64_t count)
      : heads(rotated.form(count, names.heads_shape)),
        weight(problem.weight_dtype, {weight_length(problem, count)},
               problem.norm == NormScope::head ? "[head_dim]" : names.row_weight_shape),
        gradient(problem.dg_dtype, {weight_length(problem, count)}, weight.spelling),
        rstd(Dtype::f32, {rotated.tokens() * norms_per_token(problem, count)},
             problem.norm == NormScope::head ? names.head_rstd_shape : "[batch * seq]") {}
};

}  // namespace

void check(const RmsNormRopeProblem& problem, const RmsNormRopeForwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  const RotatedHeads heads = rotated_heads(problem);
  Call call(kOp, problem.device);
  const auto list_side = [&](const Names& names, std::int64_t count, const TensorView& x,
                             const TensorView& g, const TensorView& out, const TensorView& rstd) {
    const Forms forms(problem, heads, names, count);
    call.reads(names.x, x, forms.heads, names.out);
    call.reads(names.g, g, forms.weight);
    call.writes(names.out, out, forms.heads);
    if (problem.training) call.writes(names.rstd, rstd, forms.rstd);
  };
  list_side(kQ, problem.q_heads, args.q, args.g_q, args.q_out, args.rstd_q);
  if (problem.k_heads > 0) {
    list_side(kK, problem.k_heads, args.k, args.g_k, args.k_out, args.rstd_k);
  }
  read_rotation(call, heads, args.rotation);
  call.check_apart(workspace_bytes, workspace);
}

void check(const RmsNormRopeProblem& problem, const RmsNormRopeBackwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  const RotatedHeads heads = rotated_heads(problem);
  Call call(kOp, problem.device);
  const auto list_side = [&](const Names& names, std::int64_t count, const TensorView& dout,
                             const TensorView& x, const TensorView& g, const TensorView& rstd,
                             const TensorView& dx, const TensorView& dg) {
    const Forms forms(problem, heads, names, count);
    call.reads(names.dout, dout, forms.heads, names.dx);
    call.reads(names.x, x, forms.heads, names.dx);
    call.reads(names.g, g, forms.weight);
    call.reads(names.rstd, rstd, forms.rstd);
    call.writes(names.dx, dx, forms.heads);
    call.writes(names.dg, dg, forms.gradient);
  };
  list_side(kQ, problem.q_heads, args.dq_out, args.q, args.g_q, args.rstd_q, args.dq, args.dg_q);
  if (problem.k_heads > 0) {
    list_side(kK, problem.k_heads, args.dk_out, args.k, args.g_k, args.rstd_k, args.dk, args.dg_k);
  }
  read_rotation(call, heads, args.rotation);
  call.check_apart(workspace_bytes, workspace);
}

std::vector<ForwardSide> sides_of(const RmsNormRopeProblem& problem,
                                  const RmsNormRopeForwardArgs& args) {
  std::vector<ForwardSide> sides{{problem.q_heads, args.q, args.g_q, args.q_out, args.rstd_q}};
  if (problem.k_heads > 0) {
    sides.push_back({problem.k_heads, args.k, args.g_k, args.k_out, args.rstd_k});
  }
  return sides;
}

std::vector<BackwardSide> sides_of(const RmsNormRopeProblem& problem,
                                   const RmsNormRopeBackwardArgs& args) {
  std::vector<BackwardSide> sides{
      {problem.q_heads, args.dq_out, args.q, args.g_q, args.rstd_q, args.dq, args.dg_q}};
  if (problem.k_heads > 0) {
    sides.push_back(
        {problem.k_heads, args.dk_out, args.k, args.g_k, args.rstd_k, args.dk, args.dg_k});
  }
  return sides;
}

}  // namespace octet
