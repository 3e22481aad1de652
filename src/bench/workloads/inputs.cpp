#include "bench/workloads/inputs.hpp"

#include "bench/workloads/memory.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"

namespace octet::bench {
namespace {

LayerInputs allocate(const LayerShape& shape, Dtype dtype, Device device) {
  return {Tensor(dtype, {shape.m, shape.k}, device), Tensor(dtype, {shape.n, shape.k}, device),
          Tensor(dtype, {shape.m, shape.n}, device)};
}

void copy(const Tensor& from, const Tensor& to) {
  copy_bytes(to.data(), from.data(), from.bytes(), from.view().device);
}

}  // namespace

void fill_input(const TensorView& matrix, const WorkloadOptions& options, std::uint32_t stream) {
  fill_random(matrix, options.distribution, {options.seed, stream},
              this_machine(kCpu, options.threads).threads);
  if (matrix.device.type == DeviceType::cuda) cuda::synchronize(matrix.device.index);
}

std::size_t LayerInputs::bytes(const LayerShape& shape, Dtype dtype) {
  return tensor_bytes(dtype, {shape.m, shape.k}) + tensor_bytes(dtype, {shape.n, shape.k}) +
         tensor_bytes(dtype, {shape.m, shape.n});
}

std::vector<LayerInputs> make_layer_inputs(const LayerShape& shape, Dtype dtype, Device device,
                                           const WorkloadOptions& options, std::int64_t count) {
  std::vector<LayerInputs> sets;
  sets.reserve(static_cast<std::size_t>(count));
  sets.push_back(allocate(shape, dtype, device));
  fill_input(sets[0].x, options, 0);
  fill_input(sets[0].w, options, 1);
  fill_input(sets[0].dy, options, 2);
  while (static_cast<std::int64_t>(sets.size()) < count) {
    sets.push_back(allocate(shape, dtype, device));
    copy(sets[0].x, sets.back().x);
    copy(sets[0].w, sets.back().w);
    copy(sets[0].dy, sets.back().dy);
  }
  return sets;
}

}  // namespace octet::bench
