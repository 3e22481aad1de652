// What moe_route, moe_maps, moe_permute and moe_unpermute refuse, through C++ and C.
#include "bad_input/both_apis.hpp"

#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr Device kCuda{DeviceType::cuda, 0};

void route_refused(const std::string& message, const auto& change) {
  MoeRouteProblem problem{.tokens = 4, .experts = 8, .top_k = 2};
  change(problem);
  expect_plan_refused(kInvalid, message, MoeRouteForward{problem});
  expect_plan_refused(kInvalid, message, MoeRouteBackward{problem});
}

TEST(MoeRouteBadInput, RefusesBadProblems) {
  route_refused("moe_route: tokens must be at least 0, got -1", [](auto& p) { p.tokens = -1; });
  route_refused("moe_route: experts must be 1 to 1024, got 0", [](auto& p) { p.experts = 0; });
  route_refused("moe_route: experts must be 1 to 1024, got 1025",
                [](auto& p) { p.experts = 1025; });
  route_refused("moe_route: top_k must be 1 to 64, got 0", [](auto& p) { p.top_k = 0; });
  route_refused("moe_route: top_k must be 1 to 64, got 65", [](auto& p) { p.top_k = 65; });
  route_refused("moe_route: top_k must be at most the 8 experts, got 9",
                [](auto& p) { p.top_k = 9; });
  route_refused("moe_route: dtype must be f32, f16 or bf16, got e4m3",
                [](auto& p) { p.dtype = Dtype::e4m3; });
  route_refused("moe_route: score must be softmax or sigmoid, got 3",
                [](auto& p) { p.score = static_cast<RouteScore>(3); });
  route_refused("moe_route: scale must be finite and at least 0, got inf",
                [](auto& p) { p.scale = std::numeric_limits<float>::infinity(); });
}

TEST(MoeRouteBadInput, RefusesBadGroups) {
  route_refused("moe_route: expert_groups must divide the 8 experts, got 3",
                [](auto& p) { p.expert_groups = 3; });
  route_refused("moe_route: expert_groups must divide the 8 experts, got 0",
                [](auto& p) { p.expert_groups = 0; });
  route_refused("moe_route: top_groups must be 1 to the 4 expert_groups, got 5", [](auto& p) {
    p.expert_groups = 4;
    p.top_groups = 5;
  });
  route_refused("moe_route: top_k must be at most the 2 experts of 1 groups, got 3", [](auto& p) {
    p.expert_groups = 4;
    p.top_k = 3;
  });
  route_refused("moe_route: group_score must be best or best_two, got 0",
                [](auto& p) { p.group_score = static_cast<ExpertGroupScore>(0); });
  route_refused(
      "moe_route: group_score best_two needs two experts per group, got 8 groups of 1; use best",
      [](auto& p) {
        p.expert_groups = 8;
        p.top_groups = 4;
      });
}

struct RouteCall {
  RouteCall() {
    forward.logits = arena.matrix(Dtype::bf16, 4, 8);
    forward.bias = arena.tensor(Dtype::f32, {8});
    forward.indices = backward.indices = arena.matrix(Dtype::i32, 4, 2);
    forward.weights = backward.dweights = arena.matrix(Dtype::f32, 4, 2);
    forward.scores = backward.scores = arena.matrix(Dtype::f32, 4, 8);
    backward.dscores = arena.matrix(Dtype::f32, 4, 8);
    backward.dlogits = arena.matrix(Dtype::bf16, 4, 8);
  }
  void forward_refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, MoeRouteForward{problem}, forward, {});
  }
  void backward_refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, MoeRouteBackward{problem}, backward, {});
  }

  Arena arena{1 << 13};
  MoeRouteProblem problem{.tokens = 4, .experts = 8, .top_k = 2, .bias = true};
  MoeRouteForwardArgs forward;
  MoeRouteBackwardArgs backward;
};

TEST(MoeRouteBadInput, RefusesBadTensors) {
  RouteCall fewer;
  fewer.forward.weights.shape[1] = 1;
  fewer.forward_refused("moe_route: weights must be [tokens, top_k] = [4, 2], got [4, 1]");
  RouteCall wide;
  wide.forward.indices.dtype = Dtype::i64;
  wide.forward_refused("moe_route: indices must be i32, got i64");
  RouteCall biases;
  biases.forward.bias.shape[0] = 7;
  biases.forward_refused("moe_route: bias must be [experts] = [8], got [7]");
  RouteCall overlap;
  overlap.forward.scores.data = overlap.forward.logits.data;
  overlap.forward_refused("moe_route: output scores overlaps logits: their memory must be apart");
  RouteCall device;
  device.forward.logits.device = kCuda;
  device.forward_refused("moe_route: logits is on cuda:0, the problem is on cpu");
  RouteCall gradient;
  gradient.backward.dscores.shape[0] = 3;
  gradient.backward_refused("moe_route: dscores must be [tokens, experts] = [4, 8], got [3, 8]");
  RouteCall lost;
  lost.backward.scores.data = nullptr;
  lost.backward_refused("moe_route: scores has a null pointer");
  RouteCall in_place;
  in_place.backward.dlogits.data = in_place.backward.dscores.data;
  in_place.backward_refused(
      "moe_route: output dlogits overlaps dscores: their memory must be apart");
}

void maps_refused(const std::string& message, const auto& change) {
  MoeMapsProblem problem{.tokens = 4, .top_k = 2, .experts = 8, .groups = 8, .rows = 8};
  change(problem);
  expect_plan_refused(kInvalid, message, problem);
}

TEST(MoeMapsBadInput, RefusesBadProblems) {
  maps_refused("moe_maps: tokens must be at least 0, got -1", [](auto& p) { p.tokens = -1; });
  maps_refused("moe_maps: top_k must be at least 1, got 0", [](auto& p) { p.top_k = 0; });
  maps_refused("moe_maps: tokens * top_k must be at most 2^30, got 1073741824 * 2",
               [](auto& p) { p.tokens = 1 << 30; });
  maps_refused("moe_maps: rows must be 1 to 2^30, got 0", [](auto& p) { p.rows = 0; });
  maps_refused("moe_maps: groups must be 1 to 1024, got 0", [](auto& p) { p.groups = 0; });
  maps_refused("moe_maps: the 8 groups from first_expert 1 on must be among the 8 experts",
               [](auto& p) { p.first_expert = 1; });
  maps_refused("moe_maps: the 8 groups from first_expert -1 on must be among the 8 experts",
               [](auto& p) { p.first_expert = -1; });
  maps_refused("moe_maps: capacity must be at least 0, got -3", [](auto& p) { p.capacity = -3; });
  maps_refused("moe_maps: indices_dtype must be i32 or i64, got f32",
               [](auto& p) { p.indices_dtype = Dtype::f32; });
}

struct MapsCall {
  MapsCall() {
    args.indices = arena.matrix(Dtype::i32, 4, 2);
    args.row_of = arena.matrix(Dtype::i32, 4, 2);
    args.source = arena.tensor(Dtype::i32, {8});
    args.sizes = arena.tensor(Dtype::i32, {8});
    args.table = arena.tensor(Dtype::i32, {group_table_words(8, 8)});
    args.status = arena.tensor(Dtype::i32, {kMoeMapsStatusWords});
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, problem, args, {});
  }

  Arena arena{1 << 13};
  MoeMapsProblem problem{.tokens = 4, .top_k = 2, .experts = 8, .groups = 8, .rows = 8};
  MoeMapsArgs args;
};

TEST(MoeMapsBadInput, RefusesBadTensors) {
  MapsCall wide;
  wide.args.indices.dtype = Dtype::i64;
  wide.refused("moe_maps: indices must be i32, got i64");
  MapsCall fewer;
  fewer.args.indices.shape[1] = 1;
  fewer.refused("moe_maps: indices must be [tokens, top_k] = [4, 2], got [4, 1]");
  MapsCall rows;
  rows.args.source.shape[0] = 9;
  rows.refused("moe_maps: source must be [rows] = [8], got [9]");
  MapsCall groups;
  groups.args.sizes.shape[0] = 7;
  groups.refused("moe_maps: sizes must be [groups] = [8], got [7]");
  MapsCall status;
  status.args.status.shape[0] = 4;
  status.refused("moe_maps: status must be [kMoeMapsStatusWords] = [16], got [4]");
  MapsCall overlap;
  overlap.args.row_of.data = overlap.args.indices.data;
  overlap.refused("moe_maps: output row_of overlaps indices: their memory must be apart");
}

TEST(MoeMapsBadInput, RefusesAStatusThatWasNeverWritten) {
  MapsCall call;
  octet_moe_maps_report report;
  octet_tensor status = to_c(call.args.status);
  expect_status(kInvalid, "moe_maps: status was not written by moe_maps",
                octet_read_moe_maps(&status, nullptr, &report));
  expect_status(kInvalid, "moe_maps: status was not written by moe_maps",
                octet_check_moe_maps(&status, nullptr));
  status.dtype = OCTET_F32;
  expect_status(kInvalid, "moe_maps: status must be i32[16], got f32[16]",
                octet_check_moe_maps(&status, nullptr));
  expect_status(kInvalid, "moe_maps: status is a null pointer",
                octet_check_moe_maps(nullptr, nullptr));
}

TEST(MoeMapsBadInput, ReportsIndicesThroughBothApis) {
  MapsCall call;
  for (int i = 0; i < 8; ++i) static_cast<std::int32_t*>(call.args.indices.data)[i] = i + 1;
  run(plan_moe_maps(call.problem), call.args);
  const octet_tensor status = to_c(call.args.status);
  octet_moe_maps_report report;
  ASSERT_EQ(octet_read_moe_maps(&status, nullptr, &report), OCTET_OK);
  EXPECT_EQ(report.bad_indices, 1);
  const std::string message = "moe_maps: indices[3, 1] must be -1 or an expert of 0 to 7, got 8";
  expect_error(kInvalid, message, [&] { check_moe_maps(call.args.status); });
  expect_status(kInvalid, message, octet_check_moe_maps(&status, nullptr));
}

void rows_refused(const std::string& message, const auto& change) {
  const auto problem = [&]<class Problem>(Problem given) {
    given.tokens = 4;
    given.top_k = 2;
    given.rows = 9;
    given.cols = 16;
    change(given);
    return given;
  };
  const MoePermuteProblem permute = problem(MoePermuteProblem());
  const MoeUnpermuteProblem unpermute = problem(MoeUnpermuteProblem());
  expect_plan_refused(kInvalid, "moe_permute: " + message, MoePermuteForward{permute});
  expect_plan_refused(kInvalid, "moe_permute: " + message, MoePermuteBackward{permute});
  expect_plan_refused(kInvalid, "moe_unpermute: " + message, MoeUnpermuteForward{unpermute});
  expect_plan_refused(kInvalid, "moe_unpermute: " + message, MoeUnpermuteBackward{unpermute});
}

TEST(MoePermuteBadInput, RefusesBadProblems) {
  rows_refused("tokens must be at least 0, got -1", [](auto& p) { p.tokens = -1; });
  rows_refused("top_k must be at least 1, got 0", [](auto& p) { p.top_k = 0; });
  rows_refused("rows must be 1 to 2^30, got 0", [](auto& p) { p.rows = 0; });
  rows_refused("cols must be at least 1, got 0", [](auto& p) { p.cols = 0; });
  rows_refused("dtype must be f32, f16 or bf16, got i32", [](auto& p) { p.dtype = Dtype::i32; });
  rows_refused("tail must be zero or untouched, got 0",
               [](auto& p) { p.tail = static_cast<GroupTail>(0); });
}

struct RowsCall {
  RowsCall() {
    permute.x = unpermute.out = arena.matrix(Dtype::bf16, 4, 16);
    permute.grouped = unpermute.grouped = arena.matrix(Dtype::bf16, 9, 16);
    permute.weights = unpermute.weights = arena.matrix(Dtype::f32, 4, 2);
    permute.row_of = unpermute.row_of = arena.matrix(Dtype::i32, 4, 2);
    permute.source = arena.tensor(Dtype::i32, {9});
    permute.row_weight = arena.tensor(Dtype::f32, {9});
    permute_backward = {arena.matrix(Dtype::bf16, 9, 16), arena.tensor(Dtype::f32, {9}),
                        permute.row_of, arena.matrix(Dtype::bf16, 4, 16),
                        arena.matrix(Dtype::f32, 4, 2)};
    unpermute_backward = {permute_backward.dx,      unpermute.grouped, unpermute.weights,
                          unpermute.row_of,         permute.source,    permute_backward.dgrouped,
                          permute_backward.dweights};
  }
  template <class Pass, class Args>
  void refused(const std::string& message, const Pass& pass, const Args& args) const {
    expect_run_refused(kInvalid, message, arena, pass, args, {});
  }

  Arena arena{1 << 13};
  MoePermuteForward forward{{4, 2, 9, 16, Dtype::bf16, true}};
  MoePermuteBackward backward{{4, 2, 9, 16, Dtype::bf16, true}};
  MoeUnpermuteForward back{{4, 2, 9, 16, Dtype::bf16, true}};
  MoeUnpermuteBackward back_gradient{{4, 2, 9, 16, Dtype::bf16, true}};
  MoePermuteForwardArgs permute;
  MoePermuteBackwardArgs permute_backward;
  MoeUnpermuteForwardArgs unpermute;
  MoeUnpermuteBackwardArgs unpermute_backward;
};

TEST(MoePermuteBadInput, RefusesBadTensors) {
  RowsCall weights;
  weights.permute.weights.shape[1] = 3;
  weights.refused("moe_permute: weights must be [tokens, top_k] = [4, 2], got [4, 3]",
                  weights.forward, weights.permute);
  RowsCall wide;
  wide.permute.row_of.dtype = Dtype::i64;
  wide.refused("moe_permute: row_of must be i32, got i64", wide.forward, wide.permute);
  RowsCall source;
  source.permute.source.shape[0] = 8;
  source.refused("moe_permute: source must be [rows] = [9], got [8]", source.forward,
                 source.permute);
  RowsCall overlap;
  overlap.permute.grouped.data = overlap.permute.x.data;
  overlap.refused("moe_permute: output grouped overlaps x: their memory must be apart",
                  overlap.forward, overlap.permute);
  RowsCall gradient;
  gradient.permute_backward.d_row_weight = {};
  gradient.refused("moe_permute: d_row_weight must have rank 1, [rows], got rank 0",
                   gradient.backward, gradient.permute_backward);
  RowsCall device;
  device.permute_backward.dx.device = kCuda;
  device.refused("moe_permute: dx is on cuda:0, the problem is on cpu", device.backward,
                 device.permute_backward);
}

TEST(MoeUnpermuteBadInput, RefusesBadTensors) {
  RowsCall dtype;
  dtype.unpermute.out.dtype = Dtype::f32;
  dtype.refused("moe_unpermute: out must be bf16, got f32", dtype.back, dtype.unpermute);
  RowsCall weights;
  weights.unpermute.weights = {};
  weights.refused("moe_unpermute: weights must have rank 2, [tokens, top_k], got rank 0",
                  weights.back, weights.unpermute);
  RowsCall overlap;
  overlap.unpermute_backward.dgrouped.data = overlap.unpermute_backward.grouped.data;
  overlap.refused("moe_unpermute: output dgrouped overlaps grouped: their memory must be apart",
                  overlap.back_gradient, overlap.unpermute_backward);
}

MoeMlpProblem experts_problem() {
  return {.tokens = 6, .f = 10, .k = 12, .experts = 4, .top_k = 2};
}

void experts_refused(const std::string& message, const auto& change, ErrorCode code = kInvalid) {
  MoeMlpProblem problem = experts_problem();
  change(problem);
  expect_plan_refused(code, message, MoeMlpForward{problem});
  expect_plan_refused(code, message, MoeMlpBackward{problem});
}

TEST(MoeMlpBadInput, RefusesBadProblems) {
  experts_refused("moe_mlp: tokens must be at least 1, got 0", [](auto& p) { p.tokens = 0; });
  experts_refused("moe_mlp: F must be at least 1, got -1", [](auto& p) { p.f = -1; });
  experts_refused("moe_mlp: experts must be 1 to 1024, got 1025",
                  [](auto& p) { p.experts = 1025; });
  experts_refused("moe_route: top_k must be at most the 4 experts, got 5",
                  [](auto& p) { p.top_k = 5; });
  experts_refused("moe_mlp: top_k must be at least 1, got 0", [](auto& p) { p.top_k = 0; });
  experts_refused("moe_mlp: rows must be at least 0, got -1", [](auto& p) { p.rows = -1; });
  experts_refused("moe_mlp: capacity must be at least 0, got -1", [](auto& p) { p.capacity = -1; });
  experts_refused(
      "moe_mlp: first_expert and local_experts must lie within the 4 experts, got 3 and 2",
      [](auto& p) {
        p.first_expert = 3;
        p.local_experts = 2;
      });
  experts_refused("moe_mlp: activation must be silu, gelu_tanh, gelu_erf or relu_squared, got 9",
                  [](auto& p) { p.activation = static_cast<GateActivation>(9); });
  experts_refused("moe_mlp: format must be e4m3 or e5m2, got bf16",
                  [](auto& p) { p.format = Dtype::bf16; });
  experts_refused("moe_mlp: max_multiprocessors must be at least 0, got -1",
                  [](auto& p) { p.max_multiprocessors = -1; });
  experts_refused("moe_mlp: expected_rows must be 0 to rows = 12, got 13",
                  [](auto& p) { p.expected_rows = 13; });
  experts_refused(
      "moe_mlp: accumulate_dw needs an f32 or bf16 dw, got f16",
      [](auto& p) {
        p.dw_dtype = Dtype::f16;
        p.accumulate_dw = true;
      },
      ErrorCode::unsupported);
}

struct ExpertsCall {
  ExpertsCall() {
    MoeMlpForwardArgs forward;
    forward.x = arena.matrix(Dtype::bf16, 6, 12);
    forward.logits = arena.matrix(Dtype::f32, 6, 4);
    forward.w_gate_up = arena.tensor(Dtype::bf16, {4, 20, 12});
    forward.w_down = arena.tensor(Dtype::bf16, {4, 12, 10});
    forward.y = arena.matrix(Dtype::bf16, 6, 12);
    const MoeMlpSavedLayout layout = moe_mlp_saved_layout(pass.problem);
    forward.saved = args.saved = layout.view(arena.take(layout.bytes));
    args.dy = arena.matrix(Dtype::bf16, 6, 12);
    args.dx = arena.matrix(Dtype::bf16, 6, 12);
    args.dlogits = arena.matrix(Dtype::f32, 6, 4);
    args.dw_gate_up = arena.tensor(Dtype::bf16, {4, 20, 12});
    args.dw_down = arena.tensor(Dtype::bf16, {4, 12, 10});
    const auto plan = plan_moe_mlp_forward(pass.problem);
    workspace = arena.workspace(
        std::max(plan.workspace_bytes, plan_moe_mlp_backward(pass.problem).workspace_bytes));
    run(plan, forward, workspace);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, pass, args, workspace);
  }

  Arena arena{1 << 20};
  MoeMlpBackward pass{experts_problem()};
  MoeMlpBackwardArgs args;
  Workspace workspace;
};

TEST(MoeMlpBadInput, RefusesBadTensors) {
  const ExpertsCall right;
  EXPECT_NO_THROW(run(plan_moe_mlp_backward(right.pass.problem), right.args, right.workspace));
  ExpertsCall weights;
  weights.args.dw_down.shape[0] = 3;
  weights.refused(
      "moe_mlp_backward: dw_down must be [experts, K, F] = [4, 12, 10], got [3, 12, 10]");
  ExpertsCall tokens;
  tokens.args.dy.shape[0] = 5;
  tokens.refused("moe_mlp_backward: dy must be [tokens, K] = [6, 12], got [5, 12]");
  ExpertsCall nothing;
  nothing.args.saved = {};
  nothing.refused("moe_mlp_backward: saved.scores must have rank 2, [tokens, experts], got rank 0");
  ExpertsCall source;
  static_cast<std::int32_t*>(source.args.saved.source.data)[1] = 12;
  source.refused("moe_mlp_backward: saved.source[1] must be 0 to 11, got 12");
  ExpertsCall table;
  static_cast<std::int32_t*>(table.args.saved.table.data)[0] = 0;
  table.refused("moe_mlp_backward: table was not made by group_table, got i32[" +
                std::to_string(group_table_words(4, 12)) + "]");
  ExpertsCall overlap;
  overlap.args.dx.data = overlap.args.dy.data;
  overlap.refused("moe_mlp_backward: output dx overlaps dy: their memory must be apart");
}

}  // namespace
}  // namespace octet::bad_input
