// What rope and rms_norm_rope refuse, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr std::int64_t kBatch = 2, kSeq = 5, kQHeads = 3, kKHeads = 1, kHeadDim = 8;

template <class Problem>
Problem heads_problem() {
  Problem problem{kBatch, kSeq, kQHeads, kKHeads, kHeadDim};
  problem.rotation.positions_dtype = Dtype::i32;
  return problem;
}

struct RopeCall {
  RopeCall() {
    args.q = heads(kQHeads);
    args.k = heads(kKHeads);
    args.q_out = heads(kQHeads);
    args.k_out = args.k;
    args.rotation.cos = arena.matrix(Dtype::f32, kSeq, kHeadDim / 2);
    args.rotation.sin = arena.matrix(Dtype::f32, kSeq, kHeadDim / 2);
    args.rotation.positions = arena.tensor(Dtype::i32, {kBatch, kSeq});
    std::memset(args.rotation.positions.data, 0, kBatch * kSeq * sizeof(std::int32_t));
  }
  TensorView heads(std::int64_t count) {
    return arena.tensor(Dtype::bf16, {kBatch, kSeq, count, kHeadDim});
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, RopeForward{heads_problem<RopeProblem>()}, args,
                       {});
  }

  Arena arena{1 << 16};
  RopeForwardArgs args;
};

TEST(RopeBadInput, TheCallTheTestsSpoilIsRight) {
  RopeCall call;
  EXPECT_NO_THROW(run(plan_rope_forward(heads_problem<RopeProblem>()), call.args));
}

TEST(RopeBadInput, RefusesPositionsOutsideTheCaches) {
  RopeCall call;
  auto* positions = static_cast<std::int32_t*>(call.args.rotation.positions.data);
  positions[7] = kSeq;
  call.refused("rope: positions[1, 2] is 5, cos and sin have 5 rows");
  positions[7] = 0;
  positions[0] = -1;
  call.refused("rope: positions[0, 0] is -1, cos and sin have 5 rows");
}

TEST(RopeBadInput, RefusesBadTensors) {
  RopeCall longer;
  longer.args.rotation.sin.shape[0] = 6;
  longer.refused("rope: sin must be [cache_rows, rotary_dim / 2] = [5, 4], got [6, 4]");
  RopeCall absent;
  absent.args.rotation.positions = {};
  absent.refused("rope: positions must have rank 2, [batch, seq], got rank 0");
  RopeCall heads;
  heads.args.k = heads.args.q;
  heads.refused("rope: k must be [batch, seq, k_heads, head_dim] = [2, 5, 1, 8], got [2, 5, 3, 8]");
  RopeCall shifted;
  shifted.args.k_out.data = static_cast<char*>(shifted.args.k_out.data) + 2;
  shifted.refused("rope: output k_out overlaps k: their memory must be apart");
}

TEST(RopeBadInput, NamesTheGradientsOfBackward) {
  RopeCall call;
  RopeBackwardArgs args{call.args.q, call.args.k, call.args.q_out, call.args.k_out,
                        call.args.rotation};
  const auto refused = [&](const std::string& message) {
    expect_run_refused(kInvalid, message, call.arena, RopeBackward{heads_problem<RopeProblem>()},
                       args, {});
  };
  args.dk.data = static_cast<char*>(args.dk.data) + 2;
  refused("rope: output dk overlaps dk_out: their memory must be apart");
  args.dq_out = {};
  refused("rope: dq_out must have rank 4, [batch, seq, q_heads, head_dim], got rank 0");
}

// Both operators have the same requirements for heads and rotation.
template <class Problem, class Expect>
void expect_heads_refused(const std::string& op, const Expect& refused) {
  auto problem = heads_problem<Problem>();
  problem.head_dim = 7;
  refused(op + ": head_dim must be even, got 7", problem);
  problem = heads_problem<Problem>();
  problem.q_heads = 0;
  refused(op + ": q_heads must be at least 1, got 0", problem);
  problem = heads_problem<Problem>();
  problem.rotation.rotary_dim = 10;
  refused(op + ": rotary_dim must be even and at most head_dim = 8, got 10", problem);
  problem = heads_problem<Problem>();
  problem.rotation.style = static_cast<RopeStyle>(3);
  refused(op + ": style must be rotate_half or interleaved, got 3", problem);
  problem = heads_problem<Problem>();
  problem.rotation.positions_dtype = Dtype::f32;
  refused(op + ": positions_dtype must be i32 or i64, got f32", problem);
  problem.rotation.positions_dtype = std::nullopt;
  problem.rotation.cache_rows = 4;
  refused(op + ": cache_rows must be at least seq = 5 where no positions are given, got 4",
          problem);
}

TEST(RopeBadInput, RefusesBadHeadsAndRotations) {
  expect_heads_refused<RopeProblem>("rope", [](const std::string& message, const auto& problem) {
    expect_plan_refused(kInvalid, message, RopeForward{problem});
    expect_plan_refused(kInvalid, message, RopeBackward{problem});
  });
}

TEST(RmsNormRopeBadInput, RefusesBadHeadsAndRotations) {
  const auto refused = [](const std::string& message, const RmsNormRopeProblem& problem) {
    expect_plan_refused(kInvalid, message, RmsNormRopeForward{problem});
    expect_plan_refused(kInvalid, message, RmsNormRopeBackward{problem});
  };
  expect_heads_refused<RmsNormRopeProblem>("rms_norm_rope", refused);
  auto problem = heads_problem<RmsNormRopeProblem>();
  problem.norm = static_cast<NormScope>(0);
  refused("rms_norm_rope: norm must be row or head, got 0", problem);
}

}  // namespace
}  // namespace octet::bad_input
