// Options that several operators share: data, FP8 copies, norms, heads with their rotation, and the
// activation of a gate.
#pragma once

#include "tool/cases/cases.hpp"
#include "tool/options/options.hpp"

#include "check/gates.hpp"

#include <octet/ops/fp8_output.hpp>
#include <octet/ops/gated_activation.hpp>
#include <octet/ops/gemm.hpp>
#include <octet/ops/group_table.hpp>
#include <octet/ops/rope.hpp>

namespace octet::tool {

inline const std::vector<Dtype> kFloats{Dtype::bf16, Dtype::f16, Dtype::f32};
inline const std::vector<Dtype> kFp8{Dtype::e4m3, Dtype::e5m2};

// The option if given, else the value of the case, if any.
std::optional<std::int64_t> number_of(const std::optional<std::int64_t>& given,
                                      const ShapeCase& shape, const std::string& option);

// Options of every operator: --threads, --seed, --distribution.
void add_data_options(CLI::App& app, DataOptions& data);
std::string distribution_name(Distribution distribution);  // as --distribution takes it
// How scales are computed: --amax-floor, --pow2-scales.
void add_scale_options(CLI::App& app, std::optional<float>& amax_floor, bool& pow2_scales);
// The scales of mx blocks: --mx-scale.
void add_mx_scale(CLI::App& app, std::string& mx_scale);
MxScale parse_mx_scale(const std::string& text);

// Block-scaled FP8 copies: the outputs of a cast, or copies an operator writes next to its output.
struct Fp8Options {
  std::optional<Dtype> format;
  std::string block;  // empty: not given; "none": no row-major copy
  std::string transposed_block;
  std::optional<float> amax_floor;
  bool pow2_scales = false;
};

// For a cast: --format and the block options.
void add_cast_options(CLI::App& app, Fp8Options& options);
// For an operator with FP8 copies: --fp8, which asks for them, and the block options.
void add_fp8_options(CLI::App& app, Fp8Options& options, const std::string& format_help);

// The copies whose blocks are given; both, in 1x128 blocks, if none is.
Fp8Output cast_output(const Fp8Options& options);
// Both copies, in 1x128 blocks by default. Returns nullopt without --fp8; the other options are
// then refused.
std::optional<Fp8Output> wanted_fp8(const Fp8Options& options);

// Groups of rows, for operators over groups.
struct GroupOptions {
  std::optional<std::int64_t> groups;
  std::string sizes;  // empty: not given
  std::string tail = "zero";
};

inline constexpr const char* kGroupOptions = "Groups";  // for the help
// `what` has the rows: "the tensor". `usual`: groups by default; 0: none.
void add_group_options(CLI::App& app, GroupOptions& options, const std::string& what,
                       std::int64_t usual = 0);

// The groups of buffers of some rows, as the options ask for them.
struct Groups {
  std::int64_t count = 0;  // 0: no groups
  GroupSpread spread;
  GroupTail tail = GroupTail::zero;

  // " --group-sizes skewed", for command lines; nothing for balanced groups.
  std::string arguments() const;
};
// Throws UsageError if the options contradict each other.
Groups wanted_groups(const GroupOptions& options);
// Throws UsageError if given sizes do not fit into `rows` rows.
void check_fit(const Groups& groups, std::int64_t rows);

// Options of a norm, for rms-norm and rms-norm-rope.
struct NormOptions {
  std::optional<Dtype> weight;
  std::optional<float> eps;
  bool one_plus_weight = false;
  bool inference = false;
  std::optional<Dtype> dg;
};

// `timed`: for octet bench, where every case needs a backward.
void add_norm_options(CLI::App& app, NormOptions& options, bool timed);

template <class Problem>
void apply(const NormOptions& options, Problem& problem) {
  problem.weight_dtype = options.weight.value_or(problem.weight_dtype);
  problem.eps = options.eps.value_or(problem.eps);
  problem.one_plus_weight = options.one_plus_weight;
  problem.training = !options.inference;
  problem.dg_dtype = options.dg.value_or(problem.dg_dtype);
}

// Options of heads and their rotation, for rope and rms-norm-rope.
struct RopeOptions {
  std::optional<std::int64_t> head_dim;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> kv_heads;
  std::string style = "rotate_half";
  std::int64_t rotary_dim = 0;
  std::int64_t cache_rows = 0;
  bool full_cache = false;
  std::optional<Dtype> cache;
  std::optional<Dtype> positions;
};

void add_rope_options(CLI::App& app, RopeOptions& options);

// The heads, from a shape BxSxH and the options. Throws UsageError if H is not a whole number of
// heads.
struct HeadCounts {
  std::int64_t q_heads = 0;
  std::int64_t k_heads = 0;
  std::int64_t head_dim = 0;
};
HeadCounts head_counts(const RopeOptions& options, const ShapeCase& shape);
Rotation rotation(const RopeOptions& options);

template <class Problem>
void apply(const RopeOptions& options, const ShapeCase& shape, Problem& problem) {
  const HeadCounts heads = head_counts(options, shape);
  problem.batch = shape.extents[0];
  problem.seq = shape.extents[1];
  problem.q_heads = heads.q_heads;
  problem.k_heads = heads.k_heads;
  problem.head_dim = heads.head_dim;
  problem.rotation = rotation(options);
}

// The text of --a or --b: "e4m3:1x128", "bf16", "bf16:mn".
GemmOperand parse_operand(const std::string& option, const std::string& text);

// Adds --activation, for gated-activation and gated-mlp.
void add_gate_activation(CLI::App& app, std::string& value);
GateActivation chosen_activation(const std::string& given, const ShapeCase& shape);

}  // namespace octet::tool
