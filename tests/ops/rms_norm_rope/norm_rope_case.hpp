// A random call of rms_norm_rope, and every way this machine can run it.
#pragma once

#include "ops/rms_norm_rope/cpu_simd.hpp"
#include "support/rotary_data.hpp"

#include <string>

namespace octet::testing {

inline RmsNormRopeProblem random_norm_rope(Random& random, std::uint64_t most_seq = 9) {
  constexpr std::int64_t kHeadDims[] = {2,  4,  6,  16,  30,  32,  48, 64,
                                        66, 80, 96, 128, 130, 192, 256};
  RmsNormRopeProblem problem{.batch = 1 + static_cast<std::int64_t>(random() % 3),
                             .seq = 1 + static_cast<std::int64_t>(random() % most_seq),
                             .q_heads = 1 + static_cast<std::int64_t>(random() % 7),
                             .k_heads = static_cast<std::int64_t>(random() % 4),
                             .head_dim = any_of(kHeadDims, random),
                             .norm = any_of({NormScope::row, NormScope::head}, random),
                             .dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random),
                             .weight_dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random),
                             .dg_dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random)};
  problem.eps = any_of({0.0f, 1e-6f, 0.1f}, random);
  problem.one_plus_weight = random() % 2 == 0;
  problem.rotation = random_rotation(problem.seq, problem.head_dim, random);
  return problem;
}

// Calls in place: dx overwrites x or dout, and in both cases out overwrites x.
enum class InPlace { no, x, dout };

struct NormRopeSide {
  HeadsMemory x;
  HeadsMemory dout;
  HeadsMemory out;
  HeadsMemory dx;
  Tensor g;
  Tensor rstd;
  Tensor dg;

  NormRopeSide(const RmsNormRopeProblem& problem, std::int64_t heads, HeadsLayout in,
               HeadsLayout written)
      : x(problem.dtype, shape(problem, heads), in),
        dout(problem.dtype, shape(problem, heads), in),
        out(problem.dtype, shape(problem, heads), written),
        dx(problem.dtype, shape(problem, heads), written),
        g(problem.weight_dtype, {length(problem, heads)}),
        rstd(Dtype::f32, {problem.batch * problem.seq *
                          (problem.norm == NormScope::row ? 1 : at_least_one(heads))}),
        dg(problem.dg_dtype, {length(problem, heads)}) {}

  static std::int64_t at_least_one(std::int64_t heads) { return std::max<std::int64_t>(heads, 1); }
  static std::int64_t length(const RmsNormRopeProblem& problem, std::int64_t heads) {
    return problem.head_dim * (problem.norm == NormScope::row ? at_least_one(heads) : 1);
  }
  static std::array<std::int64_t, 4> shape(const RmsNormRopeProblem& problem, std::int64_t heads) {
    return {problem.batch, problem.seq, at_least_one(heads), problem.head_dim};
  }
  void fill(Random& random) const {
    fill_normal(x.view(), random);
    fill_normal(dout.view(), random);
    fill_normal(g, random);
  }
  void fill_from(const NormRopeSide& other) const {
    x.copy_from(other.x);
    dout.copy_from(other.dout);
    std::memcpy(g.data(), other.g.data(), g.bytes());
  }
  void begin(InPlace in_place) const {
    if (in_place == InPlace::no) return;
    out.copy_from(x);
    dx.copy_from(in_place == InPlace::x ? x : dout);
  }
  // Compares every byte of the memory of the outputs.
  bool operator==(const NormRopeSide& other) const {
    return out == other.out && dx == other.dx &&
           std::memcmp(rstd.data(), other.rstd.data(), rstd.bytes()) == 0 &&
           std::memcmp(dg.data(), other.dg.data(), dg.bytes()) == 0;
  }
};

struct NormRopeCall {
  NormRopeSide q;
  NormRopeSide k;
  InPlace in_place = InPlace::no;

  NormRopeCall(const RmsNormRopeProblem& problem, HeadsLayout in, HeadsLayout out)
      : q(problem, problem.q_heads, in, out), k(problem, problem.k_heads, in, out) {}

  RmsNormRopeForwardArgs forward(const RotationArgs& rotation) const {
    return {x_of_forward(q), x_of_forward(k), q.g,    k.g,     q.out.view(),
            k.out.view(),    q.rstd,          k.rstd, rotation};
  }
  RmsNormRopeBackwardArgs backward(const RotationArgs& rotation) const {
    const auto dout = [&](const NormRopeSide& side) {
      return in_place == InPlace::dout ? side.dx.view() : side.dout.view();
    };
    const auto x = [&](const NormRopeSide& side) {
      return in_place == InPlace::x ? side.dx.view() : side.x.view();
    };
    return {dout(q), dout(k),     x(q),        x(k), q.g,  k.g,     q.rstd,
            k.rstd,  q.dx.view(), k.dx.view(), q.dg, k.dg, rotation};
  }

 private:
  TensorView x_of_forward(const NormRopeSide& side) const {
    return in_place == InPlace::no ? side.x.view() : side.out.view();
  }
};

// Runs forward and then backward with an implementation of the CPU or an instruction set.
inline void norm_rope_by(const std::string& way, const RmsNormRopeProblem& problem,
                         const NormRopeCall& call, const RotationArgs& rotation, int threads = 2) {
  if (way == "cpu_reference" || way == "cpu_simd") {
    const auto forward = plan_rms_norm_rope_forward(problem, {way, threads});
    const auto backward = plan_rms_norm_rope_backward(problem, {way, threads});
    const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
    run(forward, call.forward(rotation), {workspace.data(), workspace.bytes()});
    run(backward, call.backward(rotation), {workspace.data(), workspace.bytes()});
    return;
  }
  const Buffer memory(rms_norm_rope_simd_bytes(problem, true));
  const RunContext context{{memory.data(), memory.bytes()}, threads};
  const InstructionSet set = way == "avx512" ? InstructionSet::avx512 : InstructionSet::avx2;
  rms_norm_rope_forward_simd(problem, call.forward(rotation), context, set);
  rms_norm_rope_backward_simd(problem, call.backward(rotation), context, set);
}

}  // namespace octet::testing
