// Runs of tokens, each with its own scratch: weights are converted once, angles once per token,
// and a token is read twice, the second time from a cache.
#include "ops/rms_norm_rope/cpu_simd.hpp"

#include "core/workspace.hpp"
#include "cpu/threads.hpp"
#include "ops/rms_norm_rope/weight_gradient.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <bit>

namespace octet {
namespace {

// Elements of a run of the widest instruction set: others need no more memory.
constexpr std::int64_t kWidestRun = 32;

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

// Elements of the weights of one norm, or of their gradients, in whole steps.
std::int64_t split_length(const RmsNormRopeProblem& problem, std::int64_t heads) {
  const HeadSteps steps(rotated_heads(problem), kWidestRun);
  const auto slots = static_cast<std::int64_t>(steps.all.size());
  return heads_per_norm(problem, heads) * slots * 2 * kWidestRun;
}

// The number of sums of one norm, padded to a full tree if several norms are summed at once.
std::int64_t sums_stride(const RmsNormRopeProblem& problem, std::int64_t heads,
                         std::int64_t elements_per_sum) {
  const std::int64_t sums = weight_length(problem, heads) / elements_per_sum;
  if (norms_per_token(problem, heads) == 1) return sums;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(sums)));
}

// The sums and the factors of one token of each run, with room for two vectors after them.
class TokenScratch {
 public:
  explicit TokenScratch(const RmsNormRopeProblem& problem) {
    for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
      if (heads == 0) continue;
      const std::int64_t norms = norms_per_token(problem, heads);
      sums_ = std::max(sums_, norms * sums_stride(problem, heads, 2) + 2 * kWidestRun);
      factors_ = std::max(factors_, norms + 2 * kWidestRun);
    }
  }

  std::size_t bytes(std::int64_t runs) const { return float_bytes(runs * (sums_ + factors_)); }
  void set_memory(void* memory) { data_ = static_cast<float*>(memory); }
  float* sums(std::int64_t run) const { return data_ + run * (sums_ + factors_); }
  float* factors(std::int64_t run) const { return sums(run) + sums_; }

 private:
  float* data_ = nullptr;
  std::int64_t sums_ = 0;
  std::int64_t factors_ = 0;
};

// What one call of either direction works with.
struct SimdCall {
  const RmsNormRopeProblem& problem;
  const RotationArgs& rotation;
  const NormRopeKernels& kernels;
  HeadSteps head;
  NormSteps steps;
  int threads;

  SimdCall(const RmsNormRopeProblem& problem_, const RotationArgs& rotation_, int threads_,
           InstructionSet instructions)
      : problem(problem_),
        rotation(rotation_),
        kernels(norm_rope_kernels(instructions)),
        head(rotated_heads(problem_), kernels.run),
        steps{head.all.data(),   static_cast<std::int64_t>(head.all.size()),
              head.rotated,      problem_.rotation.style == RopeStyle::interleaved,
              problem_.head_dim, problem_.eps},
        threads(threads_) {}

  const float* split_weights(const TensorView& g, void* memory) const {
    auto* weights = static_cast<float*>(memory);
    kernels.split_weights[kernel_index(problem.weight_dtype)](steps, g, problem.one_plus_weight,
                                                              weights);
    return weights;
  }
};

// A tensor of heads, token by token.
class TokenReader {
 public:
  TokenReader(const TensorView& tensor, std::int64_t seq) : view_(heads_view(tensor)), seq_(seq) {}

  std::int64_t head_stride() const { return view_.head_stride; }
  char* at(std::int64_t index) const { return view_.head(index / seq_, index % seq_, 0); }
  // The next token, or the last one again.
  const char* behind(std::int64_t index) const {
    return at(index % seq_ + 1 < seq_ ? index + 1 : index);
  }

 private:
  HeadsView view_;
  std::int64_t seq_;
};

// What the tokens of one side have in common.
NormToken token_of_side(const SimdCall& call, std::int64_t heads, std::int64_t elements_per_sum,
                        const float* weights) {
  NormToken token;
  token.norms = norms_per_token(call.problem, heads);
  token.heads = heads_per_norm(call.problem, heads);
  token.elements_per_sum = elements_per_sum;
  token.sums_stride = sums_stride(call.problem, heads, elements_per_sum);
  token.weights = weights;
  return token;
}

// Calls visit(index, angles) for the tokens of a run.
template <class Visit>
void for_tokens(const SimdCall& call, std::int64_t run, bool inverse, const Visit& visit) {
  const RotatedHeads heads = rotated_heads(call.problem);
  const PrepareAngles prepare = call.kernels.prepare[kernel_index(heads.rotation.cache_dtype)];
  StepAngles angles;
  const std::int64_t end = run_begin(call.problem, run + 1);
  for (std::int64_t i = run_begin(call.problem, run); i < end; ++i) {
    prepare(angle_rows(heads, call.rotation, inverse, i / heads.seq, i % heads.seq), call.head,
            angles);
    visit(i, angles);
  }
  hwy::FlushStream();  // other threads see the streamed stores before what follows
}

void forward_side(const SimdCall& call, const ForwardSide& side, const TokenScratch& scratch,
                  const float* weights) {
  const RmsNormRopeProblem& problem = call.problem;
  const NormRopeKernels::Pass pass = call.kernels.forward[kernel_index(problem.dtype)];
  const TokenReader x(side.x, problem.seq);
  const TokenReader out(side.out, problem.seq);
  const bool whole_groups = problem.head_dim % (4 * call.kernels.run) == 0;
  NormToken common = token_of_side(call, side.heads, whole_groups ? 8 : 2, weights);
  common.x_stride = x.head_stride();
  common.out_stride = out.head_stride();
  common.stream = streams(side.out, call.head) && side.out.data != side.x.data;
  parallel_for(call.threads, run_count(problem), [&](std::int64_t run) {
    NormToken token = common;
    token.sums = scratch.sums(run);
    token.factors = scratch.factors(run);
    for_tokens(call, run, false, [&](std::int64_t index, const StepAngles& angles) {
      token.x = x.at(index);
      token.next_x = x.behind(index);
      token.out = out.at(index);
      pass(call.steps, token, angles);
      if (!problem.training) return;
      std::copy_n(token.factors, token.norms,
                  static_cast<float*>(side.rstd.data) + index * token.norms);
    });
  });
}

void backward_side(const SimdCall& call, const BackwardSide& side, const TokenScratch& scratch,
                   const float* weights, const GradientRows& gradient) {
  const RmsNormRopeProblem& problem = call.problem;
  const NormRopeKernels::Pass pass = call.kernels.backward[kernel_index(problem.dtype)];
  const TokenReader dout(side.dout, problem.seq);
  const TokenReader x(side.x, problem.seq);
  const TokenReader dx(side.dx, problem.seq);
  NormToken common = token_of_side(call, side.heads, 2, weights);
  common.dout_stride = dout.head_stride();
  common.x_stride = x.head_stride();
  common.out_stride = dx.head_stride();
  common.stream =
      streams(side.dx, call.head) && side.dx.data != side.x.data && side.dx.data != side.dout.data;
  parallel_for(call.threads, run_count(problem), [&](std::int64_t run) {
    NormToken token = common;
    token.sums = scratch.sums(run);
    token.factors = scratch.factors(run);
    token.dg = gradient.cleared_row(run);
    for_tokens(call, run, true, [&](std::int64_t index, const StepAngles& angles) {
      token.dout = dout.at(index);
      token.x = x.at(index);
      token.next_dout = dout.behind(index);
      token.next_x = x.behind(index);
      token.out = dx.at(index);
      token.rstd = static_cast<const float*>(side.rstd.data) + index * token.norms;
      pass(call.steps, token, angles);
    });
  });
}

// Writes dg, from the order of the kernels to that of the elements.
void write_gradient(const SimdCall& call, const GradientRows& gradient, const TensorView& dg) {
  const std::int64_t run = call.kernels.run;
  std::int64_t slot = 0;
  for (std::int64_t head = 0; head < dg.shape[0]; head += call.problem.head_dim) {
    const auto write = [&](std::int64_t first, std::int64_t count, std::int64_t from) {
      for (std::int64_t i = 0; i < count; ++i) {
        store_f32(dg.data, head + first + i, dg.dtype,
                  gradient.sum(from + i % 2 * (run / 2) + i / 2));
      }
    };
    for (const HeadStep& step : call.head.all) {
      write(step.first, step.first_count, slot);
      write(step.second, step.second_count, slot + run);
      slot += 2 * run;
    }
  }
}

// Neighbouring elements must fall into one pair of lanes.
std::string refuse_odd_halves(const RotatedHeads& heads) {
  if (heads.rotation.style == RopeStyle::interleaved || heads.pairs() % 2 == 0) return "";
  return text("half of rotary_dim is ", heads.pairs(), ", which is odd");
}

std::string refuse(const RmsNormRopeProblem& problem, const Machine& machine) {
  const RotatedHeads heads = rotated_heads(problem);
  for (const std::string& refusal : {refuse_off_simd(problem.device, machine),
                                     refuse_long_rotation(heads), refuse_odd_halves(heads)}) {
    if (!refusal.empty()) return refusal;
  }
  return "";
}

}  // namespace

std::size_t rms_norm_rope_simd_bytes(const RmsNormRopeProblem& problem, bool backward) {
  const std::int64_t runs = run_count(problem);
  std::size_t bytes = aligned_bytes(TokenScratch(problem).bytes(runs));
  for (const std::int64_t heads : {problem.q_heads, problem.k_heads}) {
    if (heads == 0) continue;
    const std::int64_t length = split_length(problem, heads);
    bytes += aligned_bytes(float_bytes(length));
    if (backward) bytes += aligned_bytes(GradientRows::bytes(runs, length));
  }
  return bytes;
}

void rms_norm_rope_forward_simd(const RmsNormRopeProblem& problem,
                                const RmsNormRopeForwardArgs& args, const RunContext& context,
                                InstructionSet instructions) {
  const SimdCall call(problem, args.rotation, context.threads, instructions);
  WorkspaceCarver carver(context.workspace);
  TokenScratch scratch(problem);
  scratch.set_memory(carver.take(scratch.bytes(run_count(problem))));
  for (const ForwardSide& side : sides_of(problem, args)) {
    void* weights = carver.take(float_bytes(split_length(problem, side.heads)));
    forward_side(call, side, scratch, call.split_weights(side.g, weights));
  }
}

void rms_norm_rope_backward_simd(const RmsNormRopeProblem& problem,
                                 const RmsNormRopeBackwardArgs& args, const RunContext& context,
                                 InstructionSet instructions) {
  const SimdCall call(problem, args.rotation, context.threads, instructions);
  const std::int64_t runs = run_count(problem);
  WorkspaceCarver carver(context.workspace);
  TokenScratch scratch(problem);
  scratch.set_memory(carver.take(scratch.bytes(runs)));
  for (const BackwardSide& side : sides_of(problem, args)) {
    const std::int64_t length = split_length(problem, side.heads);
    void* weights = carver.take(float_bytes(length));
    const GradientRows gradient(carver.take(GradientRows::bytes(runs, length)), runs, length);
    backward_side(call, side, scratch, call.split_weights(side.g, weights), gradient);
    gradient.add_rows(context.threads);
    write_gradient(call, gradient, side.dg);
  }
}

const RmsNormRopeForwardImplementation kRmsNormRopeForwardCpuSimd{
    "cpu_simd", refuse, [](const RmsNormRopeProblem& problem, const Machine& machine) {
      return planned_simd<RmsNormRopeForwardArgs>(
          problem, machine, rms_norm_rope_simd_bytes(problem, false), rms_norm_rope_forward_simd);
    }};

const RmsNormRopeBackwardImplementation kRmsNormRopeBackwardCpuSimd{
    "cpu_simd", refuse, [](const RmsNormRopeProblem& problem, const Machine& machine) {
      return planned_simd<RmsNormRopeBackwardArgs>(
          problem, machine, rms_norm_rope_simd_bytes(problem, true), rms_norm_rope_backward_simd);
    }};

}  // namespace octet
