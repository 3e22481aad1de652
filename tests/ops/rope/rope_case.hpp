// A random call of rope, and every way this machine can run it.
#pragma once

#include "ops/rope/cpu_simd.hpp"
#include "ops/rope/problem.hpp"
#include "support/rotary_data.hpp"

#include <string>

namespace octet::testing {

inline RopeProblem random_rope(Random& random) {
  constexpr std::int64_t kHeadDims[] = {2,  4,  6,  10, 16,  30,  32,  48,
                                        64, 66, 80, 96, 128, 130, 192, 256};
  RopeProblem problem{.batch = 1 + static_cast<std::int64_t>(random() % 3),
                      .seq = 1 + static_cast<std::int64_t>(random() % 9),
                      .q_heads = 1 + static_cast<std::int64_t>(random() % 5),
                      .k_heads = static_cast<std::int64_t>(random() % 4),
                      .head_dim = any_of(kHeadDims, random),
                      .dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random)};
  problem.rotation = random_rotation(problem.seq, problem.head_dim, random);
  return problem;
}

// The heads of one call. In place, the outputs start as copies of the inputs.
struct RopeHeads {
  HeadsMemory q;
  HeadsMemory k;
  HeadsMemory q_out;
  HeadsMemory k_out;

  RopeHeads(const RopeProblem& problem, HeadsLayout in, HeadsLayout out)
      : q(problem.dtype, shape(problem, problem.q_heads), in),
        k(problem.dtype, shape(problem, problem.k_heads), in),
        q_out(problem.dtype, shape(problem, problem.q_heads), out),
        k_out(problem.dtype, shape(problem, problem.k_heads), out) {}

  static std::array<std::int64_t, 4> shape(const RopeProblem& problem, std::int64_t heads) {
    return {problem.batch, problem.seq, std::max<std::int64_t>(heads, 1), problem.head_dim};
  }
  void begin_in_place() const {
    q_out.copy_from(q);
    k_out.copy_from(k);
  }
  RotateArgs args(const RotationData& rotation, bool in_place, bool inverse = false) const {
    return {in_place ? q_out.view() : q.view(),
            in_place ? k_out.view() : k.view(),
            q_out.view(),
            k_out.view(),
            rotation.args(),
            inverse};
  }
};

// A random problem with the layout and contents of its heads; everything except the outputs is
// random.
struct RandomRope {
  Random random;
  RopeProblem problem = random_rope(random);
  bool inverse = random() % 2 == 0;
  RotationData rotation{problem, random};
  HeadsLayout in = any_of(kHeadsLayouts, random);
  bool in_place = random() % 3 == 0;
  HeadsLayout out = in_place ? in : any_of(kHeadsLayouts, random);
  RopeHeads heads{problem, in, out};

  explicit RandomRope(std::uint64_t seed) : random(seed) {
    fill_normal(heads.q.view(), random);
    fill_normal(heads.k.view(), random);
    if (in_place) heads.begin_in_place();
  }
  RotateArgs args() const { return heads.args(rotation, in_place, inverse); }
};

// Runs forward, or backward if the arguments say inverse.
inline void run_rope(const RopeProblem& problem, const RotateArgs& args,
                     const PlanOptions& options = {}) {
  if (args.inverse) {
    run(plan_rope_backward(problem, options),
        {args.q, args.k, args.q_out, args.k_out, args.rotation});
  } else {
    run(plan_rope_forward(problem, options),
        {args.q, args.k, args.q_out, args.k_out, args.rotation});
  }
}

// Runs rope with "cpu_reference" or an instruction set.
inline void rope_by(const std::string& way, const RopeProblem& problem, const RotateArgs& args,
                    int threads = 2) {
  if (way == "cpu_reference") {
    run_rope(problem, args, {way, threads});
    return;
  }
  check(problem);
  rope_cpu_simd(problem, args, {{}, threads},
                way == "avx512" ? InstructionSet::avx512 : InstructionSet::avx2);
}

}  // namespace octet::testing
