// The tensors of one call of rms_norm, forward and backward, with gaps between the rows.
#pragma once

#include "core/numeric.hpp"
#include "ops/rms_norm/cpu_simd.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace octet {

// A matrix with `gap` elements after every row, or a vector; all bytes start as 0xA5.
class PitchedTensor {
 public:
  PitchedTensor(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap)
      : memory_(bytes_of(dtype, rows, cols + gap)),
        view_(make_matrix(memory_.data(), dtype, rows, cols, cols + gap)) {
    std::memset(memory_.data(), 0xA5, memory_.bytes());
  }
  PitchedTensor(Dtype dtype, std::int64_t length)
      : memory_(bytes_of(dtype, length, 1)), view_(make_view(memory_.data(), dtype, {length})) {
    std::memset(memory_.data(), 0xA5, memory_.bytes());
  }

  const TensorView& view() const { return view_; }
  std::size_t bytes() const { return memory_.bytes(); }
  void* data() const { return memory_.data(); }

  template <class Make>
  void fill(const Make& make) const {
    for (std::int64_t i = 0; i < count(); ++i) store_f32(data(), offset(i), view_.dtype, make());
  }
  float at(std::int64_t i) const { return load_f32(data(), offset(i), view_.dtype); }
  void set(std::int64_t i, float value) const { store_f32(data(), offset(i), view_.dtype, value); }
  std::int64_t count() const { return view_.shape[0] * (view_.rank == 2 ? view_.shape[1] : 1); }

  // Compares every byte, gaps included, except the bits of NaNs.
  bool same_as(const PitchedTensor& other) const {
    if (std::memcmp(data(), other.data(), bytes()) == 0) return true;
    const auto elements = static_cast<std::int64_t>(bytes()) / size_bytes(view_.dtype);
    for (std::int64_t i = 0; i < elements; ++i) {
      const float x = load_f32(data(), i, view_.dtype);
      const float y = load_f32(other.data(), i, view_.dtype);
      if (bits_of(x) != bits_of(y) && (x == x || y == y)) return false;
    }
    return true;
  }

 private:
  static std::size_t bytes_of(Dtype dtype, std::int64_t rows, std::int64_t pitch) {
    return static_cast<std::size_t>(std::max<std::int64_t>(rows * pitch, 1) * size_bytes(dtype));
  }
  std::int64_t offset(std::int64_t i) const {
    return view_.rank == 1 ? i : i / view_.shape[1] * view_.strides[0] + i % view_.shape[1];
  }

  Buffer memory_;
  TensorView view_;
};

// Every byte, gaps included.
inline std::vector<std::uint8_t> memory_of(const PitchedTensor& tensor) {
  const auto* data = static_cast<const std::uint8_t*>(tensor.data());
  return {data, data + tensor.bytes()};
}

struct RmsNormCase {
  RmsNormProblem problem;
  PitchedTensor x, residual, g, dy, dsum;
  PitchedTensor y, sum, rstd, dx, dresidual, dg;

  RmsNormCase(const RmsNormProblem& problem_, std::int64_t gap)
      : problem(problem_),
        x(matrix(gap)),
        residual(matrix(gap)),
        g(problem.weight_dtype, problem.cols),
        dy(matrix(gap)),
        dsum(matrix(gap)),
        y(matrix(gap)),
        sum(matrix(gap)),
        rstd(Dtype::f32, problem.rows),
        dx(matrix(gap)),
        dresidual(matrix(gap)),
        dg(problem.dg_dtype, problem.cols) {}

  std::vector<const PitchedTensor*> inputs() const { return {&x, &residual, &g, &dy, &dsum}; }
  std::vector<const PitchedTensor*> outputs() const {
    return {&y, &sum, &rstd, &dx, &dresidual, &dg};
  }
  void copy_inputs(const RmsNormCase& other) const {
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      std::memcpy(inputs()[i]->data(), other.inputs()[i]->data(), inputs()[i]->bytes());
    }
  }

  RmsNormForwardArgs forward_args() const {
    return {x.view(), residual.view(), g.view(), y.view(), {}, sum.view(), rstd.view()};
  }
  RmsNormBackwardArgs backward_args(bool with_dsum) const {
    RmsNormBackwardArgs args;
    args.dy = dy.view();
    args.h = problem.residual ? sum.view() : x.view();
    args.g = g.view();
    args.rstd = rstd.view();
    if (with_dsum) args.dsum = dsum.view();
    args.dx = dx.view();
    if (problem.residual) args.dresidual = dresidual.view();
    args.dg = dg.view();
    return args;
  }
  std::size_t workspace_bytes() const {
    return std::max(plan_rms_norm_forward(problem).workspace_bytes,
                    plan_rms_norm_backward(problem).workspace_bytes);
  }
  void run_forward(const std::string& backend, int threads) const {
    const RmsNormForwardPlan plan = plan_rms_norm_forward(problem, {backend, threads});
    const Buffer workspace(plan.workspace_bytes);
    run(plan, forward_args(), {workspace.data(), workspace.bytes()});
  }
  void run_backward(const std::string& backend, int threads, bool with_dsum) const {
    const RmsNormBackwardPlan plan = plan_rms_norm_backward(problem, {backend, threads});
    const Buffer workspace(plan.workspace_bytes);
    run(plan, backward_args(with_dsum), {workspace.data(), workspace.bytes()});
  }

  // Runs forward and backward with the kernels of one instruction set.
  void run_by(InstructionSet instructions, bool with_dsum) const {
    const Buffer workspace(workspace_bytes());
    const RunContext context{{workspace.data(), workspace.bytes()}, 2, nullptr};
    rms_norm_forward_cpu_simd(problem, forward_args(), context, instructions);
    rms_norm_backward_cpu_simd(problem, backward_args(with_dsum), context, instructions);
  }

  void expect_same_outputs(const RmsNormCase& other, const std::string& what) const {
    constexpr const char* kNames[] = {"y", "sum", "rstd", "dx", "dresidual", "dg"};
    for (std::size_t i = 0; i < outputs().size(); ++i) {
      EXPECT_TRUE(outputs()[i]->same_as(*other.outputs()[i])) << kNames[i] << ", " << what;
    }
  }

 private:
  PitchedTensor matrix(std::int64_t gap) const {
    return {problem.dtype, problem.rows, problem.cols, gap};
  }
};

}  // namespace octet
