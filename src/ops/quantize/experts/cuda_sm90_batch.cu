// FP8 copies of several matrices of one shape on Hopper, such as the weights of experts: the tile of
// the dense kernel, with the matrix in the number of the block.
#include "device/cuda/launch.hpp"
#include "device/ptx/barrier.cuh"
#include "device/rows/launch.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/experts/cuda_sm90_experts.cuh"
#include "ops/quantize/problem.hpp"

namespace octet {
namespace sm90 {

// From one matrix to the next.
struct BatchStrides {
  std::int64_t input;  // elements
  std::int64_t out;
  std::int64_t out_scales;
  std::int64_t transposed;
  std::int64_t transposed_scales;
};

struct QuantizeBatchParams {
  QuantizeParams first;  // the first matrix
  BatchStrides strides;
  unsigned tiles;  // of a matrix
};

// The copies of matrix `index`.
__device__ __forceinline__ QuantizeParams copies_of_matrix(const QuantizeBatchParams& params,
                                                           unsigned index) {
  QuantizeParams own = params.first;
  own.out.values += index * params.strides.out;
  own.out.scales += index * params.strides.out_scales;
  own.transposed.values += index * params.strides.transposed;
  own.transposed.scales += index * params.strides.transposed_scales;
  return own;
}

template <Dtype kDtype, bool kE5m2>
__global__ __launch_bounds__(kQuantizeThreads, kResidentBlocks<kDtype>) void quantize_batch_kernel(
    const __grid_constant__ QuantizeBatchParams params) {
  __shared__ QuantizeStorage shared;
  const QuantizeParams& first = params.first;
  unsigned matrix = blockIdx.x / params.tiles;
  const unsigned tile = blockIdx.x - matrix * params.tiles;
  const PatchPlace place(tile / first.tiles_across, tile % first.tiles_across);
  ptx::wait_for_earlier_kernels();
  ptx::let_next_kernel_start();
  const Matrix input{
      static_cast<char*>(first.input.data) + matrix * params.strides.input * kElementBytes<kDtype>,
      first.input.pitch};
  Patch<kDtype> patch;
  load_patch(patch, {input, first.rows, first.cols, first.aligned, is_inside(first, place)}, place);
  ptx::make_opaque(matrix);  // no addresses of copies before the loads: they spill
  quantize_patch<kE5m2>(shared, copies_of_matrix(params, matrix), patch, place);
}

}  // namespace sm90

namespace {

// The base, every row and every matrix start on 16-byte boundaries. The strides of single rows and
// matrices mean nothing.
bool is_aligned16(const TensorView& batch) {
  const std::int64_t bytes = size_bytes(batch.dtype);
  return reinterpret_cast<std::uintptr_t>(batch.data) % 16 == 0 &&
         (batch.shape[0] == 1 || batch.strides[0] * bytes % 16 == 0) &&
         (batch.shape[1] == 1 || batch.strides[1] * bytes % 16 == 0);
}

}  // namespace

void launch_sm90_batch(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  Fp8Copies copies;
  sm90::QuantizeBatchParams params{};
  params.strides.input = args.input.strides[0];
  if (problem.block) {
    copies.out = sm90::first_of(args.out);
    params.strides.out = args.out.values.strides[0];
    params.strides.out_scales = args.out.scales.strides[0];
  }
  if (problem.transposed_block) {
    copies.transposed = sm90::first_of(args.transposed);
    params.strides.transposed = args.transposed.values.strides[0];
    params.strides.transposed_scales = args.transposed.scales.strides[0];
  }
  params.first = sm90::copies_of(options_of(problem), copies, problem.rows, problem.cols);
  params.first.input = cuda::matrix_of(matrix_of(args.input, 0));
  params.first.aligned = is_aligned16(args.input);
  params.tiles = static_cast<unsigned>(ceil_div(problem.rows, kBlock)) * params.first.tiles_across;
  const auto kernel = sm90::with_cast(problem.input_dtype, problem.format, [](auto cast) {
    return &sm90::quantize_batch_kernel<decltype(cast)::kDtype, decltype(cast)::kE5m2>;
  });
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile",
                static_cast<unsigned>(problem.batch) * params.tiles, sm90::kQuantizeThreads, 0,
                static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
