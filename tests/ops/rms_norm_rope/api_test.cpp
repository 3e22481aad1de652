// Refusals and their messages, and the description of a problem.
#include "ops/rms_norm_rope/norm_rope_case.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace octet::testing {
namespace {

RmsNormRopeProblem small(NormScope norm = NormScope::row) {
  RmsNormRopeProblem problem{
      .batch = 2, .seq = 4, .q_heads = 3, .k_heads = 1, .head_dim = 8, .norm = norm};
  return problem;
}

std::string plan_refusal(const std::function<void(RmsNormRopeProblem&)>& change) {
  RmsNormRopeProblem problem = small();
  change(problem);
  const std::string said = refusal([&] { plan_rms_norm_rope_forward(problem); });
  EXPECT_EQ(refusal([&] { plan_rms_norm_rope_backward(problem); }), said);
  return said;
}

TEST(RmsNormRope, RefusesProblemsThatCannotBeMeant) {
  EXPECT_EQ(plan_refusal([](auto& p) { p.head_dim = 7; }),
            "rms_norm_rope: head_dim must be even, got 7");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.rotary_dim = 10; }),
            "rms_norm_rope: rotary_dim must be even and at most head_dim = 8, got 10");
  EXPECT_EQ(
      plan_refusal([](auto& p) { p.rotation.cache_rows = 2; }),
      "rms_norm_rope: cache_rows must be at least seq = 4 where no positions are given, got 2");
  EXPECT_EQ(plan_refusal([](auto& p) { p.norm = static_cast<NormScope>(0); }),
            "rms_norm_rope: norm must be row or head, got 0");
  EXPECT_EQ(plan_refusal([](auto& p) { p.eps = -1; }),
            "rms_norm_rope: eps must be finite and at least 0, got -1");
  EXPECT_EQ(plan_refusal([](auto& p) { p.eps = std::numeric_limits<float>::infinity(); }),
            "rms_norm_rope: eps must be finite and at least 0, got inf");
  EXPECT_EQ(plan_refusal([](auto& p) { p.weight_dtype = Dtype::e4m3; }),
            "rms_norm_rope: weight_dtype must be f32, f16 or bf16, got e4m3");
  EXPECT_EQ(plan_refusal([](auto& p) { p.dg_dtype = Dtype::i32; }),
            "rms_norm_rope: dg_dtype must be f32, f16 or bf16, got i32");
  EXPECT_EQ(plan_refusal([](auto& p) { p.q_heads = 0; }),
            "rms_norm_rope: q_heads must be at least 1, got 0");
}

// Valid calls that a test breaks.
struct Calls {
  RmsNormRopeProblem problem;
  Random random{1};
  RotationData rotation;
  NormRopeCall call;
  RmsNormRopeForwardArgs forward;
  RmsNormRopeBackwardArgs backward;

  explicit Calls(const RmsNormRopeProblem& given)
      : problem(given),
        rotation(given, random),
        call(given, HeadsLayout::dense, HeadsLayout::dense),
        forward(call.forward(rotation.args())),
        backward(call.backward(rotation.args())) {}
};

std::string forward_refusal(NormScope norm,
                            const std::function<void(RmsNormRopeForwardArgs&)>& spoil) {
  Calls calls(small(norm));
  spoil(calls.forward);
  return run_refusal(plan_rms_norm_rope_forward(calls.problem), calls.forward);
}

std::string backward_refusal(NormScope norm,
                             const std::function<void(RmsNormRopeBackwardArgs&)>& spoil) {
  Calls calls(small(norm));
  spoil(calls.backward);
  return run_refusal(plan_rms_norm_rope_backward(calls.problem), calls.backward);
}

TEST(RmsNormRope, RefusesTensorsThatDoNotFit) {
  const auto row = NormScope::row;
  const auto head = NormScope::head;
  EXPECT_EQ(forward_refusal(row, [](auto& a) { a.g_q.shape[0] = 8; }),
            "rms_norm_rope: g_q must be [q_heads * head_dim] = [24], got [8]");
  EXPECT_EQ(forward_refusal(head, [](auto& a) { a.g_k.shape[0] = 16; }),
            "rms_norm_rope: g_k must be [head_dim] = [8], got [16]");
  EXPECT_EQ(forward_refusal(row, [](auto& a) { a.rstd_q.shape[0] = 24; }),
            "rms_norm_rope: rstd_q must be [batch * seq] = [8], got [24]");
  EXPECT_EQ(forward_refusal(head, [](auto& a) { a.rstd_q.shape[0] = 8; }),
            "rms_norm_rope: rstd_q must be [batch * seq * q_heads] = [24], got [8]");
  EXPECT_EQ(forward_refusal(row, [](auto& a) { a.rotation.cos.shape[0] = 3; }),
            "rms_norm_rope: cos must be [cache_rows, rotary_dim / 2] = [4, 4], got [3, 4]");
  EXPECT_EQ(forward_refusal(row, [](auto& a) { a.k = {}; }),
            "rms_norm_rope: k must have rank 4, [batch, seq, k_heads, head_dim], got rank 0");
  EXPECT_EQ(backward_refusal(row, [](auto& a) { a.dk_out.shape[2] = 2; }),
            "rms_norm_rope: dk_out must be [batch, seq, k_heads, head_dim] = [2, 4, 1, 8], got "
            "[2, 4, 2, 8]");
  EXPECT_EQ(backward_refusal(head, [](auto& a) { a.dg_q.dtype = Dtype::bf16; }),
            "rms_norm_rope: dg_q must be f32, got bf16");
  EXPECT_EQ(backward_refusal(row, [](auto& a) { a.rstd_k.data = nullptr; }),
            "rms_norm_rope: rstd_k has a null pointer");
}

TEST(RmsNormRope, RefusesOutputsThatOverlap) {
  const auto row = NormScope::row;
  EXPECT_EQ(forward_refusal(row, [](auto& a) { a.q_out.data = a.k.data; }),
            "rms_norm_rope: output q_out overlaps k: their memory must be apart");
  EXPECT_EQ(forward_refusal(row, [](auto& a) { a.rstd_k.data = a.rstd_q.data; }),
            "rms_norm_rope: output rstd_k overlaps rstd_q: their memory must be apart");
  EXPECT_EQ(backward_refusal(row,
                             [](auto& a) {
                               a.dq = a.dq_out;
                               a.dq.strides[0] = 104;
                             }),
            "rms_norm_rope: output dq overlaps dq_out: their memory must be apart");
  EXPECT_EQ(backward_refusal(row, [](auto& a) { a.dg_q.data = a.rstd_q.data; }),
            "rms_norm_rope: output dg_q overlaps rstd_q: their memory must be apart");
}

TEST(RmsNormRope, RefusesAWorkspaceThatIsTooSmallOrNotItsOwn) {
  Calls calls(small());
  const auto plan = plan_rms_norm_rope_backward(calls.problem);
  ASSERT_GT(plan.workspace_bytes, 0u);
  EXPECT_EQ(refusal([&] { run(plan, calls.backward); }), "rms_norm_rope: workspace must have " +
                                                             std::to_string(plan.workspace_bytes) +
                                                             " bytes, got 0");
  const Tensor rstd(Dtype::f32, {static_cast<std::int64_t>(plan.workspace_bytes)});
  calls.backward.rstd_q.data = rstd.data();
  EXPECT_EQ(refusal([&] {
              run(plan, calls.backward, {rstd.data(), plan.workspace_bytes});
            }),
            "rms_norm_rope: workspace overlaps rstd_q: their memory must be apart");
}

TEST(RmsNormRope, RefusesAPositionOutOfRangeBeforeItWritesAnything) {
  RmsNormRopeProblem problem = small();
  problem.rotation.positions_dtype = Dtype::i32;
  problem.rotation.cache_rows = 5;
  Calls calls(problem);
  const NormRopeCall before(problem, HeadsLayout::dense, HeadsLayout::dense);
  calls.rotation.set_position(2, 5);
  const auto plan = plan_rms_norm_rope_forward(problem);
  const Buffer workspace(plan.workspace_bytes);
  EXPECT_EQ(refusal([&] {
              run(plan, calls.forward, {workspace.data(), workspace.bytes()});
            }),
            "rms_norm_rope: positions[0, 2] is 5, cos and sin have 5 rows");
  EXPECT_TRUE(calls.call.q == before.q && calls.call.k == before.k);
}

TEST(RmsNormRope, WritesNoRstdWhereItDoesNotTrain) {
  RmsNormRopeProblem problem = small();
  problem.training = false;
  Calls calls(problem);
  calls.forward.rstd_q = calls.forward.rstd_k = {};
  const auto plan = plan_rms_norm_rope_forward(problem);
  const Buffer workspace(plan.workspace_bytes);
  run(plan, calls.forward, {workspace.data(), workspace.bytes()});
}

TEST(RmsNormRope, DescribesItselfAsACommandLine) {
  RmsNormRopeProblem problem{.batch = 8, .seq = 2048, .q_heads = 32, .head_dim = 128};
  EXPECT_EQ(
      describe(problem),
      "rms-norm-rope --shape 8x2048x4096 --head-dim 128 --norm row --dtype bf16 --device cpu");
  problem.k_heads = 8;
  problem.norm = NormScope::head;
  problem.weight_dtype = Dtype::f32;
  problem.eps = 1e-5f;
  problem.one_plus_weight = true;
  problem.training = false;
  problem.dg_dtype = Dtype::bf16;
  problem.rotation.rotary_dim = 64;
  EXPECT_EQ(
      describe(problem),
      "rms-norm-rope --shape 8x2048x4096 --head-dim 128 --kv-heads 8 --norm head --dtype bf16 "
      "--weight f32 --eps 1e-05 --one-plus-weight --inference --dg bf16 --rotary-dim 64 "
      "--device cpu");
}

}  // namespace
}  // namespace octet::testing
