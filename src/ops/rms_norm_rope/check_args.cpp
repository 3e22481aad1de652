// What is asked of the tensors of rms_norm_rope.
#include "core/checks.hpp"
#include "ops/rms_norm_rope/problem.hpp"

namespace octet {
namespace {

constexpr std::string_view kOp = "rms_norm_rope";

// How messages call what belongs to q or to k.
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

// The questions about one side; what passes is noted in `tensors`.
class SideChecks {
 public:
  SideChecks(const RmsNormRopeProblem& problem, const Names& names, std::int64_t heads,
             CallTensors& tensors)
      : problem_(problem),
        rotated_(rotated_heads(problem)),
        names_(names),
        heads_(heads),
        tensors_(tensors) {}

  void read_heads(std::string_view name, const TensorView& view, std::string_view replaced_by) {
    check_heads({kOp, name}, view, rotated_, heads_, names_.heads_shape);
    tensors_.read.push_back({name, view, replaced_by});
  }
  void write_heads(std::string_view name, const TensorView& view) {
    check_heads({kOp, name}, view, rotated_, heads_, names_.heads_shape);
    tensors_.written.push_back({name, view});
  }
  void read_weight(const TensorView& view) {
    check_weight(names_.g, view, problem_.weight);
    tensors_.read.push_back({names_.g, view});
  }
  void write_weight_gradient(const TensorView& view) {
    check_weight(names_.dg, view, problem_.dg);
    tensors_.written.push_back({names_.dg, view});
  }
  void read_rstd(const TensorView& view) {
    check_rstd(view);
    tensors_.read.push_back({names_.rstd, view});
  }
  void write_rstd(const TensorView& view) {
    check_rstd(view);
    tensors_.written.push_back({names_.rstd, view});
  }

 private:
  void check_weight(std::string_view name, const TensorView& view, Dtype dtype) const {
    const bool per_head = problem_.norm == NormScope::head;
    check_vector({kOp, name}, view, dtype, weight_length(problem_, heads_), problem_.device,
                 per_head ? "[head_dim]" : names_.row_weight_shape);
  }
  void check_rstd(const TensorView& view) const {
    const bool per_head = problem_.norm == NormScope::head;
    check_vector({kOp, names_.rstd}, view, Dtype::f32,
                 rotated_.tokens() * norms_per_token(problem_, heads_), problem_.device,
                 per_head ? names_.head_rstd_shape : "[batch * seq]");
  }

  const RmsNormRopeProblem& problem_;
  RotatedHeads rotated_;
  const Names& names_;
  std::int64_t heads_;
  CallTensors& tensors_;
};

// The rotation, and that everything lies apart.
void check_shared(const RmsNormRopeProblem& problem, const RotationArgs& args, CallTensors& tensors,
                  std::size_t workspace_bytes, const Workspace& workspace) {
  check_rotation(kOp, rotated_heads(problem), args);
  add_rotation(problem.rotation, args, tensors);
  check_written_apart(kOp, tensors);
  check_workspace(kOp, workspace_bytes, workspace);
  for (const ReadTensor& in : tensors.read) {
    check_workspace_apart(kOp, workspace_bytes, workspace, {{in.name, in.view}});
  }
  for (const WrittenTensor& out : tensors.written) {
    check_workspace_apart(kOp, workspace_bytes, workspace, {{out.name, out.view}});
  }
}

}  // namespace

void check(const RmsNormRopeProblem& problem, const RmsNormRopeForwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  CallTensors tensors;
  for (const ForwardSide& side : sides_of(problem, args)) {
    const Names& names = side.is_q ? kQ : kK;
    SideChecks checks(problem, names, side.heads, tensors);
    checks.read_heads(names.x, side.x, names.out);
    checks.read_weight(side.g);
    checks.write_heads(names.out, side.out);
    if (problem.training) checks.write_rstd(side.rstd);
  }
  check_shared(problem, args.rotation, tensors, workspace_bytes, workspace);
}

void check(const RmsNormRopeProblem& problem, const RmsNormRopeBackwardArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  CallTensors tensors;
  for (const BackwardSide& side : sides_of(problem, args)) {
    const Names& names = side.is_q ? kQ : kK;
    SideChecks checks(problem, names, side.heads, tensors);
    checks.read_heads(names.dout, side.dout, names.dx);
    checks.read_heads(names.x, side.x, names.dx);
    checks.read_weight(side.g);
    checks.read_rstd(side.rstd);
    checks.write_heads(names.dx, side.dx);
    checks.write_weight_gradient(side.dg);
  }
  check_shared(problem, args.rotation, tensors, workspace_bytes, workspace);
}

std::vector<ForwardSide> sides_of(const RmsNormRopeProblem& problem,
                                  const RmsNormRopeForwardArgs& args) {
  std::vector<ForwardSide> sides{
      {true, problem.q_heads, args.q, args.g_q, args.q_out, args.rstd_q}};
  if (problem.k_heads > 0) {
    sides.push_back({false, problem.k_heads, args.k, args.g_k, args.k_out, args.rstd_k});
  }
  return sides;
}

std::vector<BackwardSide> sides_of(const RmsNormRopeProblem& problem,
                                   const RmsNormRopeBackwardArgs& args) {
  std::vector<BackwardSide> sides{
      {true, problem.q_heads, args.dq_out, args.q, args.g_q, args.rstd_q, args.dq, args.dg_q}};
  if (problem.k_heads > 0) {
    sides.push_back(
        {false, problem.k_heads, args.dk_out, args.k, args.g_k, args.rstd_k, args.dk, args.dg_k});
  }
  return sides;
}

}  // namespace octet
