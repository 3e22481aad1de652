#include "bench/inputs.hpp"

#include "bench/host.hpp"
#include "dispatch/machine.hpp"

#include <algorithm>
#include <cstring>

namespace octet::bench {
namespace {

LayerInputs allocate(const LayerShape& shape, Dtype dtype) {
  return {Tensor(dtype, {shape.m, shape.k}), Tensor(dtype, {shape.n, shape.k}),
          Tensor(dtype, {shape.m, shape.n})};
}

void copy(const Tensor& from, const Tensor& to) {
  std::memcpy(to.data(), from.data(), from.bytes());
}

}  // namespace

std::int64_t input_set_count(std::size_t set_bytes, std::size_t cache_bytes, std::int64_t uses) {
  const std::size_t wanted_bytes = 2 * cache_bytes;
  if (set_bytes == 0 || set_bytes >= wanted_bytes) return 1;
  const auto sets = static_cast<std::int64_t>((wanted_bytes + set_bytes - 1) / set_bytes);
  return std::clamp<std::int64_t>(sets, 1, std::max<std::int64_t>(uses, 1));
}

std::vector<LayerInputs> make_layer_inputs(const LayerShape& shape, Dtype dtype,
                                           const WorkloadOptions& options, std::int64_t uses) {
  std::vector<LayerInputs> sets;
  sets.push_back(allocate(shape, dtype));
  const int threads = this_machine(kCpu, options.threads).threads;
  const Tensor* tensors[] = {&sets[0].x, &sets[0].w, &sets[0].dy};
  std::size_t set_bytes = 0;
  for (std::uint32_t stream = 0; stream < 3; ++stream) {
    fill_random(*tensors[stream], options.distribution, {options.seed, stream}, threads);
    set_bytes += tensors[stream]->bytes();
  }
  const std::int64_t count = input_set_count(set_bytes, last_level_cache_bytes(), uses);
  sets.reserve(static_cast<std::size_t>(count));
  while (static_cast<std::int64_t>(sets.size()) < count) {
    sets.push_back(allocate(shape, dtype));
    copy(sets[0].x, sets.back().x);
    copy(sets[0].w, sets.back().w);
    copy(sets[0].dy, sets.back().dy);
  }
  return sets;
}

}  // namespace octet::bench
