// Checks every argument of a call before anything is written.
#include "core/call.hpp"
#include "ops/gated_mlp/state.hpp"

#include <array>

namespace octet {
namespace {

QuantizedForm form_of(const QuantizedLayout& layout, std::string_view spelling) {
  return {layout.dtype, layout.rows, layout.cols, layout.block, spelling};
}
// A layout of 0 bytes is not written.
void write_layout(Call& call, std::string_view name, QuantizedView& view,
                  const QuantizedLayout& layout, std::string_view spelling) {
  call.writes_if(layout.bytes != 0, name, view, form_of(layout, spelling));
}

}  // namespace

GatedMlpForwardArgs check_call(const GatedMlpForwardPlan& plan, GatedMlpForwardArgs args,
                               const Workspace& workspace) {
  const GatedMlpProblem& problem = plan.problem;
  const MatrixForm m_k{problem.dtype, problem.m, problem.k, "[M, K]"};
  const MatrixForm m_f{problem.dtype, problem.m, problem.f, "[M, F]"};
  const MatrixForm m_2f{problem.dtype, problem.m, 2 * problem.f, "[M, 2F]"};
  Call call("gated_mlp_forward", problem.device);
  call.reads("x", args.x, m_k);
  if (problem.weights_quantized) {
    call.reads("weights.gate_up.w", args.weights.gate_up.w,
               form_of(out_layout(cast_of_w(gate_up_layer(problem))), "[2F, K]"));
  } else {
    call.reads("w_gate_up", args.w_gate_up,
               MatrixForm{problem.dtype, 2 * problem.f, problem.k, "[2F, K]"});
  }
  if (problem.down && problem.weights_quantized) {
    call.reads("weights.down.w", args.weights.down.w,
               form_of(out_layout(cast_of_w(down_layer(problem))), "[K, F]"));
  } else if (problem.down) {
    call.reads("w_down", args.w_down, MatrixForm{problem.dtype, problem.k, problem.f, "[K, F]"});
  }

  call.writes_if(problem.down, "y", args.y, m_k);
  if (!problem.down && problem.fp8) {
    const QuantizeProblem h_cast = cast_of_x(down_layer(problem));
    write_layout(call, "h_fp8.out", args.h_fp8.out, out_layout(h_cast), "[M, F]");
    write_layout(call, "h_fp8.transposed", args.h_fp8.transposed, transposed_layout(h_cast),
                 "[F, M]");
  }
  call.writes_if(!problem.down && !problem.fp8, "h", args.h, m_f);
  const GatedMlpSavedLayout& saved =
      static_cast<const GatedMlpForwardState*>(plan.state.get())->saved;
  call.writes_if(saved.gate_up_bytes != 0, "saved.gate_up", args.saved.gate_up, m_2f);
  call.writes_if(saved.h_bytes != 0, "saved.h", args.saved.h, m_f);
  write_layout(call, "saved.x_t", args.saved.x_t, saved.x_t, "[K, M]");
  write_layout(call, "saved.w_gate_up_t", args.saved.w_gate_up_t, saved.w_gate_up_t, "[K, 2F]");
  write_layout(call, "saved.h_t", args.saved.h_t, saved.h_t, "[F, M]");
  write_layout(call, "saved.w_down_t", args.saved.w_down_t, saved.w_down_t, "[F, K]");
  call.check_apart(plan.workspace_bytes, workspace);
  return args;
}

void check_call(const GatedMlpBackwardPlan& plan, const GatedMlpBackwardArgs& args,
                const Workspace& workspace) {
  const GatedMlpProblem& problem = plan.problem;
  const Fp8LinearProblem gate_up = gate_up_layer(problem);
  const Fp8LinearProblem down = down_layer(problem);
  const auto [m, f, k] = std::array{problem.m, problem.f, problem.k};
  const auto matrix = [&](std::int64_t rows, std::int64_t cols, std::string_view spelling) {
    return MatrixForm{problem.dtype, rows, cols, spelling};
  };
  const auto transposed = [](const QuantizeProblem& cast, std::string_view spelling) {
    return form_of(transposed_layout(cast), spelling);
  };
  Call call("gated_mlp_backward", problem.device);
  if (problem.down) call.reads("dy", args.dy, matrix(m, k, "[M, K]"));
  if (!problem.down) call.reads("dh", args.dh, matrix(m, f, "[M, F]"));
  call.reads("saved.gate_up", args.saved.gate_up, matrix(m, 2 * f, "[M, 2F]"));
  if (problem.need_dx && problem.fp8) {
    call.reads("saved.w_gate_up_t", args.saved.w_gate_up_t,
               transposed(cast_of_w(gate_up), "[K, 2F]"));
  } else if (problem.need_dx) {
    call.reads("w_gate_up", args.w_gate_up, matrix(2 * f, k, "[2F, K]"));
  }
  if (problem.need_dw && problem.fp8) {
    call.reads("saved.x_t", args.saved.x_t, transposed(cast_of_x(gate_up), "[K, M]"));
  } else if (problem.need_dw) {
    call.reads("saved.x", args.saved.x, matrix(m, k, "[M, K]"));
  }
  if (problem.down && problem.fp8) {
    call.reads("saved.w_down_t", args.saved.w_down_t, transposed(cast_of_w(down), "[F, K]"));
  } else if (problem.down) {
    call.reads("w_down", args.w_down, matrix(k, f, "[K, F]"));
  }
  if (problem.down && problem.need_dw && problem.fp8) {
    call.reads("saved.h_t", args.saved.h_t, transposed(cast_of_x(down), "[F, M]"));
  } else if (problem.down && problem.need_dw) {
    call.reads("saved.h", args.saved.h, matrix(m, f, "[M, F]"));
  }

  if (problem.need_dx) call.writes("dx", args.dx, matrix(m, k, "[M, K]"));
  if (problem.need_dw) {
    call.writes("dw_gate_up", args.dw_gate_up, MatrixForm{problem.dw_dtype, 2 * f, k, "[2F, K]"});
    if (problem.down)
      call.writes("dw_down", args.dw_down, MatrixForm{problem.dw_dtype, k, f, "[K, F]"});
  }
  call.check_apart(plan.workspace_bytes, workspace);
}

}  // namespace octet
