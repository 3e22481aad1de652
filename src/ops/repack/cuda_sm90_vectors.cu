// Launches the Hopper kernels of repack.
#include "ops/repack/cuda_sm90_vectors.cuh"
#include "ops/repack/problem.hpp"

#include "core/checks.hpp"
#include "core/footprint.hpp"
#include "device/cuda/launch.hpp"

#include <algorithm>
#include <limits>

namespace octet {
namespace {

using sm90::RepackParams;
using sm90::RepackSource;

RepackSource source_of(const TensorView& values) {
  if (values.cols() == 1 || values.strides[1] == 1) return RepackSource::rows;
  return values.rows() == 1 || values.strides[0] == 1 ? RepackSource::columns
                                                      : RepackSource::elements;
}

sm90::RepackValues values_of(const TensorView& from, const QuantizedView& out,
                             RepackSource source) {
  const TensorView& to = out.values;
  sm90::RepackValues values{};
  values.from = static_cast<const std::uint8_t*>(from.data);
  values.strides[0] = from.strides[0];
  values.strides[1] = from.strides[1];
  values.to = static_cast<std::uint8_t*>(to.data);
  values.pitch = to.strides[0];
  values.rows = to.rows();
  values.cols = to.cols();
  values.width = out.owns_padding ? std::max(to.strides[0], to.cols()) : to.cols();
  values.tiles_across = ceil_div(values.width, tile_bytes(source));
  values.tiles = values.tiles_across * ceil_div(values.rows, tile_rows(source));
  return values;
}

sm90::RepackScales scales_of(const TensorView& from, const QuantizedView& out) {
  const TensorView& to = out.scales;
  const auto [along, across] = scale_lines(to);
  sm90::RepackScales scales{};
  scales.from = from.data;
  scales.to = to.data;
  scales.from_strides[0] = from.strides[across];
  scales.from_strides[1] = from.strides[along];
  scales.to_strides[0] = to.strides[across];
  scales.to_strides[1] = to.strides[along];
  scales.length = to.shape[along];
  scales.span = out.owns_padding ? std::max(to.strides[across], scales.length) : scales.length;
  scales.count = scales.span * to.shape[across];
  scales.are_ue8m0 = to.dtype == Dtype::ue8m0;
  return scales;
}

const void* kernel_of(RepackSource source) {
  switch (source) {
    case RepackSource::rows:
      return reinterpret_cast<const void*>(sm90::repack_kernel<RepackSource::rows>);
    case RepackSource::columns:
      return reinterpret_cast<const void*>(sm90::repack_kernel<RepackSource::columns>);
    default: return reinterpret_cast<const void*>(sm90::repack_kernel<RepackSource::elements>);
  }
}

}  // namespace

void launch_sm90_repack(const RepackProblem& problem, const RepackArgs& args,
                        const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  const RepackSource source = source_of(args.input.values);
  RepackParams params{};
  params.values = values_of(args.input.values, args.out, source);
  params.scales = scales_of(args.input.scales, args.out);
  params.steps = params.values.tiles +
                 ceil_div(params.scales.count, sm90::kRepackThreads * sm90::kScalesOfThread);
  const std::int64_t blocks =
      std::min<std::int64_t>(params.steps, std::numeric_limits<std::int32_t>::max());
  void* arguments[] = {&params};
  cuda::launch({kernel_of(source), "launch of cuda_sm90_vectors", static_cast<unsigned>(blocks),
                sm90::kRepackThreads, 0, static_cast<cudaStream_t>(context.stream)},
               arguments);
}

}  // namespace octet
