// What adamw refuses, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <cmath>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr std::int64_t kCount = 20;

AdamWProblem adamw_problem() {
  return {.count = kCount, .moments_dtype = Dtype::f32, .master = true, .grad_scale = true};
}

void refused(const std::string& message, const auto& change) {
  AdamWProblem problem = adamw_problem();
  change(problem);
  expect_plan_refused(kInvalid, message, problem);
}

TEST(AdamWBadInput, RefusesBadProblems) {
  refused("adamw: count must be at least 0, got -1", [](auto& p) { p.count = -1; });
  refused("adamw: dtype must be f32, f16 or bf16, got e4m3",
          [](auto& p) { p.dtype = Dtype::e4m3; });
  refused("adamw: grad_dtype must be f32, f16 or bf16, got i32",
          [](auto& p) { p.grad_dtype = Dtype::i32; });
  refused("adamw: moments_dtype must be f32 or bf16, got f16",
          [](auto& p) { p.moments_dtype = Dtype::f16; });
}

AdamWProblem cast_problem() {
  AdamWProblem problem = adamw_problem();
  problem.rows = 4;
  problem.cols = 5;
  problem.fp8 = Fp8Output{Dtype::e4m3, kBlock128x128, kBlock128x128};
  return problem;
}

TEST(AdamWBadInput, RefusesBadFp8Outputs) {
  const auto cast_refused = [](const std::string& message, const auto& change) {
    AdamWProblem problem = cast_problem();
    change(problem);
    expect_plan_refused(kInvalid, message, problem);
  };
  cast_refused("adamw: rows must be at least 1, got 0", [](auto& p) { p.rows = 0; });
  cast_refused("adamw: cols must be at least 1, got -5", [](auto& p) { p.cols = -5; });
  cast_refused("adamw: with fp8 count must be rows * cols = 24, got 20",
               [](auto& p) { p.cols = 6; });
  cast_refused("adamw: format must be e4m3 or e5m2, got f16",
               [](auto& p) { p.fp8->format = Dtype::f16; });
  cast_refused("adamw: block and transposed_block are both empty: there is nothing to write",
               [](auto& p) { p.fp8->block = p.fp8->transposed_block = std::nullopt; });
  AdamWProblem ignored = cast_problem();
  ignored.fp8.reset();
  ignored.rows = -1;
  EXPECT_NO_THROW(plan_adamw(ignored));
}

struct AdamWCall {
  AdamWCall() {
    args.w = arena.tensor(Dtype::bf16, {kCount});
    args.g = arena.tensor(Dtype::bf16, {kCount});
    args.m = arena.tensor(Dtype::f32, {kCount});
    args.v = arena.tensor(Dtype::f32, {kCount});
    args.master = arena.tensor(Dtype::f32, {kCount});
    args.grad_scale = arena.tensor(Dtype::f32, {1});
  }
  void add_copies() {
    args.fp8.out = arena.quantized(4, 5, Dtype::e4m3, kBlock128x128);
    args.fp8.transposed = arena.quantized(5, 4, Dtype::e4m3, kBlock128x128);
  }
  void refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, adamw_problem(), args, {});
  }
  void cast_refused(const std::string& message) const {
    expect_run_refused(kInvalid, message, arena, cast_problem(), args, {});
  }

  Arena arena{1 << 12};
  AdamWArgs args;
};

TEST(AdamWBadInput, TheCallsTheTestsSpoilAreRight) {
  AdamWCall call;
  EXPECT_NO_THROW(run(plan_adamw(adamw_problem()), call.args));
  call.add_copies();
  EXPECT_NO_THROW(run(plan_adamw(cast_problem()), call.args));
}

TEST(AdamWBadInput, RefusesBadCopies) {
  AdamWCall none;
  none.cast_refused("adamw: fp8.out must have rank 2, [rows, cols], got rank 0");
  AdamWCall swapped;
  swapped.add_copies();
  swapped.args.fp8.transposed = swapped.args.fp8.out;
  swapped.cast_refused("adamw: fp8.transposed must be [cols, rows] = [5, 4], got [4, 5]");
  AdamWCall overlap;
  overlap.add_copies();
  overlap.args.fp8.out.values.data = overlap.args.g.data;
  overlap.cast_refused("adamw: output fp8.out overlaps g: their memory must be apart");
}

TEST(AdamWBadInput, RefusesBadTensors) {
  AdamWCall shorter;
  shorter.args.g.shape[0] = kCount - 1;
  shorter.refused("adamw: g must be [count] = [20], got [19]");
  AdamWCall wide;
  wide.args.w.dtype = Dtype::f32;
  wide.refused("adamw: w must be bf16, got f32");
  AdamWCall mixed;
  mixed.args.v.dtype = Dtype::bf16;
  mixed.refused("adamw: v must be f32, got bf16");
  AdamWCall no_master;
  no_master.args.master = {};
  no_master.refused("adamw: master must have rank 1, [count], got rank 0");
  AdamWCall scales;
  scales.args.grad_scale.shape[0] = 2;
  scales.refused("adamw: grad_scale must be [1] = [1], got [2]");
  AdamWCall device;
  device.args.m.device = {DeviceType::cuda, 0};
  device.refused("adamw: m is on cuda:0, the problem is on cpu");
  AdamWCall strided;
  strided.args.g.strides[0] = 2;
  strided.refused(
      "adamw: g must have a contiguous last dimension (stride 1), got bf16[20] strides [2]");
  AdamWCall overlap;
  overlap.args.v.data = overlap.args.m.data;
  overlap.refused("adamw: output v overlaps m: their memory must be apart");
  AdamWCall gradient;
  gradient.args.w.data = gradient.args.g.data;
  gradient.refused("adamw: output w overlaps g: their memory must be apart");
}

TEST(AdamWBadInput, RefusesBadFactors) {
  const auto expect = [](const std::string& message, const auto& change) {
    AdamWCall call;
    change(call.args);
    call.refused(message);
  };
  expect("adamw: lr must be finite and at least 0, got nan", [](auto& a) { a.lr = NAN; });
  expect("adamw: lr must be finite and at least 0, got -1", [](auto& a) { a.lr = -1; });
  expect("adamw: beta1 must be at least 0 and less than 1, got 1", [](auto& a) { a.beta1 = 1; });
  expect("adamw: beta2 must be at least 0 and less than 1, got -0.5",
         [](auto& a) { a.beta2 = -0.5; });
  expect("adamw: eps must be finite and at least 0, got inf", [](auto& a) { a.eps = INFINITY; });
  expect("adamw: weight_decay must be finite and at least 0, got 1e+300",
         [](auto& a) { a.weight_decay = 1e300; });
  expect("adamw: step must be at least 1, got 0", [](auto& a) { a.step = 0; });
  expect("adamw: lr / (1 - beta1^step) must be finite in f32, got 1e+39",
         [](auto& a) { a.lr = 1e38; });
  expect("adamw: 1 - lr * weight_decay must be finite in f32, got -1e+40", [](auto& a) {
    a.lr = 1e20;
    a.weight_decay = 1e20;
  });
}

}  // namespace
}  // namespace octet::bad_input
