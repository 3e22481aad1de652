// Runs of tokens, each with scratch of its own: weights are converted once, angles once per token,
// and a token is read twice, the second time from a cache.
#include "ops/rms_norm_rope/cpu_simd.hpp"

#include "core/workspace.hpp"
#include "cpu/threads.hpp"
#include "ops/rms_norm_rope/weight_gradient.hpp"

#include <hwy/cache_control.h>

namespace octet {
namespace {

// Of the widest instruction set: others need no more memory.
constexpr std::int64_t kWidestRun = 32;

NormSteps norm_steps(const RmsNormRopeProblem& problem, std::int64_t run) {
  return {HeadSteps(rotated_heads(problem), run), problem.head_dim, problem.eps};
}

// f32 elements of the weights of one norm, or of their gradients, as the kernels read them.
std::int64_t split_length(const RmsNormRopeProblem& problem, std::int64_t heads) {
  const HeadSteps steps(rotated_heads(problem), kWidestRun);
  const auto slots = static_cast<std::int64_t>(steps.all.size());
  return heads_per_norm(problem, heads) * slots * 2 * kWidestRun;
}

// Scratch of a run of tokens: the sums of pairs of one norm, and rstd of one token.
struct Scratch {
  float* data = nullptr;
  std::int64_t sums;
  std::int64_t rstd;

  explicit Scratch(const RmsNormRopeProblem& problem)
      : sums(round_up(weight_length(problem, most_heads(problem)) / 2, kWidestRun) + kWidestRun),
        rstd(round_up(norms_per_token(problem, most_heads(problem)), kWidestRun)) {}

  static std::int64_t most_heads(const RmsNormRopeProblem& problem) {
    return std::max(problem.q_heads, problem.k_heads);
  }
  std::size_t bytes(std::int64_t runs) const {
    return static_cast<std::size_t>(runs * (sums + rstd)) * sizeof(float);
  }
  float* sums_of(std::int64_t run) const { return data + run * (sums + rstd); }
  float* rstd_of(std::int64_t run) const { return sums_of(run) + sums; }
};

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

// What one call of either direction works with.
struct Call {
  const RmsNormRopeProblem& problem;
  const RotationArgs& rotation;
  const NormRopeKernels& kernels;
  NormSteps steps;
  int threads;

  const float* split_weights(const TensorView& g, void* memory) const {
    auto* weights = static_cast<float*>(memory);
    kernels.split_weights[kernel_index(problem.weight)](steps, g, problem.one_plus_weight, weights);
    return weights;
  }
  // Calls visit(index, batch, token, angles) for the tokens of a run.
  template <class Visit>
  void for_tokens(std::int64_t run, bool inverse, const Visit& visit) const {
    const RotatedHeads heads = rotated_heads(problem);
    const PrepareAngles prepare = kernels.prepare[kernel_index(problem.rotation.cache)];
    StepAngles angles;
    const std::int64_t end = run_begin(problem, run + 1);
    for (std::int64_t i = run_begin(problem, run); i < end; ++i) {
      const std::int64_t batch = i / problem.seq;
      const std::int64_t token = i % problem.seq;
      prepare(angle_rows(heads, rotation, inverse, batch, token), steps.head, angles);
      visit(i, batch, token, angles);
    }
    hwy::FlushStream();  // no later read of another thread may overtake what was streamed
  }
  NormRopeKernels::Pass pass(const NormRopeKernels::Pass (&list)[2][3]) const {
    return list[kernel_index(problem.rotation.style)][kernel_index(problem.dtype)];
  }
};

Call make_call(const RmsNormRopeProblem& problem, const RotationArgs& rotation, int threads,
               InstructionSet instructions) {
  const NormRopeKernels& kernels = norm_rope_kernels(instructions);
  return {problem, rotation, kernels, norm_steps(problem, kernels.run), threads};
}

void forward_side(const Call& call, const ForwardSide& side, const Scratch& scratch,
                  const float* weights) {
  const RmsNormRopeProblem& problem = call.problem;
  const NormRopeKernels::Pass pass = call.pass(call.kernels.forward);
  const HeadsView x = heads_view(side.x);
  const HeadsView out = heads_view(side.out);
  NormToken common;
  common.x_stride = x.head_stride;
  common.out_stride = out.head_stride;
  common.norms = norms_per_token(problem, side.heads);
  common.heads = heads_per_norm(problem, side.heads);
  common.weights = weights;
  common.stream = streams(side.out, call.steps.head) && side.out.data != side.x.data;
  parallel_for(call.threads, run_count(problem), [&](std::int64_t run) {
    NormToken norm = common;
    norm.sums = scratch.sums_of(run);
    norm.rstd = scratch.rstd_of(run);
    call.for_tokens(
        run, false,
        [&](std::int64_t index, std::int64_t batch, std::int64_t token, const StepAngles& angles) {
          norm.x = x.head(batch, token, 0);
          norm.out = out.head(batch, token, 0);
          if (problem.training) {
            norm.rstd = static_cast<float*>(side.rstd.data) + index * norm.norms;
          }
          pass(call.steps, norm, angles);
        });
  });
}

void backward_side(const Call& call, const BackwardSide& side, const Scratch& scratch,
                   const float* weights, const GradientRows& gradient) {
  const RmsNormRopeProblem& problem = call.problem;
  const NormRopeKernels::Pass pass = call.pass(call.kernels.backward);
  const HeadsView dout = heads_view(side.dout);
  const HeadsView x = heads_view(side.x);
  const HeadsView dx = heads_view(side.dx);
  NormToken common;
  common.x_stride = x.head_stride;
  common.dout_stride = dout.head_stride;
  common.out_stride = dx.head_stride;
  common.norms = norms_per_token(problem, side.heads);
  common.heads = heads_per_norm(problem, side.heads);
  common.weights = weights;
  common.stream = streams(side.dx, call.steps.head) && side.dx.data != side.x.data &&
                  side.dx.data != side.dout.data;
  parallel_for(call.threads, run_count(problem), [&](std::int64_t run) {
    NormToken norm = common;
    norm.sums = scratch.sums_of(run);
    norm.dg = gradient.cleared_row(run);
    call.for_tokens(
        run, true,
        [&](std::int64_t index, std::int64_t batch, std::int64_t token, const StepAngles& angles) {
          norm.dout = dout.head(batch, token, 0);
          norm.x = x.head(batch, token, 0);
          norm.out = dx.head(batch, token, 0);
          norm.rstd = static_cast<float*>(side.rstd.data) + index * norm.norms;
          pass(call.steps, norm, angles);
        });
  });
}

// From the order of the kernels to that of the elements.
void write_gradient(const Call& call, const GradientRows& gradient, const TensorView& dg) {
  const std::int64_t run = call.kernels.run;
  std::int64_t slot = 0;
  for (std::int64_t head = 0; head < dg.shape[0]; head += call.problem.head_dim) {
    for (const HeadStep& step : call.steps.head.all) {
      const auto write = [&](std::int64_t first, std::int64_t count, std::int64_t from) {
        for (std::int64_t i = 0; i < count; ++i) {
          store_f32(dg.data, head + first + i, dg.dtype,
                    gradient.sum(from + i % 2 * (run / 2) + i / 2));
        }
      };
      write(step.first, step.first_count, slot);
      write(step.second, step.second_count, slot + run);
      slot += 2 * run;
    }
  }
}

// Neighbours have to fall into one pair of lanes.
std::string refuse_odd_halves(const RotatedHeads& heads) {
  if (heads.rotation.style == RopeStyle::interleaved || heads.pairs() % 2 == 0) return "";
  return text("half of rotary_dim is ", heads.pairs(), ", which is odd");
}

std::string refuse_simd(const RmsNormRopeProblem& problem, const Machine& machine) {
  const RotatedHeads heads = rotated_heads(problem);
  for (const std::string& refusal : {refuse_off_cpu(problem.device), refuse_without_avx2(machine),
                                     refuse_long_rotation(heads), refuse_odd_halves(heads)}) {
    if (!refusal.empty()) return refusal;
  }
  return "";
}

std::string configuration(const RmsNormRopeProblem&, const Machine& machine) {
  return text(name(best_instruction_set(machine)), " threads=", machine.threads);
}

}  // namespace

std::size_t rms_norm_rope_simd_bytes(const RmsNormRopeProblem& problem, bool backward) {
  const std::int64_t runs = run_count(problem);
  std::size_t bytes = aligned_bytes(Scratch(problem).bytes(runs));
  for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
    if (heads == 0) continue;
    const std::int64_t length = split_length(problem, heads);
    bytes += aligned_bytes(float_bytes(length));
    if (backward) bytes += aligned_bytes(GradientRows::bytes(runs, length));
  }
  return bytes;
}

void rms_norm_rope_forward_simd(const RmsNormRopeProblem& problem,
                                const RmsNormRopeForwardArgs& args, const Workspace& workspace,
                                int threads, InstructionSet instructions) {
  const Call call = make_call(problem, args.rotation, threads, instructions);
  WorkspaceCarver carver(workspace);
  Scratch scratch(problem);
  scratch.data = static_cast<float*>(carver.take(scratch.bytes(run_count(problem))));
  for (const ForwardSide& side : sides_of(problem, args)) {
    void* weights = carver.take(float_bytes(split_length(problem, side.heads)));
    forward_side(call, side, scratch, call.split_weights(side.g, weights));
  }
}

void rms_norm_rope_backward_simd(const RmsNormRopeProblem& problem,
                                 const RmsNormRopeBackwardArgs& args, const Workspace& workspace,
                                 int threads, InstructionSet instructions) {
  const Call call = make_call(problem, args.rotation, threads, instructions);
  const std::int64_t runs = run_count(problem);
  WorkspaceCarver carver(workspace);
  Scratch scratch(problem);
  scratch.data = static_cast<float*>(carver.take(scratch.bytes(runs)));
  for (const BackwardSide& side : sides_of(problem, args)) {
    const std::int64_t length = split_length(problem, side.heads);
    void* weights = carver.take(float_bytes(length));
    const GradientRows gradient(carver.take(GradientRows::bytes(runs, length)), runs, length);
    backward_side(call, side, scratch, call.split_weights(side.g, weights), gradient);
    gradient.add_rows(threads);
    write_gradient(call, gradient, side.dg);
  }
}

const RmsNormRopeForwardImplementation kRmsNormRopeForwardCpuSimd{
    "cpu_simd",
    refuse_simd,
    configuration,
    [](const RmsNormRopeProblem& problem, const Machine&) {
      return rms_norm_rope_simd_bytes(problem, false);
    },
    [](const RmsNormRopeProblem& problem, const RmsNormRopeForwardArgs& args,
       const RunContext& context) {
      rms_norm_rope_forward_simd(problem, args, context.workspace, context.threads,
                                 best_instruction_set());
    },
};

const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCpuSimd{
    "cpu_simd",
    refuse_simd,
    configuration,
    [](const RmsNormRopeProblem& problem, const Machine&) {
      return rms_norm_rope_simd_bytes(problem, true);
    },
    [](const RmsNormRopeProblem& problem, const RmsNormRopeBackwardArgs& args,
       const RunContext& context) {
      rms_norm_rope_backward_simd(problem, args, context.workspace, context.threads,
                                  best_instruction_set());
    },
};

}  // namespace octet
