// The options that say which layers, in which precision, on which data: the same for bench and
// check.
#pragma once

#include "tool/cases/cases.hpp"
#include "tool/options/options.hpp"

namespace octet::tool {

struct GemmOptions {
  std::string dtype = "fp8";              // fp8, bf16, f16
  std::string granularity = "blockwise";  // of fp8
  std::vector<std::string> shapes;
  std::vector<std::string> models;
  std::vector<std::int64_t> mbs;
  std::string suite;
  std::string backend;
  std::string quantize_backend;
  std::optional<Device> device;
  std::int64_t threads = 0;
  std::optional<Dtype> input;
  std::optional<Dtype> format;
  std::optional<Dtype> grad_format;
  std::string wgrad_blocks = "1d";
  std::optional<Dtype> dw;
  bool accumulate_dw = false;
  std::optional<float> amax_floor;
  bool pow2_scales = false;
  std::string distribution = "normal";
  std::int64_t seed = 1;
};

void add_gemm_options(CLI::App& app, GemmOptions& options);

// What --shape, --suite, --model and --mbs name; the quick suite where none is given.
std::vector<LayerCase> chosen_cases(const GemmOptions& options);

}  // namespace octet::tool
