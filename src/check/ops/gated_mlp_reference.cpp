// h and d_gate_up of a gated MLP in f64.
#include "check/ops/gated_mlp.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/on_host.hpp"
#include "check/reference/reference.hpp"
#include "cpu/threads.hpp"

namespace octet {
namespace {

float* row_of(const Tensor& matrix, std::int64_t row) {
  return static_cast<float*>(matrix.data()) + row * matrix.view().cols();
}

// a b^T, on the host.
Tensor multiply(const TensorView& a, const TensorView& b, int threads) {
  Tensor result(Dtype::f32, {a.rows(), b.rows()});
  for_each_tile({a, b, {}, false, threads}, [&](const ReferenceTile& tile) {
    for (int row = 0; row < tile.rows; ++row) {
      float* to = row_of(result, tile.first_row + row) + tile.first_col;
      const double* from = tile.value + static_cast<std::ptrdiff_t>(row) * kTile;
      for (int col = 0; col < tile.cols; ++col) to[col] = static_cast<float>(from[col]);
    }
  });
  return result;
}

// An f32 copy of a matrix, on the host.
Tensor copy_of(const TensorView& matrix) {
  const RowsOnHost host(matrix, {});
  Tensor result(Dtype::f32, {matrix.rows(), matrix.cols()});
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    for (std::int64_t c = 0; c < matrix.cols(); ++c) {
      row_of(result, r)[c] = static_cast<float>(decode(host.view(), r, c));
    }
  }
  return result;
}

Tensor on_device(Tensor host, Device device) {
  if (device.type == DeviceType::cpu) return host;
  Tensor copy(Dtype::f32, {host.view().rows(), host.view().cols()}, device);
  cuda::copy(copy.data(), host.data(), copy.bytes(), device.index);
  return copy;
}

}  // namespace

GatedMlpReference::GatedMlpReference(const GatedMlpProblem& problem, const GatedMlpInputs& inputs,
                                     int threads) {
  const std::int64_t f = problem.f;
  const bool has_gradient = problem.training && (problem.need_dx || problem.need_dw);
  const Tensor gate_up = multiply(inputs.x, inputs.w_gate_up, threads);
  Tensor dh;
  if (has_gradient) {
    dh = problem.down ? multiply(inputs.dout, transposed(inputs.w_down.view()), threads)
                      : copy_of(inputs.dout);
  }
  Tensor h_host(Dtype::f32, {problem.m, f});
  Tensor d_host(Dtype::f32, {has_gradient ? problem.m : 1, 2 * f});
  parallel_for(threads != 0 ? threads : default_threads(), problem.m, [&](std::int64_t row) {
    const float* gate = row_of(gate_up, row);
    const float* up = gate + f;
    for (std::int64_t c = 0; c < f; ++c) {
      const ReferenceActivation act = reference_activation(problem.activation, gate[c]);
      row_of(h_host, row)[c] = static_cast<float>(act.value * up[c]);
      if (!has_gradient) continue;
      const double d = row_of(dh, row)[c];
      row_of(d_host, row)[c] = static_cast<float>(d * up[c] * act.slope);
      row_of(d_host, row)[f + c] = static_cast<float>(d * act.value);
    }
  });
  h = on_device(std::move(h_host), problem.device);
  if (has_gradient) d_gate_up = on_device(std::move(d_host), problem.device);
}

}  // namespace octet
