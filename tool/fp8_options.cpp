#include "fp8_options.hpp"

#include "data_options.hpp"

namespace octet::tool {
namespace {

std::optional<BlockShape> parse_optional_block(const std::string& option, const std::string& text) {
  if (text.empty() || text == "none") return std::nullopt;
  const auto block = parse_block(text);
  if (!block) refuse_usage("{} must be 1x128, 128x1, 128x128 or none, got \"{}\"", option, text);
  return block;
}

}  // namespace

void add_fp8_options(CLI::App& app, Fp8Options& options, const std::string& format_name,
                     const std::string& format_help) {
  add_dtype(app, format_name, options.format, kFp8, format_help);
  add_text(app, "--block", options.block, "1x128|128x1|128x128|none",
           "that shares a scale in the copy as it stands");
  add_text(app, "--transposed-block", options.transposed_block, "1x128|128x1|128x128|none",
           "that shares a scale in the transposed copy");
  add_real(app, "--amax-floor", options.amax_floor, "least amax of a block; 0");
  add_flag(app, "--pow2-scales", options.pow2_scales, "round scales up to powers of two");
}

Fp8Output fp8_output(const Fp8Options& options) {
  Fp8Output fp8;
  fp8.format = options.format.value_or(Dtype::e4m3);
  if (!options.block.empty() || !options.transposed_block.empty()) {
    fp8.block = parse_optional_block("--block", options.block);
    fp8.transposed_block = parse_optional_block("--transposed-block", options.transposed_block);
  }
  fp8.amax_floor = static_cast<float>(options.amax_floor.value_or(0));
  fp8.pow2_scales = options.pow2_scales;
  return fp8;
}

std::optional<Fp8Output> wanted_fp8(const Fp8Options& options) {
  if (options.format) return fp8_output(options);
  if (!options.block.empty() || !options.transposed_block.empty() || options.amax_floor ||
      options.pow2_scales) {
    refuse_usage("--block, --transposed-block, --amax-floor and --pow2-scales go with --fp8");
  }
  return std::nullopt;
}

}  // namespace octet::tool
