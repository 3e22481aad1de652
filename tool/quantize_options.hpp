// The options that say which casts, of which tensors: the same for bench and check.
#pragma once

#include "options.hpp"

#include "bench/inputs.hpp"

#include <octet/ops/quantize.hpp>

namespace octet::tool {

struct QuantizeOptions {
  std::vector<std::string> shapes;
  std::optional<Dtype> dtype;
  std::optional<Dtype> format;
  std::string block;  // empty: not given; "none": no copy in the input's orientation
  std::string transposed_block;
  std::optional<double> amax_floor;
  bool pow2_scales = false;
  std::string backend;
  std::optional<Device> device;
  std::int64_t threads = 0;
  std::int64_t seed = 1;
  std::string distribution = "normal";
};

void add_quantize_options(CLI::App& app, QuantizeOptions& options);

// Every shape with the blocks given; without shapes and blocks, activations in both directions
// ("dual") and weights in 128x128, some sizes each. On the device of the options or else on the
// first GPU whose implementations take all of them, or else on the CPU.
std::vector<QuantizeProblem> chosen_problems(const QuantizeOptions& options);

bench::WorkloadOptions data_options(const QuantizeOptions& options);
std::string data_arguments(const QuantizeOptions& options);

}  // namespace octet::tool
