#include "tool/options/op_options.hpp"

#include "tool/options/parse.hpp"

#include "cpu/threads.hpp"

#include <octet/ops/rms_norm_rope.hpp>

#include <fmt/format.h>

#include <limits>

namespace octet::tool {
namespace {

constexpr const char* kFp8Group = "FP8 output";

using OptionalBlock = std::optional<BlockShape>;

// `otherwise`: the block if the option is not given.
OptionalBlock parse_optional_block(const std::string& option, const std::string& text,
                                   const OptionalBlock& otherwise) {
  if (text.empty()) return otherwise;
  if (text == "none") return std::nullopt;
  const auto block = parse_block(text);
  if (!block) {
    refuse_usage("{} must be a block such as 1x128, 128x128, 1xall or 1x32, or none, got \"{}\"",
                 option, text);
  }
  return block;
}

// `otherwise`: the block of a copy if its option is not given.
Fp8Output fp8_output(const Fp8Options& options, const OptionalBlock& otherwise) {
  Fp8Output fp8;
  fp8.format = options.format.value_or(fp8.format);
  fp8.block = parse_optional_block("--block", options.block, otherwise);
  fp8.transposed_block =
      parse_optional_block("--transposed-block", options.transposed_block, otherwise);
  if (!fp8.block && !fp8.transposed_block) {
    refuse_usage(
        "--block or --transposed-block must be a block such as 1x128, 128x128, 1xall or 1x32, got "
        "{}: there is nothing to write",
        options.block.empty()              ? "--transposed-block none"
        : options.transposed_block.empty() ? "--block none"
                                           : "none for both");
  }
  fp8.amax_floor = options.amax_floor.value_or(fp8.amax_floor);
  fp8.pow2_scales = options.pow2_scales;
  return fp8;
}

// `otherwise`: the default, as the help prints it.
void add_block_options(CLI::App& app, Fp8Options& options, const std::string& otherwise) {
  const std::string blocks = "1x128|128x1|128x128|1xall|allx1|allxall|1x32|32x32|none";
  add_text(app, "--block", options.block, blocks,
           with_default("Scale block of the row-major copy; none leaves it out.", otherwise));
  add_text(app, "--transposed-block", options.transposed_block, blocks,
           with_default("Scale block of the transposed copy; none leaves it out.", otherwise));
  add_scale_options(app, options.amax_floor, options.pow2_scales);
}

bool no_block_is_given(const Fp8Options& options) {
  return options.block.empty() && options.transposed_block.empty();
}

constexpr std::int64_t kMostFeatures = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kUsualHeadDim = 128;
constexpr std::int64_t kUsualKvHeads = 0;

// The default of an option that cases/<operator>.csv may set.
template <class Value>
std::string of_the_case(const Value& otherwise) {
  return fmt::format("that of the case, or {}", otherwise);
}

}  // namespace

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

void add_data_options(CLI::App& app, DataOptions& data) {
  add_whole(app, "--threads", data.threads, 0, kMaxThreads,
            fmt::format("CPU threads, at most {}; 0 takes OCTET_NUM_THREADS, or one per core.",
                        kMaxThreads));
  option_group(app, "Data");
  add_whole(app, "--seed", data.seed, 0, std::numeric_limits<std::int64_t>::max(),
            "Seed of the random data.");
  add_choice(app, "--distribution", {"normal", "skewed", "outliers"},
             with_default("Distribution of the data: normal is N(0,1), skewed is N(0,1) times 2^-3 "
                          "to 2^3 per block, outliers is N(0,1) with one of 64 numbers times 100.",
                          distribution_name(data.distribution)),
             [&data](const std::string& name) {
               for (const Distribution one :
                    {Distribution::normal, Distribution::skewed, Distribution::outliers}) {
                 if (distribution_name(one) == name) data.distribution = one;
               }
             });
}

std::string distribution_name(Distribution distribution) {
  return distribution == Distribution::skewed     ? "skewed"
         : distribution == Distribution::outliers ? "outliers"
                                                  : "normal";
}

void add_scale_options(CLI::App& app, std::optional<float>& amax_floor, bool& pow2_scales) {
  add_f32(app, "--amax-floor", amax_floor,
          with_default("Smallest amax that a block is scaled by.",
                       fmt::format("{}", Fp8Output{}.amax_floor)));
  add_flag(app, "--pow2-scales", pow2_scales, "Round scales up to powers of two.");
}

void add_mx_scale(CLI::App& app, std::string& mx_scale) {
  add_choice(app, "--mx-scale", mx_scale, {"floor", "even", "up"},
             "Exponent of the scale of an mx block: floor(log2(amax)) less that of the format, "
             "with amax rounded first (even), or large enough that nothing saturates (up).");
}

MxScale parse_mx_scale(const std::string& text) {
  return text == "even" ? MxScale::even : text == "up" ? MxScale::up : MxScale::floor;
}

void add_cast_options(CLI::App& app, Fp8Options& options) {
  option_group(app, kFp8Group);
  add_dtype(app, "--format", options.format, kFp8,
            with_default("FP8 format of the output.", Fp8Output{}.format));
  add_block_options(app, options,
                    "none if only the other is given; without both, a case of 1x128 and one of "
                    "128x128");
}

void add_fp8_options(CLI::App& app, Fp8Options& options, const std::string& format_help) {
  option_group(app, kFp8Group);
  add_dtype(app, "--fp8", options.format, kFp8, format_help);
  add_block_options(app, options, "1x128; none beside 1xall, allx1, allxall and mx blocks");
}

Fp8Output cast_output(const Fp8Options& options) {
  return fp8_output(options,
                    no_block_is_given(options) ? OptionalBlock(kBlock1x128) : std::nullopt);
}

// Of the copy whose option is not given: blocks of 128 beside others of 128. Whole rows, columns and tensors and mx
// blocks are asked for by themselves, since no kernel writes them and blocks of 128 in one pass.
OptionalBlock block_beside(const Fp8Options& options) {
  for (const std::string& text : {options.block, options.transposed_block}) {
    const auto block = parse_block(text);
    const bool is_whole = block && (block->rows == kAll || block->cols == kAll);
    if (is_whole || (block && is_mx(*block))) return std::nullopt;
  }
  return kBlock1x128;
}

std::optional<Fp8Output> wanted_fp8(const Fp8Options& options) {
  if (options.format) return fp8_output(options, block_beside(options));
  if (!no_block_is_given(options) || options.amax_floor || options.pow2_scales) {
    refuse_usage("--block, --transposed-block, --amax-floor and --pow2-scales go with --fp8");
  }
  return std::nullopt;
}

void add_group_options(CLI::App& app, GroupOptions& options, const std::string& what,
                       std::int64_t usual) {
  option_group(app, kGroupOptions);
  add_whole(
      app, "--groups", options.groups, 1, kMaxGroups,
      with_default(fmt::format("Groups that share the rows of {}, at most {}.", what, kMaxGroups),
                   usual == 0 ? "no groups" : std::to_string(usual)));
  add_text(app, "--group-sizes", options.sizes, "SPREAD|A,B,C",
           with_default("Rows of the groups: balanced, skewed, zipf, half-empty, one-hot, or a "
                        "number of rows for each, which may leave rows without a group.",
                        "balanced"));
  add_choice(app, "--tail", options.tail, {"zero", "untouched"},
             "What becomes of rows of outputs behind the last group.");
}

std::string Groups::arguments() const {
  return count == 0 || spread == GroupSpread{} ? "" : " --group-sizes " + name(spread);
}

Groups wanted_groups(const GroupOptions& options) {
  Groups groups;
  groups.tail = options.tail == "untouched" ? GroupTail::untouched : GroupTail::zero;
  if (!options.sizes.empty()) {
    const auto spread = parse_group_spread(options.sizes);
    if (!spread) {
      refuse_usage(
          "--group-sizes must be balanced, skewed, zipf, half-empty, one-hot or whole numbers with "
          "commas between them, got \"{}\"",
          options.sizes);
    }
    groups.spread = *spread;
  }
  const auto given = static_cast<std::int64_t>(groups.spread.sizes.size());
  groups.count = options.groups.value_or(given);
  if (given != 0 && given != groups.count) {
    refuse_usage("--group-sizes has {} sizes, --groups is {}", given, groups.count);
  }
  if (groups.count == 0 && (!options.sizes.empty() || groups.tail != GroupTail::zero)) {
    refuse_usage("{} goes with --groups",
                 options.sizes.empty() ? "--tail" : "--group-sizes " + options.sizes);
  }
  return groups;
}

void check_fit(const Groups& groups, std::int64_t rows) {
  std::int64_t sum = 0;
  for (const std::int64_t size : groups.spread.sizes) sum += size;
  if (sum > rows) {
    refuse_usage("--group-sizes: the groups have {} rows together, the shape has {}", sum, rows);
  }
}

void add_norm_options(CLI::App& app, NormOptions& options, bool timed) {
  const RmsNormRopeProblem usual;  // the norm by itself has the same defaults
  option_group(app, "Norm");
  add_dtype(app, "--weight", options.weight, kFloats,
            with_default("Data type of the weight g.", usual.weight_dtype));
  add_f32(app, "--eps", options.eps,
          with_default("Number added to the mean of the squares.", fmt::format("{}", usual.eps)));
  add_flag(app, "--one-plus-weight", options.one_plus_weight, "Multiply by 1 + g instead of g.");
  add_dtype(app, "--dg", options.dg, kFloats,
            with_default("Data type of the gradient of g.", usual.dg_dtype));
  if (!timed) {
    add_flag(app, "--inference", options.inference,
             "Run forward only, and write nothing for backward.");
  }
}

void add_rope_options(CLI::App& app, RopeOptions& options) {
  option_group(app, "Heads and rotation");
  add_whole(app, "--head-dim", options.head_dim, 1, kMostFeatures,
            with_default("Features of a head.", of_the_case(kUsualHeadDim)));
  add_whole(app, "--heads", options.heads, 1, kMostFeatures, "Heads of q, instead of --head-dim.");
  add_whole(app, "--kv-heads", options.kv_heads, 0, kMostFeatures,
            with_default("Heads of k; 0 for no k.", of_the_case(kUsualKvHeads)));
  add_choice(app, "--style", options.style, {"rotate_half", "interleaved"},
             "Which elements form a pair: i and i + D/2 (rotate_half), or 2i and 2i + 1.");
  add_whole(app, "--rotary-dim", options.rotary_dim, 0, kMostFeatures,
            "Features of a head that are rotated, an even number; 0 for all.");
  add_whole(app, "--cache-rows", options.cache_rows, 0, kMostFeatures,
            "Positions in the caches of cosines and sines; 0 for S.");
  add_flag(app, "--full-cache", options.full_cache, "Give caches that hold every value twice.");
  add_dtype(app, "--cache", options.cache, kFloats,
            with_default("Data type of the caches.", Rotation{}.cache_dtype));
  add_dtype(app, "--positions", options.positions, {Dtype::i32, Dtype::i64},
            with_default("Give a position for every token, in this data type.",
                         "none, positions count from 0"));
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
  return {hidden / head_dim, number_of(options.kv_heads, shape, "kv-heads").value_or(kUsualKvHeads),
          head_dim};
}

Rotation rotation(const RopeOptions& options) {
  Rotation result;
  if (options.style == "interleaved") result.style = RopeStyle::interleaved;
  result.rotary_dim = options.rotary_dim;
  result.cache_rows = options.cache_rows;
  result.full_cache = options.full_cache;
  result.cache_dtype = options.cache.value_or(result.cache_dtype);
  result.positions_dtype = options.positions;
  return result;
}

void add_gate_activation(CLI::App& app, std::string& value) {
  add_choice(app, "--activation", value, {"silu", "gelu_tanh", "gelu_erf", "relu_squared"},
             with_default("Activation of the gate.",
                          of_the_case(name(GatedActivationProblem{}.activation))));
}

GateActivation chosen_activation(const std::string& given, const ShapeCase& shape) {
  const auto of_case = shape.options.find("activation");
  const std::string name = !given.empty() ? given
                           : of_case != shape.options.end()
                               ? of_case->second
                               : std::string(octet::name(GatedActivationProblem{}.activation));
  const auto activation = parse_gate_activation(name);
  if (!activation) refuse_usage("{}: there is no activation \"{}\"", shape.name, name);
  return *activation;
}

GemmOperand parse_operand(const std::string& option, const std::string& text) {
  const auto refuse = [&]() {
    refuse_usage(
        "{} must be e4m3|e5m2:1x128|128x128|1xall|allxall|1x32|32x32 or bf16|f16|f32[:mn], got "
        "\"{}\"",
        option, text);
  };
  const std::size_t colon = text.find(':');
  const auto dtype = parse_dtype(text.substr(0, colon));
  if (!dtype || *dtype > Dtype::e5m2) refuse();
  GemmOperand operand{*dtype, {}, Major::k};
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (is_fp8(*dtype)) {
    const auto block = parse_block(rest);
    if (!block) refuse();
    operand.block = *block;
  } else if (rest == "mn") {
    operand.major = Major::mn;
  } else if (colon != std::string::npos) {
    refuse();
  }
  return operand;
}

}  // namespace octet::tool
