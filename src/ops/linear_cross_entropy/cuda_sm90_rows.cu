// Launches the Hopper kernels of linear_cross_entropy.
#include "ops/linear_cross_entropy/cuda_sm90_rows.cuh"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"

namespace octet {
namespace {

template <class Params>
void launch_kernel(void (*kernel)(Params), Params params, std::int64_t blocks, int threads,
                   void* stream) {
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_rows",
                static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0,
                static_cast<cudaStream_t>(stream)},
               arguments);
}

void launch(const LossRowsProblem& problem, const LossOfRows& step, void* stream) {
  sm90::LossRowsParams params{};
  params.logits = cuda::matrix_of(step.logits);
  params.targets = sm90::integers_of(step.targets);
  params.loss = static_cast<float*>(step.loss.data);
  params.lse = static_cast<float*>(step.lse.data);
  params.given_lse = static_cast<const float*>(step.given_lse.data);
  params.row_grad = static_cast<const float*>(step.row_grad.data);
  params.totals = step.totals;
  params.ignore_index = problem.ignore_index;
  params.cols = static_cast<int>(problem.cols);
  params.gradient = step.gradient;
  const auto kernel = problem.dtype == Dtype::bf16  ? sm90::loss_rows_kernel<Dtype::bf16>
                      : problem.dtype == Dtype::f16 ? sm90::loss_rows_kernel<Dtype::f16>
                                                    : sm90::loss_rows_kernel<Dtype::f32>;
  launch_kernel(kernel, params, step.logits.rows(), sm90::kLossThreads, stream);
}

void launch(const LossRowsProblem& problem, const CountTargets& step, void* stream) {
  const sm90::CountParams params{sm90::integers_of(step.targets),
                                 step.targets.shape[0],
                                 problem.ignore_index,
                                 static_cast<const float*>(step.loss_grad.data),
                                 problem.reduction == LossReduction::mean,
                                 step.totals};
  launch_kernel(sm90::count_targets_kernel, params, 1, sm90::kLossThreads, stream);
}

void launch(const LossRowsProblem& problem, const SumLosses& step, void* stream) {
  const sm90::SumParams params{static_cast<const float*>(step.losses.data), step.losses.shape[0],
                               step.totals, problem.reduction == LossReduction::mean,
                               static_cast<float*>(step.loss.data)};
  launch_kernel(sm90::sum_losses_kernel, params, 1, sm90::kLossThreads, stream);
}

void launch(const LossRowsProblem&, const RoundGradient& step, void* stream) {
  const sm90::RoundParams params{static_cast<const float*>(step.sum.data), step.dw.data,
                                 step.dw.strides[0], step.sum.cols(), step.dw.dtype == Dtype::bf16};
  launch_kernel(sm90::round_gradient_kernel, params, step.sum.rows(), sm90::kRoundThreads, stream);
}

}  // namespace

void launch_sm90_loss_rows(const LossRowsProblem& problem, const LossRowsStep& step,
                           const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  std::visit([&](const auto& one) { launch(problem, one, context.stream); }, step);
}

}  // namespace octet
