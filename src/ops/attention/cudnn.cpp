// Which problems cuDNN takes, compiled with and without it. Two implementations: `cudnn` has the
// deterministic backward, `cudnn_nondeterministic` the faster one, whose sums of dq have no fixed
// order; it is there to be measured, and only run by its name.
#include "device/cuda_runtime.hpp"
#include "ops/attention/problem.hpp"

namespace octet {
namespace {

constexpr int kOldest = 91002;  // 9.10.0 and 9.10.1 have wrong results
constexpr std::int64_t kMostHeadDim = 256;

std::string version_text(int version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string refuse_library(int version) {
  if (version == cuda::kBuiltWithoutCudnn) {
    return "this build of octet has no cuDNN (CMake did not find cudnn_frontend.h and cudnn.h)";
  }
  if (version == 0) return "libcudnn.so.9 was not found (OCTET_CUDNN_DIR names its folder)";
  if (version < kOldest) {
    return text("needs cuDNN ", version_text(kOldest), " or newer, found ", version_text(version));
  }
  return "";
}

std::string refuse_dtypes(const AttentionProblem& problem) {
  if (problem.dtype == Dtype::f32) return "q, k and v are f32; bf16 and f16 are taken";
  if (*problem.out_dtype != problem.dtype) {
    return text("out must be ", name(problem.dtype), " as q is, not ", name(*problem.out_dtype));
  }
  return "";
}

std::string refuse_extents(const AttentionProblem& problem) {
  for (const std::int64_t dim : {problem.dim_qk, problem.dim_v}) {
    if (dim % 8 != 0 || dim > kMostHeadDim) {
      return text("heads must have a multiple of 8 features, at most ", kMostHeadDim, ", got ",
                  dim);
    }
  }
  if (problem.batch == 0 || problem.seq_q == 0 || problem.seq_kv == 0) {
    return "there are no queries or no keys";
  }
  constexpr std::int64_t kLargest = (std::int64_t{1} << 31) - 1;
  if (problem.batch > kLargest || problem.heads_q > kLargest || problem.seq_q > kLargest ||
      problem.seq_kv > kLargest) {
    return "batch, heads and sequences must be below 2^31";
  }
  return "";
}

// Without the limits that no pair of query and key reaches.
AttentionMask reached_mask(const AttentionProblem& problem) {
  AttentionMask mask = problem.mask;
  for (std::int64_t* limit : {&mask.left, &mask.right}) {
    if (*limit >= problem.seq_q + problem.seq_kv) *limit = kNoWindow;
  }
  return mask;
}

std::string refuse_mask(const AttentionProblem& problem) {
  const AttentionMask mask = reached_mask(problem);
  const SequenceMask visible(mask, problem.seq_q, problem.seq_kv);
  if (visible.keys_of(0).empty() || visible.keys_of(problem.seq_q - 1).empty()) {
    return "some queries see no key, which cuDNN does not define";
  }
  const bool is_shifted = mask.right != kNoWindow && mask.align == MaskAlignment::bottom_right;
  if ((mask.left != kNoWindow || is_shifted) && problem.seq_q > problem.seq_kv) {
    return "windows and bottom-right masks need at least as many keys as queries";
  }
  // Limits on one side were not tried; cuDNN 9.14.0 is wrong for one on the left alone.
  const bool is_causal = mask.left == kNoWindow && mask.right == 0;
  if (!is_causal && (mask.left == kNoWindow) != (mask.right == kNoWindow)) {
    return "masks are causal, or windows with a limit on both sides";
  }
  return "";
}

std::string refuse_forward(const AttentionProblem& problem, const Machine& machine) {
  std::string refusal = refuse_off_hopper(problem.device, machine);
  if (!refusal.empty()) return refusal;
  const int version = machine.cudnn_version();
  refusal = refuse_library(version);
  if (refusal.empty()) refusal = refuse_dtypes(problem);
  // Offsets: rows behind the last sequence, and queries without keys, are not written as promised.
  if (refusal.empty() && problem.offsets_dtype) refusal = "sequences with offsets are not taken";
  if (refusal.empty() && problem.sink && (version < 91300 || problem.seq_q == 1)) {
    refusal = "sinks need cuDNN 9.13 or newer and more than one query";
  }
  if (refusal.empty()) refusal = refuse_extents(problem);
  if (refusal.empty()) refusal = refuse_mask(problem);
  return refusal;
}

template <bool kDeterministic>
std::string refuse_backward(const AttentionProblem& problem, const Machine& machine) {
  std::string refusal = refuse_forward(problem, machine);
  if (refusal.empty() && problem.seq_q == 1 && problem.seq_kv == 1) {
    refusal = "one query and one key";
  }
  if (refusal.empty() && kDeterministic && problem.sink) {
    refusal = "cuDNN adds up dsink in no fixed order, so that its bits change from run to run";
  }
  return refusal;
}

// Both passes have the same text, so that a result has one.
std::string configuration(const Machine& machine, bool deterministic) {
  return text("version=", version_text(machine.cudnn_version()),
              deterministic ? " deterministic" : " nondeterministic");
}

AttentionProblem with_reached_mask(AttentionProblem problem) {
  problem.mask = reached_mask(problem);
  return problem;
}

template <bool kDeterministic>
Planned<AttentionForwardArgs> plan_forward(const AttentionProblem& problem,
                                           const Machine& machine) {
  Planned<AttentionForwardArgs> planned;
  if (cuda::pretended() == nullptr) planned = cudnn_forward_plan(with_reached_mask(problem));
  planned.configuration = configuration(machine, kDeterministic);
  return planned;
}

template <bool kDeterministic>
Planned<AttentionBackwardArgs> plan_backward(const AttentionProblem& problem,
                                             const Machine& machine) {
  Planned<AttentionBackwardArgs> planned;
  if (cuda::pretended() == nullptr)
    planned = cudnn_backward_plan(with_reached_mask(problem), kDeterministic);
  planned.configuration = configuration(machine, kDeterministic);
  return planned;
}

constexpr const char* kNondeterministic = "cudnn_nondeterministic";

}  // namespace

constinit const AttentionForwardImplementation kAttentionForwardCudnn{"cudnn", refuse_forward,
                                                                      plan_forward<true>};
constinit const AttentionBackwardImplementation kAttentionBackwardCudnn{
    "cudnn", refuse_backward<true>, plan_backward<true>};
constinit const AttentionForwardImplementation kAttentionForwardCudnnNondeterministic{
    .name = kNondeterministic,
    .refuse = refuse_forward,
    .plan = plan_forward<false>,
    .only_forced = true};
constinit const AttentionBackwardImplementation kAttentionBackwardCudnnNondeterministic{
    .name = kNondeterministic,
    .refuse = refuse_backward<false>,
    .plan = plan_backward<false>,
    .only_forced = true};

}  // namespace octet
