// Launches the Hopper quantiser.
#include "ops/quantize/cuda_sm90_tile.cuh"

#include "core/checks.hpp"
#include "device/launch.hpp"
#include "device/scope.hpp"
#include "ops/quantize/cuda_sm90_tile.hpp"

namespace octet {
namespace {

using sm90::QuantizedCopy;
using sm90::QuantizeParams;
using sm90::ScaleKind;

QuantizedCopy copy_of(const std::optional<BlockShape>& block, const QuantizedView& view) {
  QuantizedCopy copy{};
  if (!block) return copy;
  copy.kind = *block == kBlock128x128 ? ScaleKind::square : ScaleKind::lines;
  copy.values = static_cast<std::uint8_t*>(view.values.data);
  copy.pitch = view.values.strides[0];
  copy.scales = static_cast<float*>(view.scales.data);
  copy.scale_strides[0] = view.scales.strides[0];
  copy.scale_strides[1] = view.scales.strides[1];
  copy.owns_padding = view.owns_padding;
  copy.scale_pitch =
      copy.kind == ScaleKind::lines ? view.scales.strides[1] : view.scales.strides[0];
  return copy;
}

using Kernel = void (*)(QuantizeParams);

template <class Input>
Kernel kernel_of(Dtype format) {
  return format == Dtype::e5m2 ? sm90::quantize_kernel<Input, true>
                               : sm90::quantize_kernel<Input, false>;
}

Kernel kernel_of(Dtype input, Dtype format) {
  switch (input) {
    case Dtype::bf16: return kernel_of<sm90::Bf16>(format);
    case Dtype::f16: return kernel_of<sm90::F16>(format);
    default: return kernel_of<sm90::F32>(format);
  }
}

}  // namespace

void launch_sm90_tile(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  QuantizeParams params{};
  params.input = args.input.data;
  params.pitch = args.input.strides[0];
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.tiles_across = ceil_div(problem.cols, kBlock);
  const int bytes = size_bytes(problem.input);
  params.aligned = reinterpret_cast<std::uintptr_t>(args.input.data) % 16 == 0 &&
                   (problem.rows == 1 || params.pitch * bytes % 16 == 0);
  params.limit = fp8_format(problem.format).limit;
  params.amax_floor = problem.amax_floor;
  params.pow2_scales = problem.pow2_scales;
  params.out = copy_of(problem.block, args.out);
  params.transposed = copy_of(problem.transposed_block, args.transposed);

  const auto blocks = static_cast<unsigned>(ceil_div(problem.rows, kBlock) * params.tiles_across);
  const Kernel kernel = kernel_of(problem.input, problem.format);
  void* arguments[] = {&params};
  cuda::launch({reinterpret_cast<const void*>(kernel), "launch of cuda_sm90_tile", blocks,
                sm90::kQuantizeThreads, 0, static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
