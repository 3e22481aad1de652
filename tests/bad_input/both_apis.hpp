// Makes the same bad call through C++ and C. Both must return the same code and message, and must
// not change a byte of the call's memory.
#pragma once

#include "bad_input/arena.hpp"
#include "bad_input/c_structs_adamw.hpp"
#include "bad_input/c_structs_attention.hpp"
#include "bad_input/c_structs_groups.hpp"
#include "bad_input/c_structs_head.hpp"
#include "bad_input/c_structs_moe.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace octet::bad_input {

using PlanOwner = std::unique_ptr<octet_plan, decltype(&octet_destroy_plan)>;

// One problem may have two plans.
template <class Problem, class Pass>
struct PassOf {
  Problem problem;
};
using Fp8LinearForward = PassOf<Fp8LinearProblem, ForwardPass>;
using Fp8LinearBackward = PassOf<Fp8LinearProblem, BackwardPass>;
using Fp8GroupedLinearForward = PassOf<Fp8GroupedLinearProblem, ForwardPass>;
using Fp8GroupedLinearBackward = PassOf<Fp8GroupedLinearProblem, BackwardPass>;
using RmsNormForward = PassOf<RmsNormProblem, ForwardPass>;
using RmsNormBackward = PassOf<RmsNormProblem, BackwardPass>;
using RmsNormRopeForward = PassOf<RmsNormRopeProblem, ForwardPass>;
using RmsNormRopeBackward = PassOf<RmsNormRopeProblem, BackwardPass>;
using AttentionForward = PassOf<AttentionProblem, ForwardPass>;
using AttentionBackward = PassOf<AttentionProblem, BackwardPass>;
using RopeForward = PassOf<RopeProblem, ForwardPass>;
using RopeBackward = PassOf<RopeProblem, BackwardPass>;
using GatedActivationForward = PassOf<GatedActivationProblem, ForwardPass>;
using GatedActivationBackward = PassOf<GatedActivationProblem, BackwardPass>;
using GatedMlpForward = PassOf<GatedMlpProblem, ForwardPass>;
using GatedMlpBackward = PassOf<GatedMlpProblem, BackwardPass>;
using MoeRouteForward = PassOf<MoeRouteProblem, ForwardPass>;
using MoeRouteBackward = PassOf<MoeRouteProblem, BackwardPass>;
using MoeMlpForward = PassOf<MoeMlpProblem, ForwardPass>;
using MoeMlpBackward = PassOf<MoeMlpProblem, BackwardPass>;
using MoePermuteForward = PassOf<MoePermuteProblem, ForwardPass>;
using MoePermuteBackward = PassOf<MoePermuteProblem, BackwardPass>;
using MoeUnpermuteForward = PassOf<MoeUnpermuteProblem, ForwardPass>;
using MoeUnpermuteBackward = PassOf<MoeUnpermuteProblem, BackwardPass>;
using LinearCrossEntropyForward = PassOf<LinearCrossEntropyProblem, ForwardPass>;
using LinearCrossEntropyBackward = PassOf<LinearCrossEntropyProblem, BackwardPass>;

// The functions of one operator, by the types of its problem and arguments.
inline auto cpp_plan(const GemmProblem& p) { return plan_gemm(p); }
inline auto cpp_plan(const QuantizeProblem& p) { return plan_quantize(p); }
inline auto cpp_plan(const DequantizeProblem& p) { return plan_dequantize(p); }
inline auto cpp_plan(const RepackProblem& p) { return plan_repack(p); }
inline auto cpp_plan(const AttentionForward& p) { return plan_attention_forward(p.problem); }
inline auto cpp_plan(const AttentionBackward& p) { return plan_attention_backward(p.problem); }
inline auto cpp_plan(const RopeForward& p) { return plan_rope_forward(p.problem); }
inline auto cpp_plan(const RopeBackward& p) { return plan_rope_backward(p.problem); }
inline auto cpp_plan(const Fp8LinearForward& p) { return plan_fp8_linear_forward(p.problem); }
inline auto cpp_plan(const Fp8LinearBackward& p) { return plan_fp8_linear_backward(p.problem); }
inline auto cpp_plan(const RmsNormForward& p) { return plan_rms_norm_forward(p.problem); }
inline auto cpp_plan(const RmsNormBackward& p) { return plan_rms_norm_backward(p.problem); }
inline auto cpp_plan(const RmsNormRopeForward& p) { return plan_rms_norm_rope_forward(p.problem); }
inline auto cpp_plan(const RmsNormRopeBackward& p) {
  return plan_rms_norm_rope_backward(p.problem);
}
inline auto cpp_plan(const GatedActivationForward& p) {
  return plan_gated_activation_forward(p.problem);
}
inline auto cpp_plan(const GatedActivationBackward& p) {
  return plan_gated_activation_backward(p.problem);
}
inline auto cpp_plan(const GatedMlpForward& p) { return plan_gated_mlp_forward(p.problem); }
inline auto cpp_plan(const GatedMlpBackward& p) { return plan_gated_mlp_backward(p.problem); }
inline auto cpp_plan(const AdamWProblem& p) { return plan_adamw(p); }
inline auto cpp_plan(const GroupTableProblem& p) { return plan_group_table(p); }
inline auto cpp_plan(const GroupedGemmProblem& p) { return plan_grouped_gemm(p); }
inline auto cpp_plan(const MoeMapsProblem& p) { return plan_moe_maps(p); }
inline auto cpp_plan(const MoeRouteForward& p) { return plan_moe_route_forward(p.problem); }
inline auto cpp_plan(const MoeRouteBackward& p) { return plan_moe_route_backward(p.problem); }
inline auto cpp_plan(const MoePermuteForward& p) { return plan_moe_permute_forward(p.problem); }
inline auto cpp_plan(const MoePermuteBackward& p) { return plan_moe_permute_backward(p.problem); }
inline auto cpp_plan(const MoeMlpForward& p) { return plan_moe_mlp_forward(p.problem); }
inline auto cpp_plan(const MoeMlpBackward& p) { return plan_moe_mlp_backward(p.problem); }
inline auto cpp_plan(const MoeUnpermuteForward& p) { return plan_moe_unpermute_forward(p.problem); }
inline auto cpp_plan(const MoeUnpermuteBackward& p) {
  return plan_moe_unpermute_backward(p.problem);
}
inline auto cpp_plan(const Fp8GroupedLinearForward& p) {
  return plan_fp8_grouped_linear_forward(p.problem);
}
inline auto cpp_plan(const Fp8GroupedLinearBackward& p) {
  return plan_fp8_grouped_linear_backward(p.problem);
}
inline auto cpp_plan(const LinearCrossEntropyForward& p) {
  return plan_linear_cross_entropy_forward(p.problem);
}
inline auto cpp_plan(const LinearCrossEntropyBackward& p) {
  return plan_linear_cross_entropy_backward(p.problem);
}

inline auto* c_planner(const GemmProblem&) { return octet_make_gemm_plan; }
inline auto* c_planner(const QuantizeProblem&) { return octet_make_quantize_plan; }
inline auto* c_planner(const DequantizeProblem&) { return octet_make_dequantize_plan; }
inline auto* c_planner(const RepackProblem&) { return octet_make_repack_plan; }
inline auto* c_planner(const AttentionForward&) { return octet_make_attention_forward_plan; }
inline auto* c_planner(const AttentionBackward&) { return octet_make_attention_backward_plan; }
inline auto* c_planner(const RopeForward&) { return octet_make_rope_forward_plan; }
inline auto* c_planner(const RopeBackward&) { return octet_make_rope_backward_plan; }
inline auto* c_planner(const Fp8LinearForward&) { return octet_make_fp8_linear_forward_plan; }
inline auto* c_planner(const Fp8LinearBackward&) { return octet_make_fp8_linear_backward_plan; }
inline auto* c_planner(const RmsNormForward&) { return octet_make_rms_norm_forward_plan; }
inline auto* c_planner(const RmsNormBackward&) { return octet_make_rms_norm_backward_plan; }
inline auto* c_planner(const RmsNormRopeForward&) { return octet_make_rms_norm_rope_forward_plan; }
inline auto* c_planner(const RmsNormRopeBackward&) {
  return octet_make_rms_norm_rope_backward_plan;
}
inline auto* c_planner(const GatedActivationForward&) {
  return octet_make_gated_activation_forward_plan;
}
inline auto* c_planner(const GatedActivationBackward&) {
  return octet_make_gated_activation_backward_plan;
}
inline auto* c_planner(const GatedMlpForward&) { return octet_make_gated_mlp_forward_plan; }
inline auto* c_planner(const GatedMlpBackward&) { return octet_make_gated_mlp_backward_plan; }
inline auto* c_planner(const AdamWProblem&) { return octet_make_adamw_plan; }
inline auto* c_planner(const GroupTableProblem&) { return octet_make_group_table_plan; }
inline auto* c_planner(const GroupedGemmProblem&) { return octet_make_grouped_gemm_plan; }
inline auto* c_planner(const MoeMapsProblem&) { return octet_make_moe_maps_plan; }
inline auto* c_planner(const MoeRouteForward&) { return octet_make_moe_route_forward_plan; }
inline auto* c_planner(const MoeRouteBackward&) { return octet_make_moe_route_backward_plan; }
inline auto* c_planner(const MoePermuteForward&) { return octet_make_moe_permute_forward_plan; }
inline auto* c_planner(const MoePermuteBackward&) { return octet_make_moe_permute_backward_plan; }
inline auto* c_planner(const MoeMlpForward&) { return octet_make_moe_mlp_forward_plan; }
inline auto* c_planner(const MoeMlpBackward&) { return octet_make_moe_mlp_backward_plan; }
inline auto* c_planner(const MoeUnpermuteForward&) { return octet_make_moe_unpermute_forward_plan; }
inline auto* c_planner(const MoeUnpermuteBackward&) {
  return octet_make_moe_unpermute_backward_plan;
}
inline auto* c_planner(const Fp8GroupedLinearForward&) {
  return octet_make_fp8_grouped_linear_forward_plan;
}
inline auto* c_planner(const Fp8GroupedLinearBackward&) {
  return octet_make_fp8_grouped_linear_backward_plan;
}
inline auto* c_planner(const LinearCrossEntropyForward&) {
  return octet_make_linear_cross_entropy_forward_plan;
}
inline auto* c_planner(const LinearCrossEntropyBackward&) {
  return octet_make_linear_cross_entropy_backward_plan;
}

inline auto* c_runner(const GemmArgs&) { return octet_run_gemm; }
inline auto* c_runner(const QuantizeArgs&) { return octet_run_quantize; }
inline auto* c_runner(const DequantizeArgs&) { return octet_run_dequantize; }
inline auto* c_runner(const RepackArgs&) { return octet_run_repack; }
inline auto* c_runner(const AttentionForwardArgs&) { return octet_run_attention_forward; }
inline auto* c_runner(const AttentionBackwardArgs&) { return octet_run_attention_backward; }
inline auto* c_runner(const RopeForwardArgs&) { return octet_run_rope_forward; }
inline auto* c_runner(const RopeBackwardArgs&) { return octet_run_rope_backward; }
inline auto* c_runner(const Fp8LinearForwardArgs&) { return octet_run_fp8_linear_forward; }
inline auto* c_runner(const Fp8LinearBackwardArgs&) { return octet_run_fp8_linear_backward; }
inline auto* c_runner(const RmsNormForwardArgs&) { return octet_run_rms_norm_forward; }
inline auto* c_runner(const RmsNormBackwardArgs&) { return octet_run_rms_norm_backward; }
inline auto* c_runner(const RmsNormRopeForwardArgs&) { return octet_run_rms_norm_rope_forward; }
inline auto* c_runner(const RmsNormRopeBackwardArgs&) { return octet_run_rms_norm_rope_backward; }
inline auto* c_runner(const GatedActivationForwardArgs&) {
  return octet_run_gated_activation_forward;
}
inline auto* c_runner(const GatedActivationBackwardArgs&) {
  return octet_run_gated_activation_backward;
}
inline auto* c_runner(const GatedMlpForwardArgs&) { return octet_run_gated_mlp_forward; }
inline auto* c_runner(const GatedMlpBackwardArgs&) { return octet_run_gated_mlp_backward; }
inline auto* c_runner(const AdamWArgs&) { return octet_run_adamw; }
inline auto* c_runner(const GroupTableArgs&) { return octet_run_group_table; }
inline auto* c_runner(const GroupedGemmArgs&) { return octet_run_grouped_gemm; }
inline auto* c_runner(const MoeMapsArgs&) { return octet_run_moe_maps; }
inline auto* c_runner(const MoeRouteForwardArgs&) { return octet_run_moe_route_forward; }
inline auto* c_runner(const MoeRouteBackwardArgs&) { return octet_run_moe_route_backward; }
inline auto* c_runner(const MoePermuteForwardArgs&) { return octet_run_moe_permute_forward; }
inline auto* c_runner(const MoePermuteBackwardArgs&) { return octet_run_moe_permute_backward; }
inline auto* c_runner(const MoeMlpForwardArgs&) { return octet_run_moe_mlp_forward; }
inline auto* c_runner(const MoeMlpBackwardArgs&) { return octet_run_moe_mlp_backward; }
inline auto* c_runner(const MoeUnpermuteForwardArgs&) { return octet_run_moe_unpermute_forward; }
inline auto* c_runner(const MoeUnpermuteBackwardArgs&) { return octet_run_moe_unpermute_backward; }
inline auto* c_runner(const Fp8GroupedLinearForwardArgs&) {
  return octet_run_fp8_grouped_linear_forward;
}
inline auto* c_runner(const Fp8GroupedLinearBackwardArgs&) {
  return octet_run_fp8_grouped_linear_backward;
}
inline auto* c_runner(const LinearCrossEntropyForwardArgs&) {
  return octet_run_linear_cross_entropy_forward;
}
inline auto* c_runner(const LinearCrossEntropyBackwardArgs&) {
  return octet_run_linear_cross_entropy_backward;
}

template <class Problem>
const auto& problem_of(const Problem& p) {
  if constexpr (requires { p.problem; }) {
    return p.problem;
  } else {
    return p;
  }
}

template <class Problem>
octet_status c_plan(const Problem& p, octet_plan** plan) {
  const auto c = to_c(problem_of(p));
  return c_planner(p)(&c, nullptr, plan);
}

template <class Args>
octet_status c_run(const octet_plan* plan, const Args& args, const Workspace& w) {
  const auto c = to_c(args);
  return c_runner(args)(plan, &c, w.data, w.bytes, nullptr);
}

// `call` must throw an Error with this code and exactly this message.
template <class Call>
void expect_error(ErrorCode code, const std::string& message, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown, wanted: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), message);
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << message;
  }
}

inline void expect_status(ErrorCode code, const std::string& message, octet_status status) {
  EXPECT_EQ(status, static_cast<octet_status>(code)) << octet_status_name(status);
  EXPECT_EQ(octet_last_error(), message);
}

template <class Problem>
void expect_plan_refused(ErrorCode code, const std::string& message, const Problem& problem) {
  expect_error(code, message, [&] { cpp_plan(problem); });
  octet_plan* plan = reinterpret_cast<octet_plan*>(1);
  expect_status(code, message, c_plan(problem, &plan));
  EXPECT_EQ(plan, nullptr) << "a failed call leaves no plan";
}

template <class Problem, class Args>
void expect_run_refused(ErrorCode code, const std::string& message, const Arena& arena,
                        const Problem& problem, const Args& args, const Workspace& workspace) {
  const std::vector<char> before = arena.snapshot();
  expect_error(code, message, [&] { run(cpp_plan(problem), args, workspace); });
  EXPECT_EQ(arena.snapshot(), before) << "C++ wrote, then said: " << message;

  octet_plan* made = nullptr;
  ASSERT_EQ(c_plan(problem, &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  expect_status(code, message, c_run(plan.get(), args, workspace));
  EXPECT_EQ(arena.snapshot(), before) << "C wrote, then said: " << message;
}

}  // namespace octet::bad_input
