// The tensors of one call of gated_activation, forward and backward.
#pragma once

#include "core/numeric.hpp"
#include "ops/gated_activation/cpu_simd.hpp"
#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace octet {

inline constexpr GateActivation kActivations[] = {GateActivation::silu, GateActivation::gelu_tanh,
                                                  GateActivation::gelu_erf,
                                                  GateActivation::relu_squared};
inline constexpr Dtype kFloats[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

inline float at(const TensorView& matrix, std::int64_t r, std::int64_t c) {
  return load_f32(matrix.data, r * matrix.strides[0] + c, matrix.dtype);
}
inline void set(const TensorView& matrix, std::int64_t r, std::int64_t c, float value) {
  store_f32(matrix.data, r * matrix.strides[0] + c, matrix.dtype, value);
}

// Gate and up, or their gradients: as the halves of one tensor, or separate, with a gap after every
// row. All bytes start as 0xA5.
enum class Lie { as_halves, apart };

struct Beside {
  Buffer memory;
  TensorView first;
  TensorView second;

  Beside(Dtype dtype, std::int64_t rows, std::int64_t cols, Lie lie, std::int64_t gap)
      : memory(static_cast<std::size_t>((2 * rows * (cols + gap) + 1) * size_bytes(dtype))) {
    std::memset(memory.data(), 0xA5, memory.bytes());
    const bool halves = lie == Lie::as_halves;
    const std::int64_t pitch = halves ? 2 * cols + gap : cols + gap;
    first = make_matrix(memory.data(), dtype, rows, cols, pitch);
    second = first;
    second.data =
        static_cast<char*>(memory.data()) + (halves ? cols : rows * pitch) * size_bytes(dtype);
  }
  bool same_bytes(const Beside& other) const {
    return std::memcmp(memory.data(), other.memory.data(), memory.bytes()) == 0;
  }
};

struct GatedActivationCase {
  GatedActivationProblem problem;
  Beside inputs;     // gate, up
  Beside gradients;  // dgate, dup
  Beside outer;      // dy, y
  Tensor weights;
  Tensor d_weights;

  explicit GatedActivationCase(const GatedActivationProblem& problem_, Lie lie = Lie::apart,
                               std::int64_t gap = 0)
      : problem(problem_),
        inputs(problem.dtype, problem.rows, problem.cols, lie, gap),
        gradients(problem.dtype, problem.rows, problem.cols, lie, gap),
        outer(problem.dtype, problem.rows, problem.cols, Lie::apart, gap),
        weights(Dtype::f32, {problem.rows}),
        d_weights(Dtype::f32, {problem.rows}) {}

  TensorView gate() const { return inputs.first; }
  TensorView up() const { return inputs.second; }
  TensorView dgate() const { return gradients.first; }
  TensorView dup() const { return gradients.second; }
  TensorView dy() const { return outer.first; }
  TensorView y() const { return outer.second; }
  float weight(std::int64_t r) const {
    return problem.row_weight ? static_cast<const float*>(weights.data())[r] : 1;
  }
  float d_weight(std::int64_t r) const { return static_cast<const float*>(d_weights.data())[r]; }

  void fill(std::uint64_t seed, float spread = 1) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t r = 0; r < problem.rows; ++r) {
      static_cast<float*>(weights.data())[r] = normal(random);
      for (std::int64_t c = 0; c < problem.cols; ++c) {
        set(gate(), r, c, spread * normal(random));
        set(up(), r, c, normal(random));
        set(dy(), r, c, normal(random));
      }
    }
  }

  GatedActivationForwardArgs forward_args(const Fp8Copies& fp8 = {}) const {
    return {gate(), up(), weights, y(), fp8};
  }
  GatedActivationBackwardArgs backward_args(const Fp8Copies& fp8 = {}) const {
    return {dy(), gate(), up(), weights, dgate(), dup(), fp8, d_weights};
  }
  void run_both(const std::string& backend, int threads = 2) const {
    run(plan_gated_activation_forward(problem, {backend, threads}), forward_args());
    run(plan_gated_activation_backward(problem, {backend, threads}), backward_args());
  }
  // Runs forward and backward with the SIMD kernels of one instruction set.
  void run_both(InstructionSet instructions, int threads = 2) const {
    const RunContext context{{}, threads, nullptr};
    GatedActivationForwardArgs forward = forward_args();
    GatedActivationBackwardArgs backward = backward_args();
    if (!problem.row_weight) forward.row_weight = backward.row_weight = {};
    gated_activation_forward_cpu_simd(problem, forward, context, instructions);
    gated_activation_backward_cpu_simd(problem, backward, context, instructions);
  }
  bool same_outputs(const GatedActivationCase& other) const {
    return outer.same_bytes(other.outer) && gradients.same_bytes(other.gradients) &&
           std::memcmp(d_weights.data(), other.d_weights.data(), d_weights.bytes()) == 0;
  }
};

}  // namespace octet
