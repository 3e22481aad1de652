// rms_norm_rope, forward and backward, on q and k inside one tensor of q, k and v.
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/ops/rms_norm_reference.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"

#include <optional>

namespace octet {
namespace {

// The arguments of one call on q or k.
struct SideViews {
  TensorView x, g, rstd, out, dout, dx, dg;
};

// q or k: the inputs, and the outputs of both calls.
struct Side {
  std::string name;
  TensorView x;  // [tokens, heads * head_dim], in a tensor that has q, k and v
  Tensor dout;
  Tensor g;
  WrittenTwice out;
  std::optional<WrittenTwice> rstd;
  std::optional<WrittenTwice> dx;
  std::optional<WrittenTwice> dg;

  NormRopeInputs inputs() const { return {x, g, dout}; }
  SideViews views(const TokenShape& shape, int call) const {
    const auto heads = [&](const TensorView& matrix) {
      return matrix.data == nullptr ? matrix : as_heads(matrix, shape);
    };
    return {heads(x),
            g,
            view_of(rstd, call),
            heads(out.view(call)),
            heads(dout),
            heads(view_of(dx, call)),
            view_of(dg, call)};
  }
};

Side make_side(const RmsNormRopeProblem& problem, const std::string& name, const TensorView& x,
               std::uint32_t stream, const DataOptions& options) {
  const std::int64_t length = problem.norm == NormScope::row ? x.cols() : problem.head_dim;
  const auto heads_matrix = [&] {
    return WrittenTwice(problem.dtype, x.rows(), x.cols(), options.row_gap, problem.device);
  };
  Side side{name,           x,  {}, Tensor(problem.weight_dtype, {length}, problem.device),
            heads_matrix(), {}, {}, {}};
  fill_random(as_row(side.g), options.distribution, {options.seed, stream}, options.threads);
  if (!problem.training) return side;
  side.dout = random_matrix(problem.dtype, x.rows(), x.cols(), stream + 1, options, problem.device);
  side.rstd.emplace(Dtype::f32, x.rows() * (x.cols() / length), problem.device);
  side.dx.emplace(heads_matrix());
  side.dg.emplace(problem.dg_dtype, length, problem.device);
  return side;
}

std::vector<Side> make_sides(const RmsNormRopeProblem& problem, const Tensor& packed,
                             const DataOptions& options) {
  const std::int64_t q_cols = problem.q_heads * problem.head_dim;
  const std::int64_t k_cols = problem.k_heads * problem.head_dim;
  std::vector<Side> sides;
  sides.push_back(make_side(problem, "q", columns(packed, 0, q_cols), 1, options));
  if (k_cols > 0) {
    sides.push_back(make_side(problem, "k", columns(packed, q_cols, k_cols), 3, options));
  }
  return sides;
}

// Forward, then backward with what forward wrote.
void run_call(const RmsNormRopeProblem& problem, const DataOptions& options,
              const TokenShape& shape, const RotationArgs& rotation, const std::vector<Side>& sides,
              int call) {
  const SideViews q = sides[0].views(shape, call);
  const SideViews k = sides.size() > 1 ? sides[1].views(shape, call) : SideViews();
  const RmsNormRopeForwardArgs forward{q.x, k.x, q.g, k.g, q.out, k.out, q.rstd, k.rstd, rotation};
  const RmsNormRopeBackwardArgs backward{q.dout, k.dout, q.x,  k.x,  q.g,  k.g,     q.rstd,
                                         k.rstd, q.dx,   k.dx, q.dg, k.dg, rotation};
  const PlanOptions plan_options{options.backend, options.threads};
  run_once(plan_rms_norm_rope_forward(problem, plan_options), forward, problem.device);
  if (!problem.training) return;
  run_once(plan_rms_norm_rope_backward(problem, plan_options), backward, problem.device);
}

void judge_side(const RmsNormRopeProblem& problem, const Side& side,
                const RotationReference& rotation, const JudgeOptions& options,
                GateReport& report) {
  const NormRopeReference reference(problem, side.inputs(), rotation,
                                    judged_rows(side.x.rows(), side.x.cols(), options));
  side.out.judge(side.name + "_out", rows_of(reference, &NormRopeReference::out_row), options,
                 report);
  if (!problem.training) return;
  const NormRopeSums sums(problem, side.inputs(), rotation, options.threads);
  side.rstd->judge("rstd_" + side.name, row_of(sums.rstd), options, report);
  side.dx->judge("d" + side.name, rows_of(reference, &NormRopeReference::dx_row), options, report);
  side.dg->judge("dg_" + side.name, row_of(sums.dg), options, report);
}

GateReport judge_rms_norm_rope(const RmsNormRopeProblem& problem, const DataOptions& options) {
  const TokenShape shape = token_shape(problem);
  const RotationReference rotation(problem.rotation, shape, options.seed);
  const Tensor packed = random_qkv(problem, options);
  const std::vector<Side> sides = make_sides(problem, packed, options);
  run_call(problem, options, shape, rotation.args(), sides, 0);
  run_call(problem, options, shape, rotation.args(), sides, 1);
  GateReport report;
  for (const Side& side : sides) {
    judge_side(problem, side, rotation, judge_options(options, problem.device), report);
  }
  return report;
}

}  // namespace

GateReport check_rms_norm_rope(const RmsNormRopeProblem& problem, const DataOptions& options) {
  check_extent("check rms_norm_rope", "batch", problem.batch);
  check_extent("check rms_norm_rope", "seq", problem.seq);
  // Plans refuse what cannot run before any data is made.
  (void)plan_rms_norm_rope_forward(problem, {options.backend, options.threads});
  return within_memory("rms_norm_rope", describe(problem),
                       [&] { return judge_rms_norm_rope(problem, options); });
}

}  // namespace octet
