// The C API gives the bits of the C++ API, for attention. Every optional part is used in one of the
// calls.
#include "c_api/same_bits.hpp"

#include <algorithm>
#include <array>

namespace octet {
namespace {

constexpr std::int64_t kBatch = 2, kSeqQ = 9, kSeqKv = 70, kHeadsQ = 4, kHeadsKv = 2;
constexpr std::int64_t kDimQk = 17, kDimV = 12;
constexpr std::int64_t kTotalQ = 16, kTotalKv = 130;

AttentionProblem window_problem() {
  AttentionProblem problem{.batch = kBatch,
                           .seq_q = kSeqQ,
                           .seq_kv = kSeqKv,
                           .heads_q = kHeadsQ,
                           .heads_kv = kHeadsKv,
                           .dim_qk = kDimQk,
                           .dim_v = kDimV};
  problem.mask = {.left = 3, .right = 2, .align = MaskAlignment::top_left};
  problem.scale = 0.375f;
  return problem;
}

// Causal sequences of 9 and 5 queries and of 3 and 70 keys, with rows behind the last; six queries
// of the first see no key.
AttentionProblem packed_problem() {
  AttentionProblem problem = window_problem();
  problem.dtype = Dtype::f16;
  problem.out_dtype = Dtype::f32;
  problem.mask = kCausalMask;
  problem.scale = 0;
  problem.sink = true;
  problem.offsets_dtype = Dtype::i32;
  problem.total_q = kTotalQ;
  problem.total_kv = kTotalKv;
  return problem;
}

// The tensors of a call in one arena.
struct Tensors {
  Arena& arena;
  const AttentionProblem& problem;

  TensorView queries(Dtype dtype, std::int64_t dim) const {
    return problem.offsets_dtype ? arena.tensor(dtype, {kTotalQ, kHeadsQ, dim})
                                 : arena.tensor(dtype, {kBatch, kSeqQ, kHeadsQ, dim});
  }
  TensorView keys(std::int64_t dim) const {
    return problem.offsets_dtype ? arena.tensor(problem.dtype, {kTotalKv, kHeadsKv, dim})
                                 : arena.tensor(problem.dtype, {kBatch, kSeqKv, kHeadsKv, dim});
  }
  TensorView out() const { return queries(problem.out_dtype.value_or(problem.dtype), kDimV); }
  TensorView floats() const {
    return problem.offsets_dtype ? arena.tensor(Dtype::f32, {kHeadsQ, kTotalQ})
                                 : arena.tensor(Dtype::f32, {kBatch, kHeadsQ, kSeqQ});
  }
  TensorView offsets(std::int32_t first, std::int32_t last) const {
    const TensorView view = arena.tensor(Dtype::i32, {kBatch + 1});
    std::ranges::copy(std::to_array({0, first, last}), static_cast<std::int32_t*>(view.data));
    return view;
  }
  AttentionInputs inputs() const {
    AttentionInputs inputs;
    inputs.q = filled(queries(problem.dtype, kDimQk), 1);
    inputs.k = filled(keys(kDimQk), 2);
    inputs.v = filled(keys(kDimV), 3);
    if (problem.sink) inputs.sink = filled(arena.tensor(Dtype::f32, {kHeadsQ}), 4);
    if (problem.offsets_dtype) {
      inputs.offsets_q = offsets(9, 14);
      inputs.offsets_kv = offsets(3, 73);
    }
    return inputs;
  }
};

void expect_same_forward(const AttentionProblem& problem, bool lse) {
  SCOPED_TRACE(describe(problem));
  expect_same_bits(AttentionForward{problem}, [&](Arena& arena) {
    const Tensors tensors{arena, problem};
    AttentionForwardArgs args;
    args.inputs = tensors.inputs();
    args.out = tensors.out();
    if (lse) args.lse = tensors.floats();
    return args;
  });
}

// out and lse are those of forward, so that the gradients are numbers.
void expect_same_backward(const AttentionProblem& problem, bool dlse) {
  SCOPED_TRACE(describe(problem));
  expect_same_bits(AttentionBackward{problem}, [&](Arena& arena) {
    const Tensors tensors{arena, problem};
    AttentionBackwardArgs args;
    args.inputs = tensors.inputs();
    args.out = tensors.out();
    args.lse = tensors.floats();
    run_cpp(AttentionForward{problem}, AttentionForwardArgs{args.inputs, args.out, args.lse});
    args.dout = filled(tensors.out(), 5);
    if (dlse) args.dlse = filled(tensors.floats(), 6);
    args.dq = tensors.queries(problem.dtype, kDimQk);
    args.dk = tensors.keys(kDimQk);
    args.dv = tensors.keys(kDimV);
    if (problem.sink) args.dsink = arena.tensor(Dtype::f32, {kHeadsQ});
    return args;
  });
}

TEST(CApiAttention, ForwardHasTheSameBits) {
  expect_same_forward(window_problem(), true);
  expect_same_forward(window_problem(), false);
  expect_same_forward(packed_problem(), true);
}

TEST(CApiAttention, BackwardHasTheSameBits) {
  expect_same_backward(window_problem(), false);
  expect_same_backward(packed_problem(), true);
}

// C passes what the problem has, and C++ describes it: a field that one of them drops shows here.
TEST(CApiAttention, AProblemReadsTheSameFromC) {
  for (const AttentionProblem& problem : {window_problem(), packed_problem()}) {
    octet_plan* made = nullptr;
    ASSERT_EQ(c_plan(AttentionBackward{problem}, &made), OCTET_OK) << octet_last_error();
    const PlanOwner plan(made, octet_destroy_plan);
    EXPECT_EQ(octet_plan_problem(made), describe(problem));
    EXPECT_EQ(octet_plan_workspace_bytes(made), plan_attention_backward(problem).workspace_bytes);
  }
}

}  // namespace
}  // namespace octet
