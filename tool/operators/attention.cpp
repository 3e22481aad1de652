// The cases of attention: which heads, over which sequences, seen through which mask.
#include "tool/cases/suites.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"
#include "tool/options/parse.hpp"

#include "ops/attention/problem.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace octet::tool {
namespace {

constexpr const char* kSuite = "attention78";
constexpr std::int64_t kMost = std::int64_t{1} << 40;
constexpr std::int64_t kUsualHeadDim = 128;

// The text of an option "A" or "AxB", such as queries and keys.
struct Pair {
  std::int64_t first = 0;
  std::int64_t second = 0;
};

Pair parse_pair(const char* option, const std::string& text) {
  Pair pair;
  const std::size_t x = text.find('x');
  const bool good =
      parse_whole(text.substr(0, x), 1, kMost, pair.first) &&
      (x == std::string::npos || parse_whole(text.substr(x + 1), 1, kMost, pair.second));
  if (!good) {
    refuse_usage("{} must be a whole number of at least 1, or two of them as AxB, got \"{}\"",
                 option, text);
  }
  if (x == std::string::npos) pair.second = pair.first;
  return pair;
}

std::int64_t parse_reach(const std::string& given, const std::string& text) {
  std::int64_t reach = kNoWindow;
  if (text != "all" && !parse_whole(text, 0, kMost, reach)) {
    refuse_usage("--window must be LEFT,RIGHT, each a whole number of keys or all, got \"{}\"",
                 given);
  }
  return reach;
}

// Pairs of query and key in a sequence that the convention counts: all, half of them under a causal
// mask, those that are visible in a window.
double counted_pairs(const AttentionMask& mask, const SequenceLength& length) {
  const double all = static_cast<double>(length.queries) * static_cast<double>(length.keys);
  if (mask.left == kNoWindow && mask.right == kNoWindow) return all;
  if (mask.left == kNoWindow && mask.right == 0) return all / 2;
  const std::int64_t shift =
      mask.align == MaskAlignment::bottom_right ? length.keys - length.queries : 0;
  double pairs = 0;
  for (std::int64_t i = 0; i < length.queries; ++i) {
    const std::int64_t begin =
        mask.left == kNoWindow ? 0 : std::max<std::int64_t>(0, i + shift - mask.left);
    const std::int64_t end =
        mask.right == kNoWindow ? length.keys : std::min(length.keys, i + shift + mask.right + 1);
    pairs += static_cast<double>(std::max<std::int64_t>(0, end - begin));
  }
  return pairs;
}

// A case before its mask, dtype and lengths are known.
struct Shape {
  std::string name = "shape";
  std::string test_id{};
  Pair seq{};
  Pair heads{};
  Pair dim{};
  std::int64_t batch = 1;
  bool causal = false;
};

class Attention : public Operator {
 public:
  const char* name() const override { return "attention"; }
  const char* about() const override { return "Attention of grouped heads, forward and backward."; }
  std::array<const char*, 2> examples(bool timed) const override {
    return {"--batch 2 --seq 200 --heads 4x2 --head-dim 64 --causal",
            timed ? "--model Llama-3.1-8B --seq 256 --causal"
                  : "--heads 4 --lengths 100,0,30x65 --sink --window 64,0"};
  }
  RowKind rows() const override { return RowKind::attention; }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const Dtype dtype : kProbeFloats) {
      for (const auto& [dim_qk, dim_v] : {Pair{64, 64}, {128, 128}, {192, 128}}) {
        AttentionProblem problem;
        problem.seq_q = problem.seq_kv = kProbeExtent;
        problem.heads_q = 8;
        problem.heads_kv = 2;
        problem.dim_qk = dim_qk;
        problem.dim_v = dim_v;
        problem.dtype = dtype;
        result.push_back({"attention",
                          dim_qk == dim_v ? fmt::format("heads of {}", dim_qk)
                                          : fmt::format("heads of {}/{}", dim_qk, dim_v),
                          std::string(octet::name(dtype)), "the same",
                          both(answers(attention_forward_implementations(), completed(problem)),
                               answers(attention_backward_implementations(), completed(problem)))});
      }
    }
    return result;
  }

  void add_options(CLI::App& app, bool timed) override {
    option_group(app, kCaseOptions);
    add_wholes(app, "--batch", batch_, 1, kMost,
               with_default("Sequences. Repeat it for several sizes of a model.",
                            fmt::format("1; all of {}", kSuite)));
    add_text(app, "--seq", seq_, "Q[xK]",
             with_default("Queries of a sequence, and keys where it has another number of them.",
                          fmt::format("that of the model or the suite; for a config.json its "
                                      "max_position_embeddings, at most {}",
                                      kLongestSequence)));
    add_text(app, "--heads", heads_, "Q[xKV]", "Heads of q, and of k and v where these are fewer.");
    add_text(app, "--head-dim", head_dim_, "D[xV]",
             with_default("Features of a head of q and k, and of v where it has another number.",
                          std::to_string(kUsualHeadDim)));
    add_text(app, "--lengths", lengths_, "SPREAD|A,B,C",
             with_default(
                 "Sequences of different lengths, one behind the other: uniform, mild, skew or "
                 "longtail, of at most --seq, or a length for each, as 7,3x5,0 with other keys.",
                 "all have --seq"));
    add_text(
        app, "--total", total_, "Q[xK]",
        with_default("Rows of sequences of different lengths; more leave some behind the last.",
                     "the sum of --lengths"));
    add_texts(app, "--model", models_, "NAME|FILE.json",
              fmt::format("The attention of this model: one of {}, such as Llama-3.1-8B, or a "
                          "Hugging Face config.json; with and without a causal mask, or --causal. "
                          "Repeat it for several models.",
                          kSuite));
    add_text(app, "--suite", suite_, kSuite,
             "The attention of 16 models, with and without a causal mask.");
    option_group(app, kMaskOptions);
    add_flag(app, "--causal", causal_, "A query sees no key behind its place.");
    add_text(app, "--window", window_, "L,R",
             with_default("Keys before and behind the place of a query that it sees, or all.",
                          "all,all"));
    add_choice(app, "--align", align_, {"bottom-right", "top-left"},
               "Which query and key are at the same place: the last ones, or the first.");
    option_group(app, kNumericOptions);
    add_dtype(app, "--dtype", common_.dtype, kFloats,
              with_default("Data type of the tensors.", kUsualDtype));
    add_dtype(app, "--out", out_, kFloats,
              with_default("Data type of the output and its gradient: that of --dtype, or f32 for "
                           "partial results.",
                           "that of --dtype"));
    add_text(app, "--scale", scale_, "FLOAT",
             with_default("Factor of the scores.", "1 / sqrt(head dim)"));
    add_flag(app, "--sink", sink_, "Every query head has one more logit, whose value is 0.");
    add_choice(app, "--layout", layout_, {"bshd", "sbhd", "bhsd", "packed"},
               "Order of batch, sequence, heads and features; packed: q, k and v in one tensor.");
    add_dtype(
        app, "--offsets", offsets_, {Dtype::i32, Dtype::i64},
        with_default("Data type of the offsets of sequences of different lengths.", Dtype::i32));
    add_whole(app, "--workspace-limit", workspace_limit_, 0,
              std::numeric_limits<std::int64_t>::max(),
              "Bytes of workspace that backward may take at most.");
    option_group(app, kMachineOptions);
    add_device(app, common_.device);
    add_text(
        app, "--backend", data_.backend, "NAME",
        with_default("Implementation; octet ops lists them.", "the first that supports the case"));
    add_data_options(app, data_);
    add_op_examples(app, timed);
  }

  DataOptions data_of_problems() const override {
    DataOptions data = data_;
    data.sequence_spread = spread();
    return data;
  }

  void add_bench_options(CLI::App& app) override {
    option_group(app, "Timing");
    add_choice(app, "--baseline", baseline_, {"cudnn"},
               "Also time this library, interleaved, and report its time over octet's; on a GPU.");
    add_flag(app, "--deterministic-baseline", deterministic_baseline_,
             "Take the deterministic backward of the baseline, which is slower and needs workspace "
             "for every score.");
  }

  std::string bench_arguments() const override {
    return (baseline_.empty() ? "" : " --baseline " + baseline_) +
           std::string(deterministic_baseline_ ? " --deterministic-baseline" : "");
  }

  void check_bench_options() const override {
    if (deterministic_baseline_ && baseline_.empty()) {
      refuse_usage("--deterministic-baseline goes with --baseline, which is not given");
    }
  }

  // The implementation: cuDNN is faster where the order of its sums is not fixed.
  std::string baseline() const override {
    if (baseline_.empty() || deterministic_baseline_) return baseline_;
    return baseline_ + "_nondeterministic";
  }

  void check_baseline(Device device) const override {
    if (device.type == DeviceType::cuda) return;
    refuse_usage("--baseline {} runs on a GPU, attention on {}; give --device", baseline_,
                 octet::name(device));
  }

  std::vector<Case> chosen_cases() const override {
    return on_best_device(
        common_.device, [&](Device device) { return cases_on(device); },
        [&](const std::vector<Case>& cases) {
          for (const Case& one : cases) one.workload(data_options());
        });
  }

 private:
  std::vector<std::int64_t> batches_or_one() const {
    return batch_.empty() ? std::vector<std::int64_t>{1} : batch_;
  }

  // Whether the lengths of sequences are their own: [total, heads, dim].
  bool has_offsets() const { return !lengths_.empty() || !total_.empty() || offsets_; }

  SequenceSpread spread() const {
    if (lengths_.empty()) return {};
    const auto parsed = parse_sequence_spread(lengths_);
    if (!parsed) {
      refuse_usage(
          "--lengths must be uniform, mild, skew, longtail or lengths as 7,3x5,0, got \"{}\"",
          lengths_);
    }
    return *parsed;
  }

  AttentionMask mask(bool causal) const {
    AttentionMask mask;
    if (align_ == "top-left") mask.align = MaskAlignment::top_left;
    if (causal) mask.right = 0;
    if (window_.empty()) return mask;
    const std::size_t comma = window_.find(',');
    mask.left = parse_reach(window_, window_.substr(0, comma));
    const std::int64_t right =
        parse_reach(window_, comma == std::string::npos ? "" : window_.substr(comma + 1));
    if (causal && right != 0) {
      refuse_usage("--causal shows no key behind a query; --window must be LEFT,0, got \"{}\"",
                   window_);
    }
    mask.right = right;
    return mask;
  }

  std::vector<Shape> chosen_shapes(Device device) const {
    if (!suite_.empty() || !models_.empty()) {
      for (const auto& [option, given] :
           {std::pair("--heads", heads_), {"--head-dim", head_dim_}}) {
        if (!given.empty()) {
          refuse_usage("--suite and --model have heads of their own; {} does not go with them",
                       option);
        }
      }
      return model_shapes();
    }
    const bool given =
        !batch_.empty() || !seq_.empty() || !heads_.empty() || !head_dim_.empty() || has_offsets();
    return given ? given_shapes() : usual_shapes(device);
  }

  // The cases of --suite and --model.
  std::vector<Shape> model_shapes() const {
    if (!suite_.empty() && !models_.empty()) {
      refuse_usage("--suite {} has models of its own; --model does not go with it", suite_);
    }
    std::vector<AttentionCase> cases;
    const auto add = [&](std::vector<AttentionCase> more) {
      for (AttentionCase& one : more) {
        if (one.causal || !causal_) cases.push_back(std::move(one));
      }
    };
    if (!suite_.empty()) add(load_attention_suite(suite_));
    for (const std::string& name : models_) {
      const Model model = is_model_config(name) ? read_model_config(name) : load_model(name);
      for (const bool causal : {false, true}) {
        add(attention_cases(model, batches_or_one(), causal));
      }
    }
    if (suite_.empty()) number_cases(cases);
    std::vector<Shape> shapes;
    for (const AttentionCase& one : cases) {
      const bool listed =
          batch_.empty() || std::find(batch_.begin(), batch_.end(), one.batch) != batch_.end();
      if (!listed) continue;
      shapes.push_back({one.model,
                        one.test_id,
                        seq_.empty() ? Pair{one.seq_q, one.seq_kv} : parse_pair("--seq", seq_),
                        {one.heads_q, one.heads_kv},
                        {one.head_dim_qk, one.head_dim_v},
                        one.batch,
                        one.causal});
    }
    if (shapes.empty()) refuse_usage("--batch leaves no case of suite {}", suite_);
    return shapes;
  }

  // The case that --batch, --seq, --heads and --head-dim name, for every --batch.
  std::vector<Shape> given_shapes() const {
    const SequenceSpread lengths = spread();
    const bool listed = lengths.kind == SequenceSpread::Kind::given;
    if (heads_.empty()) refuse_usage("--heads is missing: heads of q and of k and v, as 32x8");
    if (seq_.empty() && !listed) {
      refuse_usage("--seq is missing: queries of a sequence, or queries and keys as 128x4096");
    }
    Shape shape;
    shape.heads = parse_pair("--heads", heads_);
    shape.dim = head_dim_.empty() ? Pair{kUsualHeadDim, kUsualHeadDim}
                                  : parse_pair("--head-dim", head_dim_);
    shape.causal = causal_;
    if (!seq_.empty()) shape.seq = parse_pair("--seq", seq_);
    for (const auto& [queries, keys] : lengths.lengths) {
      if (!seq_.empty()) break;
      shape.seq.first = std::max({shape.seq.first, queries, std::int64_t{1}});
      shape.seq.second = std::max({shape.seq.second, keys, std::int64_t{1}});
    }
    std::vector<Shape> shapes;
    const auto count = static_cast<std::int64_t>(lengths.lengths.size());
    for (const std::int64_t batch :
         listed&& batch_.empty() ? std::vector<std::int64_t>{count} : batches_or_one()) {
      shape.batch = batch;
      shapes.push_back(shape);
    }
    return shapes;
  }

  // Those of cases/attention.csv.
  std::vector<Shape> usual_shapes(Device device) const {
    std::vector<Shape> shapes;
    for (const ShapeCase& one :
         embedded_shape_cases(name(), "BxQxKxHxGxDxV", device.type == DeviceType::cuda)) {
      const auto& extents = one.extents;
      shapes.push_back({one.name,
                        "",
                        {extents[1], extents[2]},
                        {extents[3], extents[4]},
                        {extents[5], extents[6]},
                        extents[0],
                        causal_ || one.options.count("causal") > 0});
    }
    return shapes;
  }

  AttentionProblem problem_on(const Shape& shape, Device device) const {
    AttentionProblem problem;
    problem.batch = shape.batch;
    problem.seq_q = shape.seq.first;
    problem.seq_kv = shape.seq.second;
    problem.heads_q = shape.heads.first;
    problem.heads_kv = shape.heads.second;
    problem.dim_qk = shape.dim.first;
    problem.dim_v = shape.dim.second;
    problem.dtype = common_.dtype.value_or(kUsualDtype);
    problem.out_dtype = out_;
    problem.mask = mask(shape.causal);
    if (!scale_.empty() && !parse_number(scale_, problem.scale)) {
      refuse_usage("--scale must be a number, got \"{}\"", scale_);
    }
    problem.sink = sink_;
    problem.workspace_limit = static_cast<std::size_t>(workspace_limit_);
    problem.device = device;
    if (!has_offsets()) return problem;
    problem.offsets_dtype = offsets_.value_or(Dtype::i32);
    if (!total_.empty()) {
      const Pair total = parse_pair("--total", total_);
      problem.total_q = total.first;
      problem.total_kv = total.second;
      return problem;
    }
    for (const auto& [queries, keys] :
         sequence_lengths(spread(), shape.batch, {shape.seq.first, shape.seq.second}, data_.seed)) {
      problem.total_q += queries;
      problem.total_kv += keys;
    }
    return problem;
  }

  std::vector<Case> cases_on(Device device) const {
    if (has_offsets() && layout_ != "bshd") {
      refuse_usage("--layout {} is for sequences of one length; it does not go with --lengths",
                   layout_);
    }
    std::vector<Case> cases;
    for (const Shape& shape : chosen_shapes(device)) cases.push_back(case_on(shape, device));
    return cases;
  }

  Case case_on(const Shape& shape, Device device) const {
    const AttentionProblem problem = problem_on(shape, device);
    const auto with_own = [spread = spread(),
                           layout = *parse_head_layout(layout_)](DataOptions options) {
      options.sequence_spread = spread;
      options.head_layout = layout;
      return options;
    };
    Case one;
    one.name = shape.name;
    one.test_id = shape.test_id;
    one.extents = {shape.batch,        shape.seq.first, shape.seq.second, shape.heads.first,
                   shape.heads.second, problem.dim_qk,  problem.dim_v};
    one.arguments = describe(problem);
    if (!lengths_.empty()) one.arguments += " --lengths " + octet::name(spread());
    if (layout_ != "bshd") one.arguments += " --layout " + layout_;
    one.device = device;
    one.own_data = with_own;
    one.check = [=](const DataOptions& options) {
      return check_attention(problem, with_own(options));
    };
    one.workload = [=](const DataOptions& options) {
      return bench::make_workload(problem, with_own(options));
    };
    one.forward_operations = forward_operations(problem);
    one.baseline = [=, backend = baseline()](DataOptions options) {
      AttentionProblem unlimited = problem;
      unlimited.workspace_limit = std::numeric_limits<std::size_t>::max();
      options.backend = backend;
      return bench::make_workload(unlimited, with_own(options));
    };
    return one;
  }

  // 2 (dim_qk + dim_v) operations for each pair of query and key.
  double forward_operations(const AttentionProblem& problem) const {
    double pairs = 0;
    for (const SequenceLength& length : sequence_lengths(spread(), problem, data_.seed)) {
      pairs += counted_pairs(problem.mask, length);
    }
    return 2 * pairs * static_cast<double>(problem.heads_q) *
           static_cast<double>(problem.dim_qk + problem.dim_v);
  }

  std::vector<std::int64_t> batch_;
  std::string seq_, heads_, head_dim_, lengths_, total_, window_, scale_, suite_;
  std::vector<std::string> models_;
  std::string align_ = "bottom-right";
  std::string layout_ = "bshd";
  std::optional<Dtype> out_, offsets_;
  bool causal_ = false;
  bool sink_ = false;
  // Only octet bench.
  std::string baseline_;
  bool deterministic_baseline_ = false;
  std::int64_t workspace_limit_ = static_cast<std::int64_t>(AttentionProblem{}.workspace_limit);
};

}  // namespace

std::unique_ptr<Operator> make_attention_operator() { return std::make_unique<Attention>(); }

}  // namespace octet::tool
