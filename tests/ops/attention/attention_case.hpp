// The tensors of a call of attention, and every way this machine can run it.
#pragma once

#include "core/numeric.hpp"
#include "ops/attention/cpu_simd.hpp"
#include "ops/attention/problem.hpp"
#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace octet::testing {

// A dense tensor, whose extents may be 0.
class HostTensor {
 public:
  HostTensor(Dtype dtype, std::initializer_list<std::int64_t> shape)
      : view_(make_view(static_cast<void*>(nullptr), dtype, shape)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    bytes_ = static_cast<std::size_t>(count * size_bytes(dtype));
    buffer_ = Buffer(bytes_ == 0 ? 1 : bytes_);
    view_.data = buffer_.data();
  }
  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT: meant to convert
  void* data() const { return view_.data; }
  std::size_t bytes() const { return bytes_; }

 private:
  TensorView view_;
  std::size_t bytes_ = 0;
  Buffer buffer_;
};

// A tensor [batch, seq, heads, dim], or [total, heads, dim] where the problem has offsets.
inline HostTensor heads_tensor(const AttentionProblem& p, Dtype dtype, bool queries,
                               std::int64_t dim) {
  const std::int64_t heads = queries ? p.heads_q : p.heads_kv;
  if (p.offsets_dtype) return HostTensor(dtype, {queries ? p.total_q : p.total_kv, heads, dim});
  return HostTensor(dtype, {p.batch, queries ? p.seq_q : p.seq_kv, heads, dim});
}
inline HostTensor lse_tensor(const AttentionProblem& p) {
  if (p.offsets_dtype) return HostTensor(Dtype::f32, {p.heads_q, p.total_q});
  return HostTensor(Dtype::f32, {p.batch, p.heads_q, p.seq_q});
}

inline std::int64_t elements(const TensorView& view) {
  std::int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[static_cast<std::size_t>(i)];
  return count;
}
inline double element(const TensorView& dense, std::int64_t index) {
  return load_f32(dense.data, index, dense.dtype);
}
inline void set(const TensorView& dense, std::int64_t index, double value) {
  store_f32(dense.data, index, dense.dtype, static_cast<float>(value));
}
inline void fill_normal(const TensorView& dense, Random& random, float size = 1) {
  std::normal_distribution<float> normal(0, size);
  for (std::int64_t i = 0; i < elements(dense); ++i) set(dense, i, normal(random));
}
inline void poison(const HostTensor& tensor) { std::memset(tensor.data(), 0xFF, tensor.bytes()); }
inline bool same_bits(const HostTensor& a, const HostTensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Everything a forward and a backward read and write. Outputs start as NaN.
struct AttentionCall {
  AttentionProblem problem;
  HostTensor q, k, v, sink, offsets_q, offsets_kv, out, lse, dout, dlse, dq, dk, dv, dsink;

  explicit AttentionCall(const AttentionProblem& given)
      : problem(completed(given)),
        q(heads_tensor(problem, problem.dtype, true, problem.dim_qk)),
        k(heads_tensor(problem, problem.dtype, false, problem.dim_qk)),
        v(heads_tensor(problem, problem.dtype, false, problem.dim_v)),
        sink(Dtype::f32, {problem.heads_q}),
        offsets_q(problem.offsets_dtype.value_or(Dtype::i32), {problem.batch + 1}),
        offsets_kv(problem.offsets_dtype.value_or(Dtype::i32), {problem.batch + 1}),
        out(heads_tensor(problem, *problem.out_dtype, true, problem.dim_v)),
        lse(lse_tensor(problem)),
        dout(heads_tensor(problem, *problem.out_dtype, true, problem.dim_v)),
        dlse(lse_tensor(problem)),
        dq(heads_tensor(problem, problem.dtype, true, problem.dim_qk)),
        dk(heads_tensor(problem, problem.dtype, false, problem.dim_qk)),
        dv(heads_tensor(problem, problem.dtype, false, problem.dim_v)),
        dsink(Dtype::f32, {problem.heads_q}) {
    for (const HostTensor* output : {&out, &lse, &dq, &dk, &dv, &dsink}) poison(*output);
  }

  void fill(std::uint64_t seed) const {
    Random random(seed);
    for (const HostTensor* input : {&q, &k, &v, &sink, &dout, &dlse}) fill_normal(*input, random);
  }
  void set_offsets(const std::vector<std::int64_t>& q_at,
                   const std::vector<std::int64_t>& kv_at) const {
    const auto write = [](const HostTensor& to, const std::vector<std::int64_t>& from) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (to.view().dtype == Dtype::i32) {
          static_cast<std::int32_t*>(to.data())[i] = static_cast<std::int32_t>(from[i]);
        } else {
          static_cast<std::int64_t*>(to.data())[i] = from[i];
        }
      }
    };
    write(offsets_q, q_at);
    write(offsets_kv, kv_at);
  }

  AttentionInputs inputs() const { return {q, k, v, sink, offsets_q, offsets_kv}; }
  AttentionForwardArgs forward() const { return {inputs(), out, lse}; }
  AttentionBackwardArgs backward() const {
    return {inputs(), out, lse, dout, dlse, dq, dk, dv, dsink};
  }
  std::vector<const HostTensor*> outputs() const {
    std::vector<const HostTensor*> list{&out, &lse, &dq, &dk, &dv};
    if (problem.sink) list.push_back(&dsink);
    return list;
  }
};

inline const char* const kOutputNames[] = {"out", "lse", "dq", "dk", "dv", "dsink"};

// "avx2", "avx512" as the machine has them, and "cpu_reference".
inline std::vector<std::string> attention_ways() {
  std::vector<std::string> ways = simd_names();
  ways.emplace_back("cpu_reference");
  return ways;
}

template <class Plan, class Args>
void run_with_workspace(const Plan& plan, const Args& args) {
  const Buffer workspace(plan.workspace_bytes);
  if (workspace.bytes() > 0) std::memset(workspace.data(), 0xFF, workspace.bytes());
  run(plan, args, {workspace.data(), workspace.bytes()});
}

// Both passes.
inline void run_both(const std::string& way, const AttentionCall& call, int threads = 2) {
  if (way == "cpu_reference") {
    run_with_workspace(plan_attention_forward(call.problem, {way, threads}), call.forward());
    run_with_workspace(plan_attention_backward(call.problem, {way, threads}), call.backward());
    return;
  }
  const InstructionSet instructions =
      way == "avx512" ? InstructionSet::avx512 : InstructionSet::avx2;
  const auto with = [&](std::size_t bytes, const auto& task) {
    const Buffer workspace(bytes);
    if (bytes > 0) std::memset(workspace.data(), 0xFF, bytes);
    task(RunContext{{workspace.data(), workspace.bytes()}, threads});
  };
  with(attention::forward_workspace(call.problem, threads), [&](const RunContext& context) {
    attention::run_forward(call.problem, call.forward(), context, instructions);
  });
  with(attention::backward_workspace(call.problem, threads), [&](const RunContext& context) {
    attention::run_backward(call.problem, call.backward(), context, instructions);
  });
}

// 10 log10 of signal to error; 200 where they are equal.
inline double snr_db(const TensorView& given, const TensorView& wanted) {
  double signal = 0, error = 0;
  for (std::int64_t i = 0; i < elements(wanted); ++i) {
    const double w = element(wanted, i), g = element(given, i);
    if (w == g) continue;  // also infinities
    signal += w * w;
    error += (g - w) * (g - w);
  }
  for (std::int64_t i = 0; i < elements(wanted); ++i) {
    if (element(wanted, i) == element(given, i) && std::isfinite(element(wanted, i))) {
      signal += element(wanted, i) * element(wanted, i);
    }
  }
  return error == 0 ? 200 : 10 * std::log10(signal / error);
}

}  // namespace octet::testing
