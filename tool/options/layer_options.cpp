#include "tool/options/layer_options.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace octet::tool {

void LayerOptions::check_together() const {
  if (wgrad_blocks == "2d" && (granularity == "tensorwise" || granularity == "rowwise")) {
    refuse_usage("--wgrad-blocks 2d goes with --granularity blockwise or mxfp8, got {}",
                 granularity);
  }
  if (hybrid && grad_format.value_or(Dtype::e5m2) != Dtype::e5m2) {
    refuse_usage("--format hybrid has gradients in e5m2, got --grad-format {}", name(*grad_format));
  }
}

void LayerOptions::refuse_without_fp8(const std::string& dtype,
                                      std::vector<std::string> more) const {
  if (dtype == "fp8") return;
  std::vector<std::string> given = std::move(more);
  const auto add = [&](bool is_given, const char* option) {
    if (is_given) given.emplace_back(option);
  };
  add(input.has_value(), "--input");
  add(format.has_value(), "--format");
  add(grad_format.has_value(), "--grad-format");
  add(granularity != LayerOptions{}.granularity, "--granularity");
  add(wgrad_blocks != LayerOptions{}.wgrad_blocks, "--wgrad-blocks");
  add(amax_floor.has_value(), "--amax-floor");
  add(pow2_scales, "--pow2-scales");
  add(mx_scale != LayerOptions{}.mx_scale, "--mx-scale");
  add(fast_accumulation, "--fast-accumulation");
  if (given.empty()) return;
  refuse_usage("{} {} with --dtype fp8, got --dtype {}", fmt::join(given, ", "),
               given.size() == 1 ? "goes" : "go", dtype);
}

void add_layer_formats(CLI::App& app, LayerOptions& options, const LayerWords& words, Dtype usual,
                       Dtype usual_format, Dtype usual_grad_format) {
  add_dtype(app, "--input", options.input, kFloats,
            with_default(fmt::format("Data type of {}.", words.tensors), usual));
  add_choice(app, "--format", {"e4m3", "e5m2", "hybrid"},
             with_default(fmt::format("FP8 format of {}; hybrid is --format e4m3 --grad-format "
                                      "e5m2.",
                                      words.operands),
                          usual_format),
             [&options](const std::string& name) {
               options.hybrid = name == "hybrid";
               options.format = parse_dtype(options.hybrid ? "e4m3" : name);
             });
  add_dtype(app, "--grad-format", options.grad_format, kFp8,
            with_default(fmt::format("FP8 format of {}.", words.gradients), usual_grad_format));
  add_choice(app, "--wgrad-blocks", options.wgrad_blocks, {"1d", "2d"},
             fmt::format("Scale blocks of {}: 1x128 (1d) or 128x128 (2d).", words.transposed));
}

void add_weight_gradient(CLI::App& app, LayerOptions& options, const char* gradient, Dtype usual,
                         bool plain, const char* sum) {
  const std::string of_fp8(name(usual));
  add_dtype(app, "--dw", options.dw, kFloats,
            with_default(fmt::format("Data type of {}.", gradient),
                         plain ? of_fp8 + " for fp8, else that of --dtype" : of_fp8));
  add_flag(app, "--accumulate-dw", options.accumulate_dw,
           fmt::format("Add {} to {} instead of overwriting it.", gradient, sum));
}

void add_granularity(CLI::App& app, LayerOptions& options, const std::string& about) {
  add_choice(app, "--granularity", options.granularity,
             {"blockwise", "tensorwise", "rowwise", "mxfp8"}, about);
  add_mx_scale(app, options.mx_scale);
  add_flag(app, "--fast-accumulation", options.fast_accumulation,
           "Leave the sums of tensorwise and rowwise products in the tensor cores, which keep "
           "about 14 bits: on a GPU the gates fail from K near 13000.");
}

void add_max_multiprocessors(CLI::App& app, std::int32_t& max_multiprocessors) {
  add_whole(app, "--max-multiprocessors", max_multiprocessors, 0,
            std::numeric_limits<std::int32_t>::max(),
            with_default("Multiprocessors that octet's products may take on a GPU.", "all"));
}

}  // namespace octet::tool
