// rope, forward and backward, on q and k inside one tensor of q, k and v.
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/reference/on_host.hpp"
#include "check/reference/rotation_reference.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"

namespace octet {
namespace {

// q or k.
struct Side {
  std::string tensor;
  TensorView input;  // [tokens, heads * head_dim]
  WrittenTwice output;
};

std::vector<Side> make_sides(const RopeProblem& problem, bool backward, const Tensor& packed,
                             const DataOptions& options) {
  std::vector<Side> sides;
  const std::int64_t tokens = problem.batch * problem.seq;
  const auto add_side = [&](const char* tensor, std::int64_t begin, std::int64_t heads) {
    const std::int64_t cols = heads * problem.head_dim;
    sides.push_back({tensor, columns(packed, begin, cols),
                     WrittenTwice(problem.dtype, tokens, cols, options.row_gap, problem.device)});
  };
  add_side(backward ? "dq" : "q_out", 0, problem.q_heads);
  if (problem.k_heads > 0) {
    add_side(backward ? "dk" : "k_out", problem.q_heads * problem.head_dim, problem.k_heads);
  }
  return sides;
}

template <class Args, class MakePlan>
void judge_pass(const RopeProblem& problem, const MakePlan& make_plan, bool backward,
                const DataOptions& options, GateReport& report) {
  const TokenShape shape = token_shape(problem);
  const RotationReference rotation(problem.rotation, shape, options.seed);
  const Tensor packed = random_qkv(problem, options);
  const std::vector<Side> sides = make_sides(problem, backward, packed, options);
  const auto plan = make_plan(problem, {options.backend, options.threads});
  for (int call = 0; call < 2; ++call) {
    TensorView k, k_out;
    if (problem.k_heads > 0) {
      k = as_heads(sides[1].input, shape);
      k_out = as_heads(sides[1].output.view(call), shape);
    }
    const Args args{as_heads(sides[0].input, shape), k, as_heads(sides[0].output.view(call), shape),
                    k_out, rotation.args()};
    run_once(plan, args, problem.device);
  }
  const JudgeOptions judge = judge_options(options, problem.device);
  for (const Side& side : sides) {
    const DecodedRows input(side.input, judged_rows(side.input.rows(), side.input.cols(), judge));
    side.output.judge(
        side.tensor,
        [&](std::int64_t token, std::span<double> values) {
          input.read(token, values);
          rotation.rotate(token, backward, values);
        },
        judge, report);
  }
}

}  // namespace

GateReport check_rope(const RopeProblem& problem, const DataOptions& options) {
  check_extent("check rope", "batch", problem.batch);
  check_extent("check rope", "seq", problem.seq);
  // Plans refuse what cannot run before any data is made.
  (void)plan_rope_forward(problem, {options.backend, options.threads});
  return within_memory("rope", describe(problem), [&] {
    GateReport report;
    judge_pass<RopeForwardArgs>(problem, plan_rope_forward, false, options, report);
    judge_pass<RopeBackwardArgs>(problem, plan_rope_backward, true, options, report);
    return report;
  });
}

}  // namespace octet
