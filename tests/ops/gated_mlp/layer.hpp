// A gated MLP with all its tensors for the tests: inputs given or random, outputs poisoned.
#pragma once

#include "core/numeric.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace octet::testing {

inline Tensor filled(Dtype dtype, std::int64_t rows, std::int64_t cols, float value) {
  Tensor tensor(dtype, {rows, cols});
  for (std::int64_t i = 0; i < rows * cols; ++i) store_f32(tensor.data(), i, dtype, value);
  return tensor;
}

inline Tensor random_tensor(Dtype dtype, std::int64_t rows, std::int64_t cols, unsigned seed) {
  Tensor tensor(dtype, {rows, cols});
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    store_f32(tensor.data(), i, dtype, normal(random));
  }
  return tensor;
}

inline bool equal(const Tensor& x, const Tensor& y) {
  return x.bytes() == y.bytes() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}
// Compares two buffers in octet's own layout, padding included; both may be empty.
inline bool equal(const Buffer& x, const Buffer& y) {
  if (x.bytes() != y.bytes()) return false;
  return x.bytes() == 0 || std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}

// Weights quantised ahead of time, row-major and transposed.
struct BothWays {
  QuantizedTensor w;
  QuantizedTensor w_t;

  BothWays(const Tensor& input, Dtype format)
      : w(input.view().rows(), input.view().cols(), format, kBlock128x128),
        w_t(input.view().cols(), input.view().rows(), format, kBlock128x128) {
    QuantizeProblem problem{.rows = input.view().rows(),
                            .cols = input.view().cols(),
                            .input_dtype = input.view().dtype,
                            .format = format};
    problem.block = problem.transposed_block = kBlock128x128;
    const QuantizePlan plan = plan_quantize(problem);
    const Buffer workspace(plan.workspace_bytes);
    octet::run(plan, {input, w, w_t}, {workspace.data(), workspace.bytes()});
  }
  Fp8LinearWeights view() const { return {w, w_t}; }
};

struct Layer {
  GatedMlpProblem problem;
  Tensor x, w_gate_up, w_down, dout;     // dout: dy with down, dh without
  Tensor y, h, dx, dw_gate_up, dw_down;  // poisoned; dw holds what is accumulated to
  Buffer h_fp8, h_fp8_t;                 // only without down
  Buffer gate_up, saved_h, x_t, w_gate_up_t, h_t, w_down_t;
  GatedMlpForwardArgs forward_args;
  GatedMlpBackwardArgs backward_args;

  explicit Layer(const GatedMlpProblem& given)
      : problem(given),
        x(random_tensor(given.dtype, given.m, given.k, 1)),
        w_gate_up(random_tensor(given.dtype, 2 * given.f, given.k, 2)),
        w_down(random_tensor(given.dtype, given.k, given.f, 3)),
        dout(random_tensor(given.dtype, given.m, given.down ? given.k : given.f, 4)),
        y(filled(given.dtype, given.m, given.k, NAN)),
        h(filled(given.dtype, given.m, given.f, NAN)),
        dx(filled(given.dtype, given.m, given.k, NAN)),
        dw_gate_up(filled(given.dw_dtype, 2 * given.f, given.k, given.accumulate_dw ? 5 : NAN)),
        dw_down(filled(given.dw_dtype, given.k, given.f, given.accumulate_dw ? 5 : NAN)) {
    forward_args.x = x;
    forward_args.w_gate_up = w_gate_up;
    if (given.down) {
      forward_args.w_down = w_down;
      forward_args.y = y;
    } else if (given.fp8) {
      const BlockShape block = given.granularity == Granularity::tensorwise ? kWholeTensor
                               : given.granularity == Granularity::rowwise  ? kEachRow
                                                                            : kBlock1x128;
      forward_args.h_fp8.out =
          allocate(h_fp8, QuantizedLayout(given.m, given.f, given.format, block));
      if (given.training && given.need_dw) {
        const bool square = given.wgrad_blocks == WgradBlocks::square;
        forward_args.h_fp8.transposed = allocate(
            h_fp8_t,
            QuantizedLayout(given.f, given.m, given.format, square ? kBlock128x128 : block));
      }
    } else {
      forward_args.h = h;
    }
    make_saved();
    backward_args.saved = forward_args.saved;
    (given.down ? backward_args.dy : backward_args.dh) = dout;
    if (!given.fp8) {
      backward_args.w_gate_up = w_gate_up;
      if (given.down) backward_args.w_down = w_down;
      backward_args.saved.x = x;
    }
    if (given.need_dx) backward_args.dx = dx;
    if (given.need_dw) backward_args.dw_gate_up = dw_gate_up;
    if (given.need_dw && given.down) backward_args.dw_down = dw_down;
  }

  void run_forward() const { run_plan_once(plan_gated_mlp_forward(problem), forward_args); }
  void run_backward() const { run_plan_once(plan_gated_mlp_backward(problem), backward_args); }
  void run() const {
    run_forward();
    run_backward();
  }

 private:
  template <class Plan, class Args>
  static void run_plan_once(const Plan& plan, const Args& args) {
    const Buffer workspace(plan.workspace_bytes);
    octet::run(plan, args, {workspace.data(), workspace.bytes()});
  }
  static QuantizedView allocate(Buffer& buffer, const QuantizedLayout& layout) {
    if (layout.bytes == 0) return {};
    buffer = Buffer(layout.bytes);
    return layout.view(buffer.data());
  }
  void make_saved() {
    const GatedMlpSavedLayout layout = gated_mlp_saved_layout(problem);
    GatedMlpSaved& saved = forward_args.saved;
    gate_up = Buffer(layout.gate_up_bytes);
    if (layout.gate_up_bytes != 0) {
      saved.gate_up = make_view(gate_up.data(), problem.dtype, {problem.m, 2 * problem.f});
    }
    saved_h = Buffer(layout.h_bytes);
    if (layout.h_bytes != 0) {
      saved.h = make_view(saved_h.data(), problem.dtype, {problem.m, problem.f});
    }
    saved.x_t = allocate(x_t, layout.x_t);
    saved.w_gate_up_t = allocate(w_gate_up_t, layout.w_gate_up_t);
    saved.h_t = allocate(h_t, layout.h_t);
    saved.w_down_t = allocate(w_down_t, layout.w_down_t);
  }
};

inline GatedMlpProblem small_problem() {
  GatedMlpProblem problem{.m = 100, .f = 200, .k = 136, .down = true, .fp8 = true};
  return problem;
}

// Compares the results of both passes.
inline void expect_equal_results(const Layer& one, const Layer& other) {
  EXPECT_TRUE(equal(one.y, other.y));
  EXPECT_TRUE(equal(one.dx, other.dx));
  EXPECT_TRUE(equal(one.dw_gate_up, other.dw_gate_up));
  EXPECT_TRUE(equal(one.dw_down, other.dw_down));
}

}  // namespace octet::testing
