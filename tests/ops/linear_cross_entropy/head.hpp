// A head with all its tensors for the tests: inputs given or random, outputs poisoned; and the
// formulas in f64.
#pragma once

#include "core/numeric.hpp"
#include "support/on_cuda.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace octet::testing {

inline Tensor filled(Dtype dtype, std::initializer_list<std::int64_t> shape, float value) {
  Tensor tensor(dtype, shape);
  const std::int64_t elements = static_cast<std::int64_t>(tensor.bytes()) / size_bytes(dtype);
  for (std::int64_t i = 0; i < elements; ++i) store_f32(tensor.data(), i, dtype, value);
  return tensor;
}

inline Tensor random_tensor(Dtype dtype, std::int64_t rows, std::int64_t cols, unsigned seed,
                            float scale = 1) {
  Tensor tensor(dtype, {rows, cols});
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    store_f32(tensor.data(), i, dtype, scale * normal(random));
  }
  return tensor;
}

inline std::vector<double> values_of(const Tensor& tensor) {
  const Dtype dtype = tensor.view().dtype;
  std::vector<double> values(tensor.bytes() / static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_f32(tensor.data(), static_cast<std::int64_t>(i), dtype);
  }
  return values;
}

inline bool equal(const Tensor& x, const Tensor& y) {
  return x.bytes() == y.bytes() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}

inline double snr_db(const std::vector<double>& got, const std::vector<double>& wanted) {
  double signal = 0;
  double noise = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    signal += wanted[i] * wanted[i];
    noise += (got[i] - wanted[i]) * (got[i] - wanted[i]);
  }
  return noise == 0 ? 999 : 10 * std::log10(signal / noise);
}

struct Head {
  LinearCrossEntropyProblem problem;
  Tensor x, w, targets, loss_grad;
  Tensor loss, lse, dx, dw;  // poisoned; dw holds what is accumulated to
  Fp8LinearWeights weights{};

  explicit Head(const LinearCrossEntropyProblem& given)
      : problem(given),
        x(random_tensor(given.dtype, given.m, given.k, 1)),
        w(random_tensor(given.dtype, given.v, given.k, 2,
                        1 / std::sqrt(static_cast<float>(given.k)))),
        targets(given.target_dtype, {given.m}),
        loss_grad(Dtype::f32, {given.reduction == LossReduction::none ? given.m : 1}),
        loss(filled(Dtype::f32, {given.reduction == LossReduction::none ? given.m : 1}, NAN)),
        lse(filled(Dtype::f32, {given.m}, NAN)),
        dx(filled(given.dtype, {given.m, given.k}, NAN)),
        dw(filled(given.dw_dtype, {given.v, given.k}, given.accumulate_dw ? 5 : NAN)) {
    for (std::int64_t i = 0; i < given.m; ++i) set_target(i, (i * 7919 + 3) % given.v);
    for (std::int64_t i = 0; i < loss_grad.view().shape[0]; ++i) {
      static_cast<float*>(loss_grad.data())[i] = 1 + 0.25f * static_cast<float>(i % 5);
    }
  }

  // NaN in every gradient, so that what a call does not write shows.
  void poison_gradients() const {
    for (const Tensor* gradient : {&dx, &dw}) {
      const TensorView& view = gradient->view();
      std::memset(gradient->data(), 0xFF,
                  static_cast<std::size_t>(view.rows() * view.cols() * size_bytes(view.dtype)));
    }
  }

  void set_target(std::int64_t token, std::int64_t word) const {
    if (problem.target_dtype == Dtype::i32) {
      static_cast<std::int32_t*>(targets.data())[token] = static_cast<std::int32_t>(word);
    } else {
      static_cast<std::int64_t*>(targets.data())[token] = word;
    }
  }
  std::int64_t target(std::int64_t token) const {
    return problem.target_dtype == Dtype::i32
               ? static_cast<const std::int32_t*>(targets.data())[token]
               : static_cast<const std::int64_t*>(targets.data())[token];
  }
  float loss_at(std::int64_t i) const { return static_cast<const float*>(loss.data())[i]; }
  float grad_at(std::int64_t token) const {
    return static_cast<const float*>(
        loss_grad.data())[problem.reduction == LossReduction::none ? token : 0];
  }

  LinearCrossEntropyForwardArgs forward_args() const {
    LinearCrossEntropyForwardArgs args;
    args.x = x;
    args.w = w;
    args.weights = weights;
    args.targets = targets;
    if (problem.reduction != LossReduction::none) args.loss_grad = loss_grad;
    args.loss = loss;
    args.lse = lse;
    args.dx = dx;
    args.dw = dw;
    return args;
  }
  LinearCrossEntropyBackwardArgs backward_args(bool with_lse = false) const {
    LinearCrossEntropyBackwardArgs args;
    args.x = x;
    args.w = w;
    args.weights = weights;
    args.targets = targets;
    args.loss_grad = loss_grad;
    if (with_lse) args.lse = lse;
    args.dx = dx;
    args.dw = dw;
    return args;
  }
  void run_forward(const Fp8LinearOptions& options = {}) const {
    run_once(plan_linear_cross_entropy_forward(problem, options), forward_args());
  }
  void run_backward(bool with_lse = false) const {
    run_once(plan_linear_cross_entropy_backward(problem), backward_args(with_lse));
  }
  // Loss and gradients, whatever the reduction.
  void run() const {
    run_forward();
    if (problem.reduction == LossReduction::none && problem.training) run_backward();
  }

 private:
  // On the device of the problem; the tensors of the head are on the host.
  template <class Plan, class Args>
  void run_once(const Plan& plan, Args args) const {
    const Buffer workspace(plan.workspace_bytes, problem.device);
    if (problem.device.type == DeviceType::cpu) {
      octet::run(plan, args, {workspace.data(), workspace.bytes()});
      return;
    }
    OnCuda cuda;
    const Args host = args;
    for (TensorView Args::*const field :
         {&Args::x, &Args::w, &Args::targets, &Args::loss_grad, &Args::lse, &Args::dx, &Args::dw}) {
      args.*field = cuda.copy_in(host.*field);
    }
    args.weights = {cuda.copy_in(host.weights.w), cuda.copy_in(host.weights.w_t)};
    if constexpr (requires { args.loss; }) args.loss = cuda.copy_in(host.loss);
    octet::run(plan, args, {workspace.data(), workspace.bytes()});
    for (TensorView Args::*const field : {&Args::lse, &Args::dx, &Args::dw}) {
      OnCuda::copy_out(args.*field, host.*field);
    }
    if constexpr (requires { args.loss; }) OnCuda::copy_out(args.loss, host.loss);
  }
};

// The formulas in f64, of the tensors as they are given: nothing is quantised or rounded.
struct Exact {
  std::vector<double> loss, lse, dx, dw;

  explicit Exact(const Head& head) {
    const auto [m, v, k] = std::array{head.problem.m, head.problem.v, head.problem.k};
    const std::vector<double> x = values_of(head.x), w = values_of(head.w);
    const bool mean = head.problem.reduction == LossReduction::mean;
    double counted = 0;
    for (std::int64_t i = 0; i < m; ++i) counted += head.target(i) != head.problem.ignore_index;
    loss.resize(m), lse.resize(m), dx.resize(m * k), dw.resize(v * k);
    double sum = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      if (head.target(i) == head.problem.ignore_index) continue;
      std::vector<double> logits(v);
      double exps = 0;
      for (std::int64_t j = 0; j < v; ++j) {
        for (std::int64_t c = 0; c < k; ++c) logits[j] += x[i * k + c] * w[j * k + c];
        exps += std::exp(logits[j]);
      }
      lse[i] = std::log(exps);
      loss[i] = lse[i] - logits[head.target(i)];
      sum += loss[i];
      const double scale = head.grad_at(i) / (mean ? counted : 1);
      for (std::int64_t j = 0; j < v; ++j) {
        const double d = (std::exp(logits[j] - lse[i]) - (j == head.target(i) ? 1 : 0)) * scale;
        for (std::int64_t c = 0; c < k; ++c) {
          dx[i * k + c] += d * w[j * k + c];
          dw[j * k + c] += d * x[i * k + c];
        }
      }
    }
    if (head.problem.accumulate_dw) {
      for (double& value : dw) value += 5;
    }
    if (head.problem.reduction != LossReduction::none) loss = {mean ? sum / counted : sum};
  }
};

// Ragged in every extent: 300 tokens in chunks of 128.
inline LinearCrossEntropyProblem small_problem(bool fp8 = true) {
  LinearCrossEntropyProblem problem{.m = 300, .v = 203, .k = 136, .fp8 = fp8};
  problem.max_chunk_rows = 128;
  return problem;
}

// Weights quantised ahead of time, row-major and transposed.
struct BothWays {
  QuantizedTensor w, w_t;

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
};

inline void expect_equal_results(const Head& one, const Head& other) {
  EXPECT_TRUE(equal(one.loss, other.loss));
  EXPECT_TRUE(equal(one.lse, other.lse));
  EXPECT_TRUE(equal(one.dx, other.dx));
  EXPECT_TRUE(equal(one.dw, other.dw));
}

}  // namespace octet::testing
