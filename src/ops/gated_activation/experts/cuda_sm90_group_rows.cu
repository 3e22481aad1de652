// gated_activation over groups on Hopper in 16 or 32 bits: the rows of cuda_sm90_vectors.cuh up to
// the end of the last group, which only the device knows. Rows behind it become zeros, or stay.
#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"
#include "ops/gated_activation/cuda_sm90_vectors.cuh"
#include "ops/gated_activation/problem.hpp"
#include "ops/quantize/experts/cuda_sm90_groups.cuh"

namespace octet {
namespace sm90 {

struct GatedGroupRowsParams {
  GatedParams rows;
  const int4* table;
  std::int32_t groups;
  bool clear_tail;
  bool whole;  // rows start on 16-byte boundaries and are a multiple of eight long
};

// Calls body(whole or ragged rows).
template <class Body>
__device__ __forceinline__ void with_rows(bool whole, const Body& body) {
  if (whole) {
    body(Constant<Rows::whole>());
  } else {
    body(Constant<Rows::ragged>());
  }
}

__device__ __forceinline__ std::int32_t grouped_rows_of(const GatedGroupRowsParams& params) {
  return grouped_rows_of(params.table, params.groups, static_cast<std::int32_t>(params.rows.rows));
}

// Whether a row behind the last group is to be cleared; not if the table is not one of these rows.
__device__ __forceinline__ bool clears(const GatedGroupRowsParams& params,
                                       std::int32_t grouped_rows) {
  return params.clear_tail && grouped_rows >= 0;
}

template <Dtype kDtype>
__global__ __launch_bounds__(kGatedThreads) void gated_forward_group_rows_kernel(
    const __grid_constant__ GatedGroupRowsParams params) {
  const GatedParams& all = params.rows;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(all.runs);
  const int run = static_cast<int>(blockIdx.x % static_cast<unsigned>(all.runs));
  const int col = (run * kGatedThreads + static_cast<int>(threadIdx.x)) * kEight;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  if (col >= all.cols) return;
  const std::int32_t grouped_rows = grouped_rows_of(params);
  with_rows(params.whole, [&](auto rows) {
    constexpr Rows kRows = decltype(rows)::value;
    if (row < grouped_rows) {
      write_output<kDtype, kRows>(all, row, col);
    } else if (clears(params, grouped_rows)) {
      store_row<kRows>(all.y, row, col, all.cols, Eight<kDtype>{});
    }
  });
}

template <Dtype kDtype>
__global__ __launch_bounds__(kGatedThreads) void gated_backward_group_rows_kernel(
    const __grid_constant__ GatedGroupRowsParams params) {
  const GatedParams& all = params.rows;
  const auto blocks_of_row = static_cast<unsigned>(all.runs / all.block_runs);
  const std::int64_t row = blockIdx.x / blocks_of_row;
  const int first_run = static_cast<int>(blockIdx.x % blocks_of_row) * all.block_runs;
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const std::int32_t grouped_rows = grouped_rows_of(params);
  const bool grouped = row < grouped_rows;
  if (!grouped && !clears(params, grouped_rows)) return;
  const RowWeight weight{grouped && all.row_weight != nullptr ? all.row_weight + row : nullptr};
  float total = 0;
  for (int run = first_run; run < first_run + all.block_runs; ++run) {
    const int col = (run * kGatedThreads + static_cast<int>(threadIdx.x)) * kEight;
    if (col >= all.cols) break;
    with_rows(params.whole, [&](auto rows) {
      constexpr Rows kRows = decltype(rows)::value;
      if (grouped) {
        write_gradients<kDtype, kRows>(all, row, col, weight, total);
      } else {
        store_row<kRows>(all.dgate, row, col, all.cols, Eight<kDtype>{});
        store_row<kRows>(all.dup, row, col, all.cols, Eight<kDtype>{});
      }
    });
  }
  if (all.d_row_weight == nullptr) return;
  total = sum_of_block(total);
  if (threadIdx.x == 0) all.d_row_weight[row] = total;
}

}  // namespace sm90

namespace {

using sm90::GatedGroupRowsParams;

using Kernel = void (*)(GatedGroupRowsParams);

template <Dtype kDtype>
Kernel kernel_of(bool backward) {
  return backward ? sm90::gated_backward_group_rows_kernel<kDtype>
                  : sm90::gated_forward_group_rows_kernel<kDtype>;
}

Kernel kernel_of(Dtype dtype, bool backward) {
  switch (dtype) {
    case Dtype::bf16: return kernel_of<Dtype::bf16>(backward);
    case Dtype::f16: return kernel_of<Dtype::f16>(backward);
    default: return kernel_of<Dtype::f32>(backward);
  }
}

template <class Args>
GatedGroupRowsParams params_of(const GatedActivationProblem& problem, const Args& args) {
  GatedGroupRowsParams params{};
  params.table = static_cast<const int4*>(args.table.data);
  params.groups = static_cast<std::int32_t>(problem.groups);
  params.clear_tail = problem.tail == GroupTail::zero;
  sm90::GatedParams& rows = params.rows;
  rows.gate = cuda::matrix_of(args.gate);
  rows.up = cuda::matrix_of(args.up);
  rows.row_weight = problem.row_weight ? static_cast<const float*>(args.row_weight.data) : nullptr;
  rows.rows = problem.rows;
  rows.cols = static_cast<int>(problem.cols);
  rows.runs = static_cast<int>(ceil_div(problem.cols, sm90::kGatedThreads * sm90::kEight));
  rows.block_runs = 1;
  rows.activation = problem.activation;
  return params;
}

void launch(const GatedActivationProblem& problem, GatedGroupRowsParams& params, bool aligned,
            bool backward, void* stream) {
  params.whole = aligned && problem.cols % sm90::kEight == 0;
  const std::int64_t blocks_of_row = params.rows.runs / params.rows.block_runs;
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel_of(problem.dtype, backward)),
                "launch of cuda_sm90_vectors", static_cast<unsigned>(problem.rows * blocks_of_row),
                sm90::kGatedThreads, 0, static_cast<cudaStream_t>(stream)},
               arguments);
}

}  // namespace

void launch_sm90_gated_group_rows(const GatedActivationProblem& problem,
                                  const GatedActivationForwardArgs& args,
                                  const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  GatedGroupRowsParams params = params_of(problem, args);
  params.rows.y = cuda::matrix_of(args.y);
  launch(problem, params, cuda::are_aligned16({args.gate, args.up, args.y}), false, context.stream);
}

void launch_sm90_gated_group_rows(const GatedActivationProblem& problem,
                                  const GatedActivationBackwardArgs& args,
                                  const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  GatedGroupRowsParams params = params_of(problem, args);
  sm90::GatedParams& rows = params.rows;
  rows.dy = cuda::matrix_of(args.dy);
  rows.dgate = cuda::matrix_of(args.dgate);
  rows.dup = cuda::matrix_of(args.dup);
  if (problem.row_weight) {
    rows.d_row_weight = static_cast<float*>(args.d_row_weight.data);
    rows.block_runs = rows.runs;
  }
  launch(problem, params, cuda::are_aligned16({args.gate, args.up, args.dy, args.dgate, args.dup}),
         true, context.stream);
}

}  // namespace octet
