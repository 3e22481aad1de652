#include "tool/options/op_options.hpp"

#include "tool/options/parse.hpp"

#include "cpu/threads.hpp"

#include <limits>

namespace octet::tool {
namespace {

using OptionalBlock = std::optional<BlockShape>;

// `otherwise`: the block if the option is not given.
OptionalBlock parse_optional_block(const std::string& option, const std::string& text,
                                   const OptionalBlock& otherwise) {
  if (text.empty()) return otherwise;
  if (text == "none") return std::nullopt;
  const auto block = parse_block(text);
  if (!block) refuse_usage("{} must be 1x128, 128x1, 128x128 or none, got \"{}\"", option, text);
  return block;
}

// `otherwise`: the block of a copy if its option is not given.
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

// `otherwise`: the default, as the help prints it.
void add_block_options(CLI::App& app, Fp8Options& options, const std::string& otherwise) {
  add_text(app, "--block", options.block, "1x128|128x1|128x128|none",
           "block per scale of the row-major copy, or none " + otherwise);
  add_text(app, "--transposed-block", options.transposed_block, "1x128|128x1|128x128|none",
           "block per scale of the transposed copy, or none " + otherwise);
  add_f32(app, "--amax-floor", options.amax_floor, "least amax of a block [default: 0]");
  add_flag(app, "--pow2-scales", options.pow2_scales, "round scales up to powers of two");
}

bool no_block_is_given(const Fp8Options& options) {
  return options.block.empty() && options.transposed_block.empty();
}

constexpr std::int64_t kMostFeatures = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kUsualHeadDim = 128;

// The option if given, else the value of the case, if any.
std::optional<std::int64_t> number_of(const std::optional<std::int64_t>& given,
                                      const ShapeCase& shape, const std::string& option) {
  const auto of_case = shape.options.find(option);
  if (given || of_case == shape.options.end()) return given;
  std::int64_t value = 0;
  if (!parse_whole(of_case->second, 0, kMostFeatures, value)) {
    refuse_usage("{}: {} must be a whole number, got \"{}\"", shape.name, option, of_case->second);
  }
  return value;
}

}  // namespace

void add_data_options(CLI::App& app, DataOptions& data) {
  add_whole(app, "--threads", data.threads, 0, kMaxThreads,
            "CPU threads; 0 for OCTET_NUM_THREADS, or every core [default: 0]");
  add_whole(app, "--seed", data.seed, 0, std::numeric_limits<std::int64_t>::max(),
            "seed of the data [default: 1]");
  add_choice(app, "--distribution", {"normal", "skewed"},
             "of the data; skewed is N(0,1) times 2^-3..2^3 per block [default: normal]",
             [&data](const std::string& name) {
               data.distribution = name == "skewed" ? Distribution::skewed : Distribution::normal;
             });
}

void add_cast_options(CLI::App& app, Fp8Options& options) {
  add_dtype(app, "--format", options.format, kFp8, "of the output [default: e4m3]");
  add_block_options(
      app, options,
      "[default: none if only the other is given; if neither is, 1x128 and 128x128 are "
      "both run]");
}

void add_fp8_options(CLI::App& app, Fp8Options& options, const std::string& format_help) {
  add_dtype(app, "--fp8", options.format, kFp8, format_help);
  add_block_options(app, options, "[default: 1x128]");
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

void add_norm_options(CLI::App& app, NormOptions& options, bool timed) {
  add_dtype(app, "--weight", options.weight, kFloats, "dtype of g [default: bf16]");
  add_f32(app, "--eps", options.eps, "added to the mean of the squares [default: 1e-6]");
  add_flag(app, "--one-plus-weight", options.one_plus_weight, "multiply by 1 + g");
  add_dtype(app, "--dg", options.dg, kFloats, "dtype of the gradient of g [default: f32]");
  if (!timed) add_flag(app, "--inference", options.inference, "write nothing for backward");
}

void add_rope_options(CLI::App& app, RopeOptions& options) {
  add_whole(app, "--head-dim", options.head_dim, 1, kMostFeatures,
            "features of a head [default: that of the case, or 128]");
  add_whole(app, "--heads", options.heads, 1, kMostFeatures, "heads of q, instead of --head-dim");
  add_whole(app, "--kv-heads", options.kv_heads, 0, kMostFeatures,
            "heads of k; 0 for no k [default: that of the case, or 0]");
  add_choice(app, "--style", options.style, {"rotate_half", "interleaved"},
             "which elements form a pair [default: rotate_half]");
  add_whole(app, "--rotary-dim", options.rotary_dim, 0, kMostFeatures,
            "features of a head that are rotated; 0 for all [default: 0]");
  add_whole(app, "--cache-rows", options.cache_rows, 0, kMostFeatures,
            "positions in the caches; 0 for S [default: 0]");
  add_flag(app, "--full-cache", options.full_cache, "caches that hold every value twice");
  add_dtype(app, "--cache", options.cache, kFloats, "dtype of the caches [default: f32]");
  add_dtype(app, "--positions", options.positions, {Dtype::i32, Dtype::i64},
            "pass a position for every token, in this dtype");
}

HeadCounts head_counts(const RopeOptions& options, const ShapeCase& shape) {
  const std::int64_t hidden = shape.extents[2];
  if (options.heads && options.head_dim) {
    refuse_usage("--heads {} and --head-dim {} say the same of the H of --shape: give one",
                 *options.heads, *options.head_dim);
  }
  if (options.heads && hidden % *options.heads != 0) {
    refuse_usage("the H of --shape must be a multiple of --heads {}, got {}", *options.heads,
                 hidden);
  }
  const std::int64_t head_dim =
      options.heads ? hidden / *options.heads
                    : number_of(options.head_dim, shape, "head-dim").value_or(kUsualHeadDim);
  if (hidden % head_dim != 0) {
    refuse_usage("the H of --shape must be a multiple of --head-dim {}, got {}", head_dim, hidden);
  }
  return {hidden / head_dim, number_of(options.kv_heads, shape, "kv-heads").value_or(0), head_dim};
}

Rotation rotation(const RopeOptions& options) {
  Rotation result;
  if (options.style == "interleaved") result.style = RopeStyle::interleaved;
  result.rotary_dim = options.rotary_dim;
  result.cache_rows = options.cache_rows;
  result.full_cache = options.full_cache;
  result.cache_dtype = options.cache.value_or(Dtype::f32);
  result.positions_dtype = options.positions;
  return result;
}

void add_gate_activation(CLI::App& app, std::string& value) {
  add_choice(app, "--activation", value, {"silu", "gelu_tanh", "gelu_erf", "relu_squared"},
             "activation of the gate [default: that of the case, or silu]");
}

GateActivation chosen_activation(const std::string& given, const ShapeCase& shape) {
  const auto of_case = shape.options.find("activation");
  const std::string name = !given.empty()                   ? given
                           : of_case != shape.options.end() ? of_case->second
                                                            : "silu";
  const auto activation = parse_gate_activation(name);
  if (!activation) refuse_usage("{}: there is no activation \"{}\"", shape.name, name);
  return *activation;
}

}  // namespace octet::tool
