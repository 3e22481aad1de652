// Launches the Hopper kernels of gated_activation in 16 and 32 bits.
#include "ops/gated_activation/cuda_sm90_vectors.cuh"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/gated_activation/problem.hpp"

namespace octet {
namespace {

using sm90::GatedParams;
using sm90::Rows;

using Kernel = void (*)(GatedParams);

template <Dtype kDtype>
Kernel kernel_of(bool whole, bool backward) {
  if (backward) {
    return whole ? sm90::gated_backward_kernel<kDtype, Rows::whole>
                 : sm90::gated_backward_kernel<kDtype, Rows::ragged>;
  }
  return whole ? sm90::gated_forward_kernel<kDtype, Rows::whole>
               : sm90::gated_forward_kernel<kDtype, Rows::ragged>;
}

Kernel kernel_of(Dtype dtype, bool whole, bool backward) {
  switch (dtype) {
    case Dtype::bf16: return kernel_of<Dtype::bf16>(whole, backward);
    case Dtype::f16: return kernel_of<Dtype::f16>(whole, backward);
    default: return kernel_of<Dtype::f32>(whole, backward);
  }
}

// The parameters that forward and backward share.
template <class Args>
GatedParams params_of(const GatedActivationProblem& problem, const Args& args) {
  GatedParams params{};
  params.gate = cuda::matrix_of(args.gate);
  params.up = cuda::matrix_of(args.up);
  params.row_weight =
      problem.row_weight ? static_cast<const float*>(args.row_weight.data) : nullptr;
  params.rows = problem.rows;
  params.cols = static_cast<int>(problem.cols);
  params.runs = static_cast<int>(ceil_div(problem.cols, sm90::kGatedThreads * sm90::kEight));
  params.block_runs = 1;
  params.activation = problem.activation;
  return params;
}

void launch(const GatedActivationProblem& problem, GatedParams& params, bool whole, bool backward,
            void* stream) {
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(
                    kernel_of(problem.dtype, whole && problem.cols % 8 == 0, backward)),
                "launch of cuda_sm90_vectors",
                static_cast<unsigned>(problem.rows * (params.runs / params.block_runs)),
                sm90::kGatedThreads, 0, static_cast<cudaStream_t>(stream)},
               arguments);
}

}  // namespace

void launch_sm90_gated_vectors(const GatedActivationProblem& problem,
                               const GatedActivationForwardArgs& args, const RunContext& context) {
  if (problem.rows == 0) return;
  const cuda::DeviceScope scope(problem.device.index);
  GatedParams params = params_of(problem, args);
  params.y = cuda::matrix_of(args.y);
  launch(problem, params, cuda::are_aligned16({args.gate, args.up, args.y}), false, context.stream);
}

void launch_sm90_gated_vectors(const GatedActivationProblem& problem,
                               const GatedActivationBackwardArgs& args, const RunContext& context) {
  if (problem.rows == 0) return;
  const cuda::DeviceScope scope(problem.device.index);
  GatedParams params = params_of(problem, args);
  params.dy = cuda::matrix_of(args.dy);
  params.dgate = cuda::matrix_of(args.dgate);
  params.dup = cuda::matrix_of(args.dup);
  if (problem.row_weight) {
    params.d_row_weight = static_cast<float*>(args.d_row_weight.data);
    params.block_runs = params.runs;
  }
  launch(problem, params, cuda::are_aligned16({args.gate, args.up, args.dy, args.dgate, args.dup}),
         true, context.stream);
}

}  // namespace octet
