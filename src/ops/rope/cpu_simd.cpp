// Token by token: the angles once, then every head of q and k, two runs at a time in registers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope/cpu_simd.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>

#include "ops/rope/cpu_simd.hpp"
#include "ops/rope/rotate_steps-inl.hpp"

#if OCTET_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE::rotary {

// By value, so that the compiler knows that no store changes it.
template <class Lanes, bool kInterleaved>
void rotate_heads(const HeadSteps& steps, TokenHeads token, const StepAngles& angles) {
  using Element = typename Lanes::Element;
  const HeadStep* all = steps.all.data();
  const std::int64_t count = steps.rotated;
  for (std::int64_t h = 0; h < token.heads; ++h) {
    // Not advanced from head to head: the stride of a single head may be anything.
    const auto* from = static_cast<const Element*>(token.from) + h * token.from_stride;
    auto* to = static_cast<Element*>(token.to) + h * token.to_stride;
    for (std::int64_t i = 0; i < count; ++i) {
      const HeadStep step = all[i];
      TwoRuns values = load_step<Lanes>(from, step);
      rotate_step(kInterleaved, angles, i, values);
      store_step<Lanes>(values, step, token.stream, to);
    }
  }
}

extern const RopeKernels kRopeKernels;
const RopeKernels kRopeKernels{
    kRun,
    {prepare_angles<SplitF32>, prepare_angles<SplitF16>, prepare_angles<SplitBf16>},
    {{rotate_heads<SplitF32, false>, rotate_heads<SplitF16, false>, rotate_heads<SplitBf16, false>},
     {rotate_heads<SplitF32, true>, rotate_heads<SplitF16, true>, rotate_heads<SplitBf16, true>}},
};

}  // namespace octet::HWY_NAMESPACE::rotary
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "cpu/threads.hpp"
#include "ops/rope/problem.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

namespace octet {
namespace {

// q or k.
struct Side {
  HeadsView from;
  HeadsView to;
  bool stream;
};

// Copies the elements after the rotated ones.
void copy_others(const RotatedHeads& heads, const TokenHeads& token) {
  const std::int64_t element_bytes = size_bytes(heads.dtype);
  const std::int64_t rotated_bytes = heads.rotation.rotary_dim * element_bytes;
  const std::int64_t bytes = heads.head_dim * element_bytes - rotated_bytes;
  if (bytes == 0 || token.from == token.to) return;
  for (std::int64_t h = 0; h < token.heads; ++h) {
    std::memcpy(static_cast<char*>(token.to) + h * token.to_stride * element_bytes + rotated_bytes,
                static_cast<const char*>(token.from) + h * token.from_stride * element_bytes +
                    rotated_bytes,
                static_cast<std::size_t>(bytes));
  }
}

}  // namespace

void rope_cpu_simd(const RopeProblem& problem, const RotateArgs& args, const RunContext& context,
                   InstructionSet instructions) {
  const RopeKernels& kernels = instructions == InstructionSet::avx512
                                   ? N_AVX3::rotary::kRopeKernels
                                   : N_AVX2::rotary::kRopeKernels;
  const RotatedHeads heads = rotated_heads(problem);
  const HeadSteps steps(heads, kernels.run);
  const PrepareAngles prepare = kernels.prepare[kernel_index(heads.rotation.cache_dtype)];
  const RotateHeads rotate =
      kernels.rotate[kernel_index(heads.rotation.style)][kernel_index(heads.dtype)];
  const auto side_of = [&](const TensorView& from, const TensorView& to) {
    return Side{heads_view(from), heads_view(to), streams(to, steps) && from.data != to.data};
  };
  std::vector<Side> sides{side_of(args.q, args.q_out)};
  if (heads.k_heads > 0) sides.push_back(side_of(args.k, args.k_out));

  const TokenTasks tasks(heads.tokens(), context.threads);
  parallel_for(context.threads, tasks.count(), [&](std::int64_t task) {
    StepAngles angles;
    for (std::int64_t i = tasks.begin(task); i < tasks.begin(task + 1); ++i) {
      const std::int64_t batch = i / heads.seq;
      const std::int64_t token = i % heads.seq;
      prepare(angle_rows(heads, args.rotation, args.inverse, batch, token), steps, angles);
      for (const Side& side : sides) {
        const TokenHeads place{side.from.head(batch, token, 0),
                               side.to.head(batch, token, 0),
                               side.from.head_stride,
                               side.to.head_stride,
                               side.from.heads,
                               side.stream};
        rotate(steps, place, angles);
        copy_others(heads, place);
      }
    }
    hwy::FlushStream();  // other threads see the streamed stores before what follows
  });
}

const RopeImplementation kRopeCpuSimd{
    "cpu_simd",
    [](const RopeProblem& problem, const Machine& machine) {
      const std::string refusal = refuse_off_simd(problem.device, machine);
      return refusal.empty() ? refuse_long_rotation(rotated_heads(problem)) : refusal;
    },
    [](const RopeProblem& problem, const Machine& machine) {
      return planned_simd<RotateArgs>(problem, machine, 0, rope_cpu_simd);
    },
};

}  // namespace octet
#endif
