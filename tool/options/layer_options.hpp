// Options of a layer of products that several operators have: dtypes, FP8 formats and scales, and what is left to others.
#pragma once

#include "tool/options/op_options.hpp"

#include <octet/ops/fp8_linear.hpp>

namespace octet::tool {

struct LayerOptions {
  std::optional<Dtype> input, format, grad_format, dw;
  bool hybrid = false;  // --format hybrid
  bool accumulate_dw = false;
  std::string granularity = "blockwise";
  std::string wgrad_blocks = "1d";
  std::string mx_scale = "floor";
  bool fast_accumulation = false;
  std::optional<float> amax_floor;
  bool pow2_scales = false;
  std::int32_t max_multiprocessors = 0;

  // Into the problem of a layer in `dtype`: fp8, or what tensors and products have.
  template <class Problem>
  void set(Problem& problem, const std::string& dtype) const {
    check_together();
    const bool fp8 = dtype == "fp8";
    problem.dtype = fp8 ? input.value_or(problem.dtype) : *parse_dtype(dtype);
    problem.dw_dtype = dw.value_or(fp8 ? problem.dw_dtype : problem.dtype);
    problem.accumulate_dw = accumulate_dw;
    problem.format = format.value_or(problem.format);
    problem.grad_format = grad_format.value_or(hybrid ? Dtype::e5m2 : problem.grad_format);
    problem.wgrad_blocks = wgrad_blocks == "2d" ? WgradBlocks::square : WgradBlocks::rows;
    problem.amax_floor = amax_floor.value_or(problem.amax_floor);
    problem.pow2_scales = pow2_scales;
    problem.max_multiprocessors = max_multiprocessors;
    if constexpr (requires { problem.granularity; }) {
      problem.granularity = parse_granularity(granularity).value_or(problem.granularity);
      problem.mx_scale = parse_mx_scale(mx_scale);
      problem.fast_accumulation = fast_accumulation;
    }
  }

  // Refuses the options that were given and only FP8 has, `more` of the operator's own among them: "--bias".
  void refuse_without_fp8(const std::string& dtype, std::vector<std::string> more = {}) const;

 private:
  void check_together() const;
};

// The words of an operator's help.
struct LayerWords {
  const char* tensors;               // that --input is for: "x, w, dy, y and dx of an FP8 layer"
  const char* operands = "x and w";  // in --format
  const char* gradients = "the output gradient dy";        // in --grad-format
  const char* transposed = "x^T for the weight gradient";  // that --wgrad-blocks cuts
};

// --input, --format, --grad-format and --wgrad-blocks, with the defaults of a problem.
void add_layer_formats(CLI::App& app, LayerOptions& options, const LayerWords& words, Dtype usual,
                       Dtype usual_format, Dtype usual_grad_format);
template <class Problem>
void add_layer_formats(CLI::App& app, LayerOptions& options, const LayerWords& words,
                       const Problem& usual) {
  add_layer_formats(app, options, words, usual.dtype, usual.format, usual.grad_format);
}
// --dw and --accumulate-dw. `gradient`: "the weight gradient"; `plain`: whether there are layers without FP8; `sum`: what
// it is added to.
void add_weight_gradient(CLI::App& app, LayerOptions& options, const char* gradient, Dtype usual,
                         bool plain = true, const char* sum = "dw");
// --granularity, whose help is `about`, --mx-scale and --fast-accumulation.
void add_granularity(CLI::App& app, LayerOptions& options, const std::string& about);
// --max-multiprocessors: what products leave to others on a GPU.
void add_max_multiprocessors(CLI::App& app, std::int32_t& max_multiprocessors);

}  // namespace octet::tool
