// Row by row; a thread takes neighbouring rows. No workspace.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated_activation/cpu_simd.cpp"
#include "cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if OCTET_SIMD_TARGET
#include "ops/gated_activation/run_kernels-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

// f32, f16, bf16.
extern const GatedActivationKernels kGatedActivationKernels[3];
const GatedActivationKernels kGatedActivationKernels[3]{
    kernels_of<F32Pairs>(), kernels_of<F16Pairs>(), kernels_of<Bf16Pairs>()};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "core/checks.hpp"
#include "cpu/threads.hpp"
#include "ops/gated_activation/cpu_simd.hpp"
#include "ops/gated_activation/problem.hpp"

#include <hwy/cache_control.h>

#include <algorithm>

namespace octet {
namespace {

// Outputs beyond this are written past the caches: nobody will find them there anyway.
constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;
// What a thread takes at a time: enough to pay for the taking.
constexpr std::int64_t kTaskElements = std::int64_t{1} << 16;

void* at_row(const TensorView& matrix, std::int64_t row) {
  return static_cast<char*>(matrix.data) + row * matrix.strides[0] * size_bytes(matrix.dtype);
}

bool streams(const TensorView& out) {
  const auto address = reinterpret_cast<std::uintptr_t>(out.data);
  const std::int64_t element_bytes = size_bytes(out.dtype);
  return out.rows() * out.cols() * element_bytes >= kStreamBytes && address % 64 == 0 &&
         out.strides[0] * element_bytes % 64 == 0;
}

float weight_of(const TensorView& row_weight, std::int64_t row) {
  return row_weight.data == nullptr ? 1 : static_cast<const float*>(row_weight.data)[row];
}

// Calls work(row) for every row. What it streamed is in memory when this returns.
template <class Work>
void for_rows(const GatedActivationProblem& problem, int threads, bool streamed, const Work& work) {
  const std::int64_t rows = std::max<std::int64_t>(1, kTaskElements / problem.cols);
  parallel_for(threads, ceil_div(problem.rows, rows), [&](std::int64_t task) {
    const std::int64_t end = std::min((task + 1) * rows, problem.rows);
    for (std::int64_t row = task * rows; row < end; ++row) work(row);
    if (streamed) hwy::FlushStream();  // no later read of another thread may overtake them
  });
}

}  // namespace

const GatedActivationKernels& gated_activation_kernels(InstructionSet instructions, Dtype dtype) {
  const auto& kernels = instructions == InstructionSet::avx512 ? N_AVX3::kGatedActivationKernels
                                                               : N_AVX2::kGatedActivationKernels;
  return kernels[dtype == Dtype::f32 ? 0 : dtype == Dtype::f16 ? 1 : 2];
}

void gated_activation_cpu_simd(const GatedActivationProblem& problem,
                               const GatedActivationForwardArgs& args, int threads,
                               InstructionSet instructions) {
  const ForwardKernel kernel = gated_activation_kernels(instructions, problem.dtype)
                                   .forward[kernel_index(problem.activation)];
  const bool stream = streams(args.y);
  for_rows(problem, threads, stream, [&](std::int64_t row) {
    kernel({at_row(args.gate, row), at_row(args.up, row), at_row(args.y, row), problem.cols,
            weight_of(args.row_weight, row), stream});
  });
}

void gated_activation_cpu_simd(const GatedActivationProblem& problem,
                               const GatedActivationBackwardArgs& args, int threads,
                               InstructionSet instructions) {
  const BackwardKernel kernel = gated_activation_kernels(instructions, problem.dtype)
                                    .backward[kernel_index(problem.activation)];
  const bool stream = streams(args.dgate) && streams(args.dup);
  for_rows(problem, threads, stream, [&](std::int64_t row) {
    const float d_weight =
        kernel({at_row(args.dy, row), at_row(args.gate, row), at_row(args.up, row),
                at_row(args.dgate, row), at_row(args.dup, row), problem.cols,
                weight_of(args.row_weight, row), stream});
    if (problem.row_weight) static_cast<float*>(args.d_row_weight.data)[row] = d_weight;
  });
}

namespace {

std::string refuse(const GatedActivationProblem& problem, const Machine& machine) {
  const std::string refusal = refuse_off_cpu(problem.device);
  if (!refusal.empty()) return refusal;
  return problem.fp8 ? "it writes no fp8: unfused does, with it" : refuse_without_avx2(machine);
}
std::string configuration(const GatedActivationProblem&, const Machine& machine) {
  return text(name(best_instruction_set(machine)), " threads=", machine.threads);
}
std::size_t workspace_bytes(const GatedActivationProblem&, const Machine&) { return 0; }

template <class Args>
void run_simd(const GatedActivationProblem& problem, const Args& args, const RunContext& context) {
  gated_activation_cpu_simd(problem, args, context.threads, best_instruction_set());
}

}  // namespace

const GatedActivationForwardImplementation kGatedActivationForwardCpuSimd{
    "cpu_simd", refuse, configuration, workspace_bytes, run_simd<GatedActivationForwardArgs>,
};
const GatedActivationBackwardImplementation kGatedActivationBackwardCpuSimd{
    "cpu_simd", refuse, configuration, workspace_bytes, run_simd<GatedActivationBackwardArgs>,
};

}  // namespace octet
#endif
