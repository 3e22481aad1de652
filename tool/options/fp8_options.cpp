#include "tool/options/fp8_options.hpp"

#include "tool/options/data_options.hpp"

namespace octet::tool {
namespace {

using OptionalBlock = std::optional<BlockShape>;

// `otherwise`: where the option is not given.
OptionalBlock parse_optional_block(const std::string& option, const std::string& text,
                                   const OptionalBlock& otherwise) {
  if (text.empty()) return otherwise;
  if (text == "none") return std::nullopt;
  const auto block = parse_block(text);
  if (!block) refuse_usage("{} must be 1x128, 128x1, 128x128 or none, got \"{}\"", option, text);
  return block;
}

// `otherwise`: of a copy whose block is not given.
Fp8Output fp8_output(const Fp8Options& options, const OptionalBlock& otherwise) {
  Fp8Output fp8;
  fp8.format = options.format.value_or(Dtype::e4m3);
  fp8.block = parse_optional_block("--block", options.block, otherwise);
  fp8.transposed_block =
      parse_optional_block("--transposed-block", options.transposed_block, otherwise);
  if (!fp8.block && !fp8.transposed_block) {
    refuse_usage(
        "--block or --transposed-block must be 1x128, 128x1 or 128x128, got {}: there is nothing "
        "to write",
        options.block.empty()              ? "--transposed-block none"
        : options.transposed_block.empty() ? "--block none"
                                           : "none for both");
  }
  fp8.amax_floor = options.amax_floor.value_or(0);
  fp8.pow2_scales = options.pow2_scales;
  return fp8;
}

void add_block_options(CLI::App& app, Fp8Options& options, const std::string& otherwise) {
  add_text(app, "--block", options.block, "1x128|128x1|128x128|none",
           "that shares a scale in the copy as it stands; " + otherwise);
  add_text(app, "--transposed-block", options.transposed_block, "1x128|128x1|128x128|none",
           "that shares a scale in the transposed copy; " + otherwise);
  add_f32(app, "--amax-floor", options.amax_floor, "least amax of a block; 0");
  add_flag(app, "--pow2-scales", options.pow2_scales, "round scales up to powers of two");
}

bool no_block_is_given(const Fp8Options& options) {
  return options.block.empty() && options.transposed_block.empty();
}

}  // namespace

void add_cast_options(CLI::App& app, Fp8Options& options) {
  add_dtype(app, "--format", options.format, kFp8, "of the output; e4m3");
  add_block_options(app, options,
                    "none where the other is given, else 1x128 and then 128x128 for both");
}

void add_fp8_options(CLI::App& app, Fp8Options& options, const std::string& format_help) {
  add_dtype(app, "--fp8", options.format, kFp8, format_help);
  add_block_options(app, options, "1x128");
}

Fp8Output cast_output(const Fp8Options& options) {
  return fp8_output(options,
                    no_block_is_given(options) ? OptionalBlock(kBlock1x128) : std::nullopt);
}

std::optional<Fp8Output> wanted_fp8(const Fp8Options& options) {
  if (options.format) return fp8_output(options, kBlock1x128);
  if (!no_block_is_given(options) || options.amax_floor || options.pow2_scales) {
    refuse_usage("--block, --transposed-block, --amax-floor and --pow2-scales go with --fp8");
  }
  return std::nullopt;
}

}  // namespace octet::tool
