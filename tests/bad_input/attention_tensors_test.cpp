// The tensors and offsets that attention refuses, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr std::int64_t kBatch = 2, kSeqQ = 3, kSeqKv = 5, kHeadsQ = 4, kHeadsKv = 2;
constexpr std::int64_t kDimQk = 8, kDimV = 6;
// With offsets: sequences of 3 and 2 queries, and of 5 and 1 keys, with rows behind the last.
constexpr std::int64_t kTotalQ = 6, kTotalKv = 8;

AttentionProblem dense_problem() {
  AttentionProblem problem{.batch = kBatch,
                           .seq_q = kSeqQ,
                           .seq_kv = kSeqKv,
                           .heads_q = kHeadsQ,
                           .heads_kv = kHeadsKv,
                           .dim_qk = kDimQk,
                           .dim_v = kDimV};
  problem.mask = kCausalMask;
  problem.sink = true;
  return problem;
}

AttentionProblem packed_problem() {
  AttentionProblem problem = dense_problem();
  problem.offsets_dtype = Dtype::i64;
  problem.total_q = kTotalQ;
  problem.total_kv = kTotalKv;
  return problem;
}

template <class Pass, class Args>
struct AttentionCall {
  explicit AttentionCall(const AttentionProblem& problem = dense_problem())
      : pass{problem}, arena((1 << 16) + cpp_plan(pass).workspace_bytes) {
    args.inputs.q = queries(kDimQk);
    args.inputs.k = keys(kDimQk);
    args.inputs.v = keys(kDimV);
    args.inputs.sink = arena.tensor(Dtype::f32, {kHeadsQ});
    args.inputs.offsets_q = offsets({0, 3, 5});
    args.inputs.offsets_kv = offsets({0, 5, 6});
    args.out = queries(kDimV);
    args.lse = floats();
    if constexpr (requires { args.dout; }) {
      args.dout = queries(kDimV);
      args.dlse = floats();
      args.dq = queries(kDimQk);
      args.dk = keys(kDimQk);
      args.dv = keys(kDimV);
      args.dsink = arena.tensor(Dtype::f32, {kHeadsQ});
    }
    workspace = arena.workspace(cpp_plan(pass).workspace_bytes);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, pass, args, workspace);
  }

  TensorView queries(std::int64_t dim) {
    return packed() ? arena.tensor(Dtype::bf16, {kTotalQ, kHeadsQ, dim})
                    : arena.tensor(Dtype::bf16, {kBatch, kSeqQ, kHeadsQ, dim});
  }
  TensorView keys(std::int64_t dim) {
    return packed() ? arena.tensor(Dtype::bf16, {kTotalKv, kHeadsKv, dim})
                    : arena.tensor(Dtype::bf16, {kBatch, kSeqKv, kHeadsKv, dim});
  }
  TensorView floats() {
    return packed() ? arena.tensor(Dtype::f32, {kHeadsQ, kTotalQ})
                    : arena.tensor(Dtype::f32, {kBatch, kHeadsQ, kSeqQ});
  }
  TensorView offsets(std::initializer_list<std::int64_t> values) {
    const TensorView view = arena.tensor(Dtype::i64, {kBatch + 1});
    std::copy(values.begin(), values.end(), static_cast<std::int64_t*>(view.data));
    return view;
  }
  bool packed() const { return pass.problem.offsets_dtype.has_value(); }

  Pass pass;
  Arena arena;
  Args args;
  Workspace workspace;
};
using ForwardCall = AttentionCall<AttentionForward, AttentionForwardArgs>;
using BackwardCall = AttentionCall<AttentionBackward, AttentionBackwardArgs>;

TEST(AttentionBadInput, TheCallsTheTestsSpoilAreRight) {
  for (const AttentionProblem& problem : {dense_problem(), packed_problem()}) {
    ForwardCall forward(problem);
    EXPECT_NO_THROW(run(cpp_plan(forward.pass), forward.args, forward.workspace));
    BackwardCall backward(problem);
    EXPECT_NO_THROW(run(cpp_plan(backward.pass), backward.args, backward.workspace));
  }
}

TEST(AttentionBadInput, TakesCallsWithoutWhatMayBeAbsent) {
  AttentionProblem problem = dense_problem();
  problem.sink = false;
  ForwardCall forward(problem);
  forward.args.lse = forward.args.inputs.sink = {};
  forward.args.inputs.offsets_q = forward.args.inputs.offsets_kv = {};
  EXPECT_NO_THROW(run(cpp_plan(forward.pass), forward.args, forward.workspace));
  BackwardCall backward(problem);
  backward.args.dlse = backward.args.dsink = backward.args.inputs.sink = {};
  EXPECT_NO_THROW(run(cpp_plan(backward.pass), backward.args, backward.workspace));
}

// An empty tensor has no memory, and its strides mean nothing.
TEST(AttentionBadInput, TakesEmptySequencesWithoutMemory) {
  const auto emptied = [](TensorView& view, int dimension) {
    view.data = nullptr;
    view.shape[static_cast<std::size_t>(dimension)] = 0;
    view.strides.fill(std::numeric_limits<std::int64_t>::max());
  };
  AttentionProblem problem = dense_problem();
  problem.seq_q = 0;
  BackwardCall no_queries(problem);
  for (auto member :
       {&AttentionBackwardArgs::out, &AttentionBackwardArgs::dout, &AttentionBackwardArgs::dq}) {
    emptied(no_queries.args.*member, 1);
  }
  emptied(no_queries.args.inputs.q, 1);
  emptied(no_queries.args.lse, 2);
  emptied(no_queries.args.dlse, 2);
  EXPECT_NO_THROW(run(cpp_plan(no_queries.pass), no_queries.args, no_queries.workspace));
  for (std::int64_t i = 0; i < kBatch * kSeqKv * kHeadsKv * kDimQk; ++i) {
    EXPECT_EQ(static_cast<std::uint16_t*>(no_queries.args.dk.data)[i], 0) << i;
  }
  EXPECT_EQ(static_cast<float*>(no_queries.args.dsink.data)[kHeadsQ - 1], 0);

  problem = dense_problem();
  problem.seq_kv = 0;
  ForwardCall no_keys(problem);
  emptied(no_keys.args.inputs.k, 1);
  emptied(no_keys.args.inputs.v, 1);
  EXPECT_NO_THROW(run(cpp_plan(no_keys.pass), no_keys.args, no_keys.workspace));
  for (std::int64_t i = 0; i < kBatch * kSeqQ * kHeadsQ * kDimV; ++i) {
    EXPECT_EQ(static_cast<std::uint16_t*>(no_keys.args.out.data)[i], 0) << i;
  }
}

TEST(AttentionBadInput, RefusesMissingInputs) {
  const auto refused_without = [](auto member, const char* message) {
    ForwardCall forward(packed_problem());
    forward.args.inputs.*member = {};
    forward.refused(message);
    BackwardCall backward(packed_problem());
    backward.args.inputs.*member = {};
    backward.refused(message);
  };
  using Inputs = AttentionInputs;
  refused_without(&Inputs::q,
                  "attention: q must have rank 3, [total_q, heads_q, dim_qk], got rank 0");
  refused_without(&Inputs::k,
                  "attention: k must have rank 3, [total_kv, heads_kv, dim_qk], got rank 0");
  refused_without(&Inputs::v,
                  "attention: v must have rank 3, [total_kv, heads_kv, dim_v], got rank 0");
  refused_without(&Inputs::sink, "attention: sink must have rank 1, [heads_q], got rank 0");
  refused_without(&Inputs::offsets_q,
                  "attention: offsets_q must have rank 1, [batch + 1], got rank 0");
  refused_without(&Inputs::offsets_kv,
                  "attention: offsets_kv must have rank 1, [batch + 1], got rank 0");
}

TEST(AttentionBadInput, RefusesMissingOutputsAndGradients) {
  ForwardCall forward;
  forward.args.out = {};
  forward.refused("attention: out must have rank 4, [batch, seq_q, heads_q, dim_v], got rank 0");
  const auto refused_without = [](auto member, const char* message) {
    BackwardCall call;
    call.args.*member = {};
    call.refused(message);
  };
  using Args = AttentionBackwardArgs;
  refused_without(&Args::out,
                  "attention: out must have rank 4, [batch, seq_q, heads_q, dim_v], got rank 0");
  refused_without(&Args::lse,
                  "attention: lse must have rank 3, [batch, heads_q, seq_q], got rank 0");
  refused_without(&Args::dout,
                  "attention: dout must have rank 4, [batch, seq_q, heads_q, dim_v], got rank 0");
  refused_without(&Args::dq,
                  "attention: dq must have rank 4, [batch, seq_q, heads_q, dim_qk], got rank 0");
  refused_without(&Args::dk,
                  "attention: dk must have rank 4, [batch, seq_kv, heads_kv, dim_qk], got rank 0");
  refused_without(&Args::dv,
                  "attention: dv must have rank 4, [batch, seq_kv, heads_kv, dim_v], got rank 0");
  refused_without(&Args::dsink, "attention: dsink must have rank 1, [heads_q], got rank 0");
}

// Spoils one call of forward, with sequences of equal lengths.
void refused_forward(const std::string& message, const auto& change) {
  ForwardCall call;
  change(call.args);
  call.refused(message);
}
void refused_backward(const std::string& message, const auto& change) {
  BackwardCall call;
  change(call.args);
  call.refused(message);
}

TEST(AttentionBadInput, RefusesWrongShapesAndDtypes) {
  refused_forward(
      "attention: q must be [batch, seq_q, heads_q, dim_qk] = [2, 3, 4, 8], got [2, 5, 4, 8]",
      [](auto& args) { args.inputs.q.shape[1] = 5; });
  refused_forward(
      "attention: k must be [batch, seq_kv, heads_kv, dim_qk] = [2, 5, 2, 8], got [2, 5, 4, 8]",
      [](auto& args) { args.inputs.k.shape[2] = 4; });
  refused_forward(
      "attention: v must be [batch, seq_kv, heads_kv, dim_v] = [2, 5, 2, 6], got [2, 5, 2, 8]",
      [](auto& args) { args.inputs.v = args.inputs.k; });
  refused_forward("attention: sink must be [heads_q] = [4], got [2]",
                  [](auto& args) { args.inputs.sink.shape[0] = 2; });
  refused_forward("attention: lse must be [batch, heads_q, seq_q] = [2, 4, 3], got [2, 3, 4]",
                  [](auto& args) { std::swap(args.lse.shape[1], args.lse.shape[2]); });
  refused_backward("attention: dlse must have rank 3, [batch, heads_q, seq_q], got rank 4",
                   [](auto& args) { args.dlse = args.dq; });
  refused_forward("attention: k must be bf16, got f16",
                  [](auto& args) { args.inputs.k.dtype = Dtype::f16; });
  refused_forward("attention: out must be bf16, got f32",
                  [](auto& args) { args.out.dtype = Dtype::f32; });
  refused_forward("attention: lse must be f32, got bf16",
                  [](auto& args) { args.lse.dtype = Dtype::bf16; });
  refused_backward("attention: dsink must be f32, got bf16",
                   [](auto& args) { args.dsink.dtype = Dtype::bf16; });
  AttentionProblem partial = dense_problem();
  partial.out_dtype = Dtype::f32;
  BackwardCall(partial).refused("attention: out must be f32, got bf16");
  AttentionProblem narrow = packed_problem();
  narrow.offsets_dtype = Dtype::i32;
  ForwardCall(narrow).refused("attention: offsets_q must be i32, got i64");
  ForwardCall few(packed_problem());
  few.args.inputs.offsets_kv.shape[0] = 2;
  few.refused("attention: offsets_kv must be [batch + 1] = [3], got [2]");
}

TEST(AttentionBadInput, RefusesMemoryThatCannotBeUsed) {
  refused_forward("attention: v has a null pointer",
                  [](auto& args) { args.inputs.v.data = nullptr; });
  refused_backward("attention: dk has a null pointer", [](auto& args) { args.dk.data = nullptr; });
  refused_forward("attention: k is on cuda:0, the problem is on cpu", [](auto& args) {
    args.inputs.k.device = {DeviceType::cuda, 0};
  });
  BackwardCall odd;
  odd.args.dout.data = static_cast<char*>(odd.args.dout.data) + 1;
  odd.refused(text("attention: dout must be aligned to 2 bytes for bf16, got address ",
                   odd.args.dout.data));
}

TEST(AttentionBadInput, RefusesStrides) {
  refused_forward(
      "attention: q must have a contiguous last dimension (stride 1), got bf16[2, 3, 4, 8] strides "
      "[96, 32, 1, 4]",
      [](auto& args) {
        args.inputs.q.strides[2] = 1;
        args.inputs.q.strides[3] = 4;
      });
  refused_forward(
      "attention: k has a stride that is negative or out of range: bf16[2, 5, 2, 8] strides [80, "
      "-16, 8, 1]",
      [](auto& args) { args.inputs.k.strides[1] = -16; });
  refused_forward(
      "attention: v has a stride that is negative or out of range: bf16[2, 5, 2, 6] strides "
      "[2305843009213693952, 12, 6, 1]",
      [](auto& args) { args.inputs.v.strides[0] = std::int64_t{1} << 61; });
  refused_backward(
      "attention: lse must have a contiguous last dimension (stride 1), got f32[2, 4, 3] strides "
      "[12, 1, 4]",
      [](auto& args) {
        args.lse.strides[2] = kHeadsQ;
        args.lse.strides[1] = 1;
      });
}

// The gradient of a sum is one number, expanded: PyTorch gives it strides of 0.
TEST(AttentionBadInput, RefusesAGradientThatIsExpanded) {
  refused_backward(
      "attention: dout must have a contiguous last dimension (stride 1), got bf16[2, 3, 4, 6] "
      "strides [0, 0, 0, 0]",
      [](auto& args) {
        args.dout.strides = {0, 0, 0, 0};
      });
  refused_backward(
      "attention: elements of dout share memory: bf16[2, 3, 4, 6] strides [0, 0, 0, 1]",
      [](auto& args) {
        args.dout.strides = {0, 0, 0, 1};
      });
  refused_backward("attention: elements of dlse share memory: f32[2, 4, 3] strides [0, 3, 1]",
                   [](auto& args) { args.dlse.strides[0] = 0; });
}

TEST(AttentionBadInput, RefusesOverlappingOutputs) {
  refused_forward("attention: output out overlaps v: their memory must be apart",
                  [](auto& args) { args.out.data = args.inputs.v.data; });
  refused_forward("attention: output lse overlaps out: their memory must be apart",
                  [](auto& args) { args.lse.data = args.out.data; });
  refused_backward("attention: output dq overlaps q: their memory must be apart",
                   [](auto& args) { args.dq.data = args.inputs.q.data; });
  refused_backward("attention: output dk overlaps lse: their memory must be apart",
                   [](auto& args) { args.dk.data = args.lse.data; });
  refused_backward("attention: output dv overlaps dk: their memory must be apart",
                   [](auto& args) { args.dv.data = args.dk.data; });
  refused_backward("attention: output dsink overlaps sink: their memory must be apart",
                   [](auto& args) { args.dsink = args.inputs.sink; });
  ForwardCall packed(packed_problem());
  packed.args.lse.data = packed.args.inputs.offsets_q.data;
  packed.refused("attention: output lse overlaps offsets_q: their memory must be apart");
}

// Offsets are given to both passes, which check them alike; the names are of queries and keys.
void refused_offsets(const std::string& message, bool queries,
                     std::initializer_list<std::int64_t> offsets) {
  const auto expect = [&](auto call) {
    auto& view = queries ? call.args.inputs.offsets_q : call.args.inputs.offsets_kv;
    std::copy(offsets.begin(), offsets.end(), static_cast<std::int64_t*>(view.data));
    call.refused(message);
  };
  expect(ForwardCall(packed_problem()));
  expect(BackwardCall(packed_problem()));
}

TEST(AttentionBadInput, RefusesOffsetsOfNoSequences) {
  refused_offsets("attention: offsets_q[0] must be 0, got 1", true, {1, 3, 5});
  refused_offsets("attention: offsets_kv[0] must be 0, got -1", false, {-1, 5, 6});
  refused_offsets("attention: offsets_q[2] must be 3 (the offset before) to 6 (the rows), got 2",
                  true, {0, 3, 2});
  refused_offsets("attention: offsets_q[1] must be 0 (the offset before) to 6 (the rows), got -1",
                  true, {0, -1, 2});
  refused_offsets("attention: offsets_kv[2] must be 5 (the offset before) to 8 (the rows), got 9",
                  false, {0, 5, 9});
  refused_offsets(
      "attention: offsets_kv[1] must be 0 (the offset before) to 8 (the rows), got "
      "9223372036854775807",
      false, {0, std::numeric_limits<std::int64_t>::max(), 6});
  refused_offsets("attention: sequence 0 has 4 rows in offsets_q, the problem allows 3", true,
                  {0, 4, 5});
  refused_offsets("attention: sequence 1 has 6 rows in offsets_kv, the problem allows 5", false,
                  {0, 1, 7});
}

TEST(AttentionBadInput, RefusesBadWorkspaces) {
  const auto expect = [](auto call) {
    const Workspace right = call.workspace;
    if (right.bytes == 0) GTEST_SKIP() << "the reference needs none";
    call.workspace.bytes -= 1;
    call.refused(
        text("attention: workspace must have ", right.bytes, " bytes, got ", right.bytes - 1));
    call.workspace = {nullptr, right.bytes};
    call.refused(
        text("attention: workspace must have ", right.bytes, " bytes, got a null pointer"));
    call.workspace = {static_cast<char*>(right.data) + 64, right.bytes};
    call.refused(text("attention: workspace must be aligned to 256 bytes, got address ",
                      call.workspace.data));
    call.workspace = {call.args.inputs.q.data, right.bytes};
    call.refused("attention: workspace overlaps q: their memory must be apart");
  };
  expect(ForwardCall());
  expect(BackwardCall());
}

TEST(AttentionBadInput, RefusesAnEmptyPlan) {
  expect_error(kInvalid,
               "attention_forward: the plan is empty: plan_attention_forward() makes one from a "
               "problem",
               [] { run(AttentionForwardPlan(), ForwardCall().args); });
  expect_error(kInvalid,
               "attention_backward: the plan is empty: plan_attention_backward() makes one from a "
               "problem",
               [] { run(AttentionBackwardPlan(), BackwardCall().args); });
}

}  // namespace
}  // namespace octet::bad_input
