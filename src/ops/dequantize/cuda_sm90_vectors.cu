// Launches the Hopper kernels of dequantize.
#include "ops/dequantize/cuda_sm90_vectors.cuh"
#include "ops/dequantize/problem.hpp"

#include "device/cuda/launch.hpp"
#include "device/rows/launch.hpp"

namespace octet {
namespace {

using sm90::DequantizeParams;

using Kernel = void (*)(DequantizeParams);

// log2 of the rows or columns of a block; beyond every index for kAll.
int block_log2(std::int64_t block) { return block == kAll ? 62 : cuda::log2_up(block); }

DequantizeParams params_of(const DequantizeProblem& problem, const DequantizeArgs& args) {
  const TensorView& values = args.input.values;
  const TensorView& scales = args.input.scales;
  DequantizeParams params{};
  params.codes = {static_cast<const std::uint8_t*>(values.data), values.strides[0],
                  values.strides[1]};
  params.scales = {scales.data,
                   scales.dtype == Dtype::ue8m0,
                   {scales.strides[0], scales.strides[1]},
                   block_log2(problem.block.rows),
                   block_log2(problem.block.cols)};
  params.out = cuda::matrix_of(args.out);
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.tiles_across = static_cast<unsigned>(ceil_div(problem.cols, kDequantizeTileCols));
  return params;
}

// Whether every eight codes of a row, and their results, are aligned to their size.
bool has_vectors(const DequantizeArgs& args) {
  const TensorView& values = args.input.values;
  const auto address = reinterpret_cast<std::uintptr_t>(values.data);
  const std::int64_t pitch = values.rows() > 1 ? values.strides[0] : 0;
  return (values.cols() == 1 || values.strides[1] == 1) && address % 8 == 0 && pitch % 8 == 0 &&
         cuda::is_aligned16(args.out);
}

template <Dtype kOut>
Kernel vectors_kernel(Dtype format) {
  return format == Dtype::e5m2 ? sm90::dequantize_vectors_kernel<kOut, Dtype::e5m2>
                               : sm90::dequantize_vectors_kernel<kOut, Dtype::e4m3>;
}

Kernel kernel_of(const DequantizeProblem& problem, const DequantizeArgs& args) {
  if (!has_vectors(args)) {
    return problem.format == Dtype::e5m2 ? sm90::dequantize_elements_kernel<Dtype::e5m2>
                                         : sm90::dequantize_elements_kernel<Dtype::e4m3>;
  }
  switch (problem.out_dtype) {
    case Dtype::bf16: return vectors_kernel<Dtype::bf16>(problem.format);
    case Dtype::f16: return vectors_kernel<Dtype::f16>(problem.format);
    default: return vectors_kernel<Dtype::f32>(problem.format);
  }
}

}  // namespace

void launch_sm90_dequantize(const DequantizeProblem& problem, const DequantizeArgs& args,
                            const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  DequantizeParams params = params_of(problem, args);
  params.out_dtype = problem.out_dtype;
  const std::int64_t blocks = ceil_div(problem.rows, kDequantizeTileRows) * params.tiles_across;
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel_of(problem, args)),
                "launch of cuda_sm90_vectors", static_cast<unsigned>(blocks),
                sm90::kDequantizeThreads, 0, static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
