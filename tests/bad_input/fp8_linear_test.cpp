// What fp8_linear refuses, through C++ and C, including bad workspaces.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

Fp8LinearProblem small_problem() {
  Fp8LinearProblem problem{.m = 5, .n = 24, .k = 40};
  return problem;
}

struct LayerCall {
  LayerCall() : arena(1 << 18), problem(small_problem()) {
    forward.x = arena.matrix(problem.dtype, problem.m, problem.k);
    forward.w = arena.matrix(problem.dtype, problem.n, problem.k);
    forward.y = arena.matrix(problem.dtype, problem.m, problem.n);
    const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
    forward.saved.x_t = layout.x_t.view(arena.take(layout.x_t.bytes));
    forward.saved.w_t = layout.w_t.view(arena.take(layout.w_t.bytes));
    backward.dy = arena.matrix(problem.dtype, problem.m, problem.n);
    backward.saved = forward.saved;
    backward.dx = arena.matrix(problem.dtype, problem.m, problem.k);
    backward.dw = arena.matrix(problem.dw_dtype, problem.n, problem.k);
    workspace = arena.workspace(std::max(plan_fp8_linear_forward(problem).workspace_bytes,
                                         plan_fp8_linear_backward(problem).workspace_bytes));
  }
  void forward_refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, Fp8LinearForward{problem}, forward, workspace);
  }
  void backward_refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, Fp8LinearBackward{problem}, backward, workspace);
  }

  Arena arena;
  Fp8LinearProblem problem;
  Fp8LinearForwardArgs forward;
  Fp8LinearBackwardArgs backward;
  Workspace workspace;
};

void expect_both_plans_refused(ErrorCode code, const std::string& message,
                               const Fp8LinearProblem& problem) {
  expect_plan_refused(code, message, Fp8LinearForward{problem});
  expect_plan_refused(code, message, Fp8LinearBackward{problem});
  expect_error(code, message, [&] { fp8_linear_saved_layout(problem); });
  const octet_fp8_linear_problem c = to_c(problem);
  octet_fp8_linear_saved_layout saved;
  expect_status(code, message, octet_make_fp8_linear_saved_layout(&c, &saved));
  octet_fp8_linear_weights_layout weights;
  expect_status(code, message, octet_make_fp8_linear_weights_layout(&c, &weights));
}

TEST(Fp8LinearBadInput, TheCallsTheTestsSpoilAreRight) {
  LayerCall call;
  EXPECT_NO_THROW(run(plan_fp8_linear_forward(call.problem), call.forward, call.workspace));
  EXPECT_NO_THROW(run(plan_fp8_linear_backward(call.problem), call.backward, call.workspace));
}

TEST(Fp8LinearBadInput, RefusesBadProblems) {
  Fp8LinearProblem problem = small_problem();
  problem.m = 0;
  expect_both_plans_refused(kInvalid, "fp8_linear: M must be at least 1, got 0", problem);
  problem = small_problem();
  problem.n = problem.k = std::int64_t{1} << 32;
  expect_both_plans_refused(
      kInvalid,
      "fp8_linear: a tensor of 4294967296 x 4294967296 has more than 2^58 elements, the most "
      "that octet can address",
      problem);
  problem = small_problem();
  problem.dtype = Dtype::e5m2;
  expect_both_plans_refused(kInvalid, "fp8_linear: dtype must be f32, f16 or bf16, got e5m2",
                            problem);
  problem = small_problem();
  problem.grad_format = Dtype::f16;
  expect_both_plans_refused(kInvalid, "fp8_linear: grad_format must be e4m3 or e5m2, got f16",
                            problem);
  problem = small_problem();
  problem.wgrad_blocks = static_cast<WgradBlocks>(3);
  expect_both_plans_refused(
      kInvalid, "fp8_linear: wgrad_blocks must be rows (1) or square (2), got 3", problem);
  problem = small_problem();
  problem.amax_floor = -2;
  expect_both_plans_refused(
      kInvalid, "fp8_linear: amax_floor must be finite and at least 0, got -2", problem);
  problem.amax_floor = 1e30f;
  expect_both_plans_refused(kInvalid,
                            "fp8_linear: amax_floor must be at most 1e+18, so that products of two "
                            "scales stay finite, got 1e+30",
                            problem);
  problem = small_problem();
  problem.max_multiprocessors = -1;
  expect_both_plans_refused(kInvalid, "fp8_linear: max_multiprocessors must be at least 0, got -1",
                            problem);
  problem = small_problem();
  problem.accumulate_dw = true;
  problem.dw_dtype = Dtype::f16;
  expect_both_plans_refused(kUnsupported,
                            "fp8_linear: accumulate_dw needs an f32 or bf16 dw, got f16", problem);
}

TEST(Fp8LinearBadInput, RefusesWhatAGranularityDoesNotHave) {
  const auto refused = [](ErrorCode code, const std::string& message, const auto& change) {
    Fp8LinearProblem problem = small_problem();
    change(problem);
    expect_both_plans_refused(code, "fp8_linear: " + message, problem);
  };
  refused(kInvalid,
          "granularity must be blockwise (0), tensorwise (1), rowwise (2) or mxfp8 (3), got 4",
          [](Fp8LinearProblem& problem) { problem.granularity = static_cast<Granularity>(4); });
  refused(kInvalid,
          "wgrad_blocks = square needs granularity blockwise or mxfp8, got rowwise, which has no "
          "blocks of 128; leave it at rows",
          [](Fp8LinearProblem& problem) {
            problem.granularity = Granularity::rowwise;
            problem.wgrad_blocks = WgradBlocks::square;
          });
  refused(kUnsupported,
          "fast_accumulation needs granularity tensorwise or rowwise, whose scales are applied at "
          "the end of a product, got mxfp8",
          [](Fp8LinearProblem& problem) {
            problem.granularity = Granularity::mxfp8;
            problem.fast_accumulation = true;
          });
  refused(kInvalid,
          "granularity mxfp8 has no amax_floor: its scales follow from the data alone; leave it "
          "unset",
          [](Fp8LinearProblem& problem) {
            problem.granularity = Granularity::mxfp8;
            problem.amax_floor = 1;
          });
  refused(kInvalid,
          "granularity mxfp8 has no pow2_scales: its scales are powers of two; leave it unset",
          [](Fp8LinearProblem& problem) {
            problem.granularity = Granularity::mxfp8;
            problem.pow2_scales = true;
          });
  refused(kInvalid, "mx_scale must be 0 (floor), 1 (even) or 2 (up), got -1",
          [](Fp8LinearProblem& problem) { problem.mx_scale = static_cast<MxScale>(-1); });
  refused(kInvalid, "mx_scale = even needs granularity mxfp8, got blockwise",
          [](Fp8LinearProblem& problem) { problem.mx_scale = MxScale::even; });
}

TEST(Fp8LinearBadInput, RefusesSavedTensorsOfAnotherGranularity) {
  LayerCall call;
  call.problem.granularity = Granularity::rowwise;
  call.forward_refused("fp8_linear_forward: saved.x_t must have 1xall blocks, got 1x128");
  call.backward_refused("fp8_linear_backward: saved.x_t must have 1xall blocks, got 1x128");
}

TEST(Fp8LinearBadInput, RefusesADeviceThatIsNotThere) {
  Fp8LinearProblem problem = small_problem();
  const int count = cuda_device_count();
  problem.device = {DeviceType::cuda, count};
  expect_both_plans_refused(
      ErrorCode::no_device,
      text("fp8_linear: device cuda:", count, " is not on this machine, which has ", count,
           " CUDA devices; device cpu is always there"),
      problem);
}

TEST(Fp8LinearBadInput, RefusesBackwardOfAnInferenceLayer) {
  Fp8LinearProblem problem = small_problem();
  problem.training = false;
  expect_plan_refused(
      kInvalid, "fp8_linear: backward needs training = true and need_dx, need_dw or a dbias_dtype",
      Fp8LinearBackward{problem});
  problem = small_problem();
  problem.need_dx = problem.need_dw = false;
  expect_plan_refused(
      kInvalid, "fp8_linear: backward needs training = true and need_dx, need_dw or a dbias_dtype",
      Fp8LinearBackward{problem});
}

TEST(Fp8LinearBadInput, RefusesBiasesItCannotAddOrSum) {
  Fp8LinearProblem problem = small_problem();
  problem.bias_dtype = Dtype::f16;
  expect_both_plans_refused(
      kUnsupported, "fp8_linear: bias_dtype must be f32 or that of y, bf16, got f16", problem);
  problem = small_problem();
  problem.dbias_dtype = Dtype::e4m3;
  expect_both_plans_refused(kInvalid, "fp8_linear: dbias_dtype must be f32, f16 or bf16, got e4m3",
                            problem);
  problem.dbias_dtype = Dtype::f16;
  problem.accumulate_dw = true;
  expect_both_plans_refused(
      kUnsupported, "fp8_linear: accumulate_dw needs an f32 or bf16 dbias, got f16", problem);
}

TEST(Fp8LinearBadInput, RefusesABiasOfAnotherForm) {
  LayerCall surplus;
  surplus.forward.bias = surplus.arena.tensor(Dtype::f32, {24});
  surplus.forward_refused("fp8_linear_forward: a bias is given, but the problem has no bias_dtype");
  const auto spoil = [](const std::string& message, const auto& change) {
    LayerCall call;
    call.problem.bias_dtype = Dtype::f32;
    call.forward.bias = call.arena.tensor(Dtype::f32, {24});
    change(call.forward);
    call.forward_refused("fp8_linear_forward: " + message);
  };
  spoil("bias must have rank 1, [N], got rank 0",
        [](Fp8LinearForwardArgs& args) { args.bias = {}; });
  spoil("bias must be [N] = [24], got [23]",
        [](Fp8LinearForwardArgs& args) { args.bias.shape[0] = 23; });
  spoil("bias must be f32, got bf16",
        [](Fp8LinearForwardArgs& args) { args.bias.dtype = Dtype::bf16; });
  spoil("bias is on cuda:0, the problem is on cpu", [](Fp8LinearForwardArgs& args) {
    args.bias.device = {DeviceType::cuda, 0};
  });
  spoil("output y overlaps bias: their memory must be apart",
        [](Fp8LinearForwardArgs& args) { args.bias.data = args.y.data; });
}

TEST(Fp8LinearBadInput, RefusesADbiasOfAnotherForm) {
  const auto spoil = [](const std::string& message, const auto& change) {
    LayerCall call;
    call.problem.dbias_dtype = Dtype::f32;
    call.backward.dbias = call.arena.tensor(Dtype::f32, {24});
    change(call.backward);
    call.backward_refused("fp8_linear_backward: " + message);
  };
  spoil("dbias has a null pointer", [](Fp8LinearBackwardArgs& args) { args.dbias.data = nullptr; });
  spoil("dbias must be [N] = [24], got [40]",
        [](Fp8LinearBackwardArgs& args) { args.dbias.shape[0] = 40; });
  spoil("dbias must be f32, got bf16",
        [](Fp8LinearBackwardArgs& args) { args.dbias.dtype = Dtype::bf16; });
  spoil("dbias is on cuda:0, the problem is on cpu", [](Fp8LinearBackwardArgs& args) {
    args.dbias.device = {DeviceType::cuda, 0};
  });
  spoil("output dbias overlaps dy: their memory must be apart",
        [](Fp8LinearBackwardArgs& args) { args.dbias.data = args.dy.data; });
  spoil("output dbias overlaps dw: their memory must be apart",
        [](Fp8LinearBackwardArgs& args) { args.dbias.data = args.dw.data; });
}

TEST(Fp8LinearBadInput, RefusesBadWorkspaces) {
  const LayerCall right;
  const std::size_t wanted = plan_fp8_linear_forward(right.problem).workspace_bytes;
  ASSERT_GT(wanted, 0u);

  LayerCall null;
  null.workspace = {nullptr, wanted};
  null.forward_refused(
      text("fp8_linear_forward: workspace must have ", wanted, " bytes, got a null pointer"));
  LayerCall none;
  none.workspace = {};
  none.forward_refused(text("fp8_linear_forward: workspace must have ", wanted, " bytes, got 0"));
  LayerCall small;
  small.workspace.bytes = wanted - 1;
  small.forward_refused(
      text("fp8_linear_forward: workspace must have ", wanted, " bytes, got ", wanted - 1));
  LayerCall odd;
  odd.workspace.data = static_cast<char*>(odd.workspace.data) + 128;
  odd.workspace.bytes = wanted;
  odd.forward_refused(
      text("fp8_linear_forward: workspace must be aligned to 256 bytes, got address ",
           odd.workspace.data));
  LayerCall shared;
  shared.workspace.data = shared.backward.dw.data;
  shared.backward_refused("fp8_linear_backward: workspace overlaps dw: their memory must be apart");
}

TEST(Fp8LinearBadInput, RefusesBadTensorsOfForward) {
  LayerCall x;
  x.forward.x.data = nullptr;
  x.forward_refused("fp8_linear_forward: x has a null pointer");
  LayerCall w;
  w.forward.w.shape[1] = 41;
  w.forward_refused("fp8_linear_forward: w must be [N, K] = [24, 40], got [24, 41]");
  LayerCall y;
  y.forward.y.dtype = Dtype::f32;
  y.forward_refused("fp8_linear_forward: y must be bf16, got f32");
  LayerCall saved;
  saved.forward.saved.x_t.block = kBlock128x128;
  saved.forward_refused("fp8_linear_forward: saved.x_t must have 1x128 blocks, got 128x128");
  LayerCall overlap;
  overlap.forward.y.data = overlap.forward.w.data;
  overlap.forward_refused("fp8_linear_forward: output y overlaps w: their memory must be apart");
  LayerCall kept;
  kept.forward.saved.w_t.scales.data = kept.forward.saved.x_t.scales.data;
  kept.forward_refused(
      "fp8_linear_forward: output scale of saved.w_t overlaps scale of saved.x_t: their memory "
      "must be apart");
}

TEST(Fp8LinearBadInput, RefusesBadTensorsOfBackward) {
  LayerCall dy;
  dy.backward.dy.rank = 1;
  dy.backward_refused("fp8_linear_backward: dy must have rank 2, [M, N], got rank 1");
  LayerCall scale;
  scale.backward.saved.w_t.scales.shape[0] = 2;
  scale.backward_refused(
      "fp8_linear_backward: scale of saved.w_t must be [1, 1] for 128x128 blocks of "
      "saved.w_t[40, 24], got [2, 1]");
  LayerCall dx;
  dx.backward.dx.data = dx.backward.dy.data;
  dx.backward_refused("fp8_linear_backward: output dx overlaps dy: their memory must be apart");
  LayerCall both;
  both.backward.dx.data = both.backward.dw.data;
  both.backward_refused("fp8_linear_backward: output dw overlaps dx: their memory must be apart");
}

TEST(Fp8LinearBadInput, RefusesEmptyPlans) {
  LayerCall call;
  const std::vector<char> before = call.arena.snapshot();
  expect_error(kInvalid,
               "fp8_linear_forward: the plan is empty: plan_fp8_linear_forward() makes one from a "
               "problem",
               [&] { run(Fp8LinearForwardPlan{}, call.forward, call.workspace); });
  expect_error(kInvalid,
               "fp8_linear_backward: the plan is empty: plan_fp8_linear_backward() makes one from "
               "a problem",
               [&] { run(Fp8LinearBackwardPlan{}, call.backward, call.workspace); });
  EXPECT_EQ(call.arena.snapshot(), before);
}

TEST(Fp8LinearBadInput, TheConvenienceLayerRefusesTheSame) {
  Fp8Linear layer(small_problem());
  LayerCall call;
  const std::vector<char> before = call.arena.snapshot();
  expect_error(kInvalid, "fp8_linear_forward: y must be [M, N] = [5, 24], got [5, 40]",
               [&] { layer.forward(call.forward.x, call.forward.w, call.forward.x); });
  EXPECT_EQ(call.arena.snapshot(), before);
}

TEST(Fp8LinearBadInput, TheConvenienceLayerHasNoGradientsWithoutAForward) {
  Fp8Linear layer(small_problem());
  LayerCall call;
  const std::vector<char> before = call.arena.snapshot();
  const auto backward = [&] {
    layer.backward(call.backward.dy, call.backward.dx, call.backward.dw);
  };
  expect_error(kInvalid, "fp8_linear_backward: no forward of this layer has run before it",
               backward);
  EXPECT_EQ(call.arena.snapshot(), before);
  layer.forward(call.forward.x, call.forward.w, call.forward.y);
  EXPECT_NO_THROW(backward());
}

TEST(Fp8LinearBadInput, TheConvenienceLayerTrains) {
  Fp8LinearProblem problem = small_problem();
  problem.training = false;
  expect_error(
      kInvalid,
      "fp8_linear: Fp8Linear needs training = true and weights_quantized = false, got false "
      "and false; plan_fp8_linear_forward() takes the others",
      [&] { Fp8Linear layer(problem); });
  problem.training = problem.weights_quantized = true;
  expect_error(
      kInvalid,
      "fp8_linear: Fp8Linear needs training = true and weights_quantized = false, got true "
      "and true; plan_fp8_linear_forward() takes the others",
      [&] { Fp8Linear layer(problem); });
}

}  // namespace
}  // namespace octet::bad_input
