// One call of moe_mlp, its tensors, and the same layer made of dense layers, one expert at a time.
#pragma once

#include "core/numeric.hpp"
#include "core/views.hpp"

#include <octet/octet.hpp>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace octet {

inline Tensor random_tensor(Dtype dtype, std::initializer_list<std::int64_t> shape,
                            std::uint64_t seed, float spread = 1) {
  Tensor tensor(dtype, shape);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) {
    store_f32(tensor.data(), i, dtype, spread * normal(random));
  }
  return tensor;
}

inline std::vector<char> bytes_of(const TensorView& dense) {
  std::int64_t bytes = size_bytes(dense.dtype);
  for (int i = 0; i < dense.rank; ++i) bytes *= dense.shape[static_cast<std::size_t>(i)];
  const auto* data = static_cast<const char*>(dense.data);
  return {data, data + bytes};
}

struct MoeTensors {
  Tensor x, logits, bias, indices, weights, w_gate_up, w_down, dy;
  Tensor y, dx, dlogits, dweights, dw_gate_up, dw_down;

  explicit MoeTensors(const MoeMlpProblem& p, std::uint64_t seed = 1)
      : x(random_tensor(p.dtype, {p.tokens, p.k}, seed)),
        logits(
            random_tensor(p.routing.value_or(MoeRouting{}).dtype, {p.tokens, p.experts}, seed + 1)),
        bias(random_tensor(Dtype::f32, {p.experts}, seed + 2, 0.1f)),
        indices(Dtype::i32, {p.tokens, p.top_k}),
        weights(random_tensor(Dtype::f32, {p.tokens, p.top_k}, seed + 3)),
        w_gate_up(random_tensor(p.dtype, {here(p), 2 * p.f, p.k}, seed + 4, 0.1f)),
        w_down(random_tensor(p.dtype, {here(p), p.k, p.f}, seed + 5, 0.1f)),
        dy(random_tensor(p.dtype, {p.tokens, p.k}, seed + 6)),
        y(random_tensor(p.dtype, {p.tokens, p.k}, seed + 7)),
        dx(random_tensor(p.dtype, {p.tokens, p.k}, seed + 8)),
        dlogits(logits.view().dtype, {p.tokens, p.experts}),
        dweights(random_tensor(Dtype::f32, {p.tokens, p.top_k}, seed + 9)),
        dw_gate_up(random_tensor(p.dw_dtype, {here(p), 2 * p.f, p.k}, seed + 10)),
        dw_down(random_tensor(p.dw_dtype, {here(p), p.k, p.f}, seed + 11)) {
    std::mt19937_64 random(seed + 12);
    for (std::int64_t i = 0; i < p.tokens * p.top_k; ++i) {
      slot(indices)[i] =
          static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(p.experts));
    }
  }
  static std::int64_t here(const MoeMlpProblem& p) {
    return p.local_experts > 0 ? p.local_experts : p.experts;
  }
  static std::int32_t* slot(const Tensor& slots) {
    return static_cast<std::int32_t*>(slots.data());
  }

  MoeMlpForwardArgs forward_args(const MoeMlpSaved& saved = {}) const {
    MoeMlpForwardArgs args;
    args.x = x;
    args.logits = logits;
    args.bias = bias;
    args.indices = indices;
    args.weights = weights;
    args.w_gate_up = w_gate_up;
    args.w_down = w_down;
    args.y = y;
    args.saved = saved;
    return args;
  }
  MoeMlpBackwardArgs backward_args(const MoeMlpSaved& saved) const {
    MoeMlpBackwardArgs args;
    args.dy = dy;
    args.saved = saved;
    args.dx = dx;
    args.dlogits = dlogits;
    args.dweights = dweights;
    args.dw_gate_up = dw_gate_up;
    args.dw_down = dw_down;
    return args;
  }
  // Forward and backward; returns what was saved.
  Buffer run_both(const MoeMlpProblem& problem, const Fp8LinearOptions& options = {}) const {
    const MoeMlpSavedLayout layout = moe_mlp_saved_layout(problem);
    Buffer memory(layout.bytes);
    const MoeMlpSaved saved = layout.view(memory.data());
    const auto forward = plan_moe_mlp_forward(problem, options);
    const auto backward = plan_moe_mlp_backward(problem, options);
    const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
    std::memset(memory.data(), 0xFF, memory.bytes());
    std::memset(workspace.data(), 0xFF, workspace.bytes());
    run(forward, forward_args(saved), {workspace.data(), workspace.bytes()});
    run(backward, backward_args(saved), {workspace.data(), workspace.bytes()});
    return memory;
  }
};

// The same layer without routing, from dense layers of each expert's rows in the order of slots.
struct DenseExperts {
  Tensor y, dx, dweights;
  std::vector<Tensor> dw_gate_up, dw_down;  // by expert that is here

  // `old`: tensors as they were before a layer that accumulates.
  DenseExperts(const MoeMlpProblem& p, const MoeTensors& t, const TensorView& indices,
               const TensorView& weights, const MoeTensors& old)
      : y(p.dtype, {p.tokens, p.k}),
        dx(p.dtype, {p.tokens, p.k}),
        dweights(Dtype::f32, {p.tokens, p.top_k}) {
    std::memset(dweights.data(), 0, dweights.bytes());
    sum_y_.assign(static_cast<std::size_t>(p.tokens * p.top_k), {});
    sum_dx_ = sum_y_;
    for (std::int64_t g = 0; g < MoeTensors::here(p); ++g) {
      run_expert(p, t, indices, weights, g, old);
    }
    add_up(p, sum_y_, y);
    add_up(p, sum_dx_, dx);
  }

 private:
  using Row = std::vector<float>;

  static Tensor gather(const MoeMlpProblem& p, const Tensor& tokens,
                       const std::vector<std::int64_t>& slots) {
    Tensor rows(p.dtype, {static_cast<std::int64_t>(slots.size()), p.k});
    const auto bytes = static_cast<std::size_t>(p.k * size_bytes(p.dtype));
    for (std::size_t r = 0; r < slots.size(); ++r) {
      std::memcpy(static_cast<char*>(rows.data()) + r * bytes,
                  static_cast<const char*>(tokens.data()) +
                      static_cast<std::size_t>(slots[r] / p.top_k) * bytes,
                  bytes);
    }
    return rows;
  }
  static void keep(const Tensor& rows, const std::vector<std::int64_t>& slots,
                   std::vector<Row>& to) {
    const std::int64_t cols = rows.view().cols();
    for (std::size_t r = 0; r < slots.size(); ++r) {
      Row& row = to[static_cast<std::size_t>(slots[r])];
      for (std::int64_t c = 0; c < cols; ++c) {
        row.push_back(
            load_f32(rows.data(), static_cast<std::int64_t>(r) * cols + c, rows.view().dtype));
      }
    }
  }
  static void add_up(const MoeMlpProblem& p, const std::vector<Row>& slots, const Tensor& to) {
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      for (std::int64_t c = 0; c < p.k; ++c) {
        float sum = 0;
        for (std::int64_t k = 0; k < p.top_k; ++k) {
          const Row& row = slots[static_cast<std::size_t>(t * p.top_k + k)];
          if (!row.empty()) sum += row[static_cast<std::size_t>(c)];
        }
        store_f32(to.data(), t * p.k + c, p.dtype, sum);
      }
    }
  }
  static Fp8LinearProblem layer(const MoeMlpProblem& p, std::int64_t m, std::int64_t n,
                                std::int64_t k) {
    Fp8LinearProblem dense;
    dense.m = m;
    dense.n = n;
    dense.k = k;
    dense.dtype = p.dtype;
    dense.format = p.format;
    dense.grad_format = p.grad_format;
    dense.dw_dtype = p.dw_dtype;
    dense.accumulate_dw = p.accumulate_dw;
    dense.wgrad_blocks = p.wgrad_blocks;
    dense.amax_floor = p.amax_floor;
    dense.pow2_scales = p.pow2_scales;
    return dense;
  }
  static Tensor copy_of(const TensorView& matrix) {
    Tensor copy(matrix.dtype, {matrix.rows(), matrix.cols()});
    std::memcpy(copy.data(), matrix.data, copy.bytes());
    return copy;
  }

  void run_expert(const MoeMlpProblem& p, const MoeTensors& t, const TensorView& indices,
                  const TensorView& weights, std::int64_t g, const MoeTensors& old) {
    std::vector<std::int64_t> slots;
    for (std::int64_t i = 0; i < p.tokens * p.top_k; ++i) {
      const bool full = p.capacity > 0 && static_cast<std::int64_t>(slots.size()) == p.capacity;
      if (static_cast<const std::int32_t*>(indices.data)[i] == p.first_expert + g && !full) {
        slots.push_back(i);
      }
    }
    dw_gate_up.push_back(copy_of(matrix_of(old.dw_gate_up.view(), g)));
    dw_down.push_back(copy_of(matrix_of(old.dw_down.view(), g)));
    const auto m = static_cast<std::int64_t>(slots.size());
    if (m == 0) {
      if (p.accumulate_dw) return;
      std::memset(dw_gate_up.back().data(), 0, dw_gate_up.back().bytes());
      std::memset(dw_down.back().data(), 0, dw_down.back().bytes());
      return;
    }
    Tensor p_rows(Dtype::f32, {m});
    for (std::int64_t r = 0; r < m; ++r) {
      static_cast<float*>(p_rows.data())[r] =
          static_cast<const float*>(weights.data)[slots[static_cast<std::size_t>(r)]];
    }
    const Tensor gate_up(p.dtype, {m, 2 * p.f}), h(p.dtype, {m, p.f}), dh(p.dtype, {m, p.f});
    const Tensor d_gate_up(p.dtype, {m, 2 * p.f}), y_rows(p.dtype, {m, p.k});
    const Tensor dx_rows(p.dtype, {m, p.k}), dp(Dtype::f32, {m});
    Fp8Linear first(layer(p, m, 2 * p.f, p.k));
    Fp8Linear second(layer(p, m, p.k, p.f));
    GatedActivationProblem act{m, p.f, p.dtype, p.activation, true};
    const Halves in(gate_up.view()), out(d_gate_up.view());
    first.forward(gather(p, t.x, slots), matrix_of(t.w_gate_up.view(), g), gate_up);
    run(plan_gated_activation_forward(act), {in.gate, in.up, p_rows, h, {}});
    second.forward(h, matrix_of(t.w_down.view(), g), y_rows);
    keep(y_rows, slots, sum_y_);
    second.backward(gather(p, t.dy, slots), dh, dw_down.back());
    run(plan_gated_activation_backward(act),
        {dh, in.gate, in.up, p_rows, out.gate, out.up, {}, dp});
    first.backward(d_gate_up, dx_rows, dw_gate_up.back());
    keep(dx_rows, slots, sum_dx_);
    for (std::int64_t r = 0; r < m; ++r) {
      static_cast<float*>(dweights.data())[slots[static_cast<std::size_t>(r)]] =
          static_cast<const float*>(dp.data())[r];
    }
  }

  std::vector<Row> sum_y_, sum_dx_;  // by slot; empty for a slot without a row
};

}  // namespace octet
