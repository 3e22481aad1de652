// The cases of grouped-gemm: linear layers of groups of rows by precision and, for octet check,
// single products by their operands.
#include "tool/cases/suites.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/layer_options.hpp"
#include "tool/options/parse.hpp"

#include "ops/fp8_grouped_linear/parts.hpp"
#include "ops/grouped_gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace octet::tool {
namespace {

constexpr std::int64_t kUsualGroups = 8;
constexpr const char* kSuite = "grouped288";
constexpr std::int64_t kUsualTokens = 2048;  // per group, of a config.json

void check_models(const std::vector<GroupedCase>& cases, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const GroupedCase& one : cases) {
    if (known.empty() || known.back() != one.model) known.push_back(one.model);
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse_usage("no model with experts is called {}; there are {}", name,
                   fmt::join(known, ", "));
    }
  }
}

template <class Value>
bool is_listed(const std::vector<Value>& list, const Value& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

// Checks the three products of layers with plain operands, each by itself.
GateReport check_plain_layer(const Fp8GroupedLinearProblem& layer, const DataOptions& options) {
  const GroupedLinearProducts products = plain_products(layer);
  GateReport all;
  const auto add = [&](const GroupedGemmProblem& product, const std::string& tensor) {
    for (GateResult& result : check_grouped_gemm(product, options).results) {
      result.tensor.replace(0, 1, tensor);  // "d", "d of empty groups"
      all.results.push_back(std::move(result));
    }
  };
  add(products.y, "y");
  add(products.dx, "dx");
  add(products.dw, "dw");
  return all;
}

std::string describe_plain_layer(const Fp8GroupedLinearProblem& layer) {
  std::string result = fmt::format("grouped-gemm --dtype {} --groups {} --shape {}x{}x{}",
                                   name(layer.dtype), layer.groups, layer.rows, layer.n, layer.k);
  if (layer.dw_dtype != layer.dtype) result += fmt::format(" --dw {}", name(layer.dw_dtype));
  if (layer.accumulate_dw) result += " --accumulate-dw";
  if (layer.tail == GroupTail::untouched) result += " --tail untouched";
  if (layer.max_multiprocessors != 0) {
    result += fmt::format(" --max-multiprocessors {}", layer.max_multiprocessors);
  }
  return result + " --device " + name(layer.device);
}

GroupedGemmProblem probe_product(GroupedOver over, const GemmOperand& a, const GemmOperand& b,
                                 Dtype out, bool accumulate) {
  GroupedGemmProblem problem;
  problem.over = over;
  problem.groups = 2;
  problem.rows = problem.n = problem.k = kProbeExtent;
  problem.a = a;
  problem.b = b;
  problem.out_dtype = out;
  problem.accumulate = accumulate;
  return problem;
}

// Adds one product with every kind of output.
void add_outputs(std::vector<Support>& result, GroupedOver over, const std::string& blocks,
                 const std::string& dtypes, const GemmOperand& a, const GemmOperand& b) {
  const bool over_rows = over == GroupedOver::rows;
  for (const bool accumulate : {false, true}) {
    if (accumulate && over_rows) continue;
    for (const Dtype out : kProbeFloats) {
      if (accumulate && out == Dtype::f16) continue;
      result.push_back(
          {"grouped_gemm", blocks + (over_rows ? " over rows" : " over contraction"), dtypes,
           fmt::format("{}{}", accumulate ? "+= " : "", name(out)),
           answers(grouped_gemm_implementations(), probe_product(over, a, b, out, accumulate))});
    }
  }
}

std::vector<Support> probe_grouped_gemm() {
  std::vector<Support> result;
  for (const GroupedOver over : {GroupedOver::rows, GroupedOver::contraction}) {
    for (const BlockShape b_block : {kBlock128x128, kBlock1x128}) {
      for (const Dtype a : kProbeFp8) {
        for (const Dtype b : kProbeFp8) {
          add_outputs(result, over, "1x128 . " + name(b_block),
                      fmt::format("{} . {}", name(a), name(b)), {a, kBlock1x128}, {b, b_block});
        }
      }
    }
    for (const Dtype dtype : kProbeFloats) {
      const GemmOperand operand{dtype, {}, over == GroupedOver::rows ? Major::k : Major::mn};
      add_outputs(result, over, "none", std::string(name(dtype)), operand, operand);
    }
  }
  return result;
}

// Layers are supported if every one of their casts and products is.
std::vector<Support> probe_fp8_grouped_linear() {
  std::vector<Support> result;
  for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
    for (const Dtype input : kProbeFloats) {
      Fp8GroupedLinearProblem layer;
      layer.groups = 2;
      layer.rows = layer.n = layer.k = kProbeExtent;
      layer.dtype = input;
      layer.wgrad_blocks = blocks;
      const GroupedLinearProducts products = fp8_products(layer);
      std::vector<std::string> of_parts;
      for (const ProbeDevice& probe : probe_devices()) {
        AnswerOfParts parts;
        for (const QuantizeProblem& cast :
             {cast_of_x(layer), cast_of_w(layer), cast_of_dy(layer)}) {
          parts.add("quantize", answer(quantize_implementations(), cast, probe));
        }
        for (const GroupedGemmProblem* product : {&products.y, &products.dx, &products.dw}) {
          parts.add("grouped_gemm", answer(grouped_gemm_implementations(), *product, probe));
        }
        of_parts.push_back(parts.text());
      }
      result.push_back({"fp8_grouped_linear",
                        blocks == WgradBlocks::rows ? "blockwise, wgrad 1d" : "blockwise, wgrad 2d",
                        std::string(name(input)), "e4m3 (dy e4m3)", of_parts});
    }
  }
  return result;
}

class GroupedGemm : public ShapeOperator {
 public:
  const char* name() const override { return "grouped-gemm"; }
  const char* about() const override {
    return "Linear layers of groups of rows in FP8 or 16 bits, forward and backward.";
  }
  std::array<const char*, 2> examples(bool timed) const override {
    return {"--group-sizes skewed --shape 512x256x384",
            timed ? "--dtype bf16 --shape 128x96x64"
                  : "--group-sizes 0,1,127,128,129 --shape 385x256x384"};
  }
  RowKind rows() const override { return RowKind::grouped; }
  std::vector<std::string> chosen_operators() const override {
    return {"grouped_gemm", "quantize"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result = probe_grouped_gemm();
    for (Support& layer : probe_fp8_grouped_linear()) result.push_back(std::move(layer));
    return result;
  }

  void add_bench_options(CLI::App& app) override {
    option_group(app, "Timing");
    add_flag(app, "--prequantized", prequantized_,
             "Time only the products; the operands are quantised beforehand.");
  }
  std::string bench_arguments() const override { return prequantized_ ? " --prequantized" : ""; }
  void check_bench_options() const override {
    if (prequantized_ && !is_fp8()) {
      refuse_usage("--prequantized goes with --dtype fp8, got --dtype {}", dtype_);
    }
  }

  DataOptions data_of_problems() const override { return with_groups(data_, chosen_groups()); }

 private:
  const char* shape_form() const override { return "TxNxK"; }
  const char* shape_help() const override {
    return "Layers of N output and K input features, and T rows for all groups together.";
  }
  bool is_fp8() const { return dtype_ == "fp8"; }

  void add_dtype_option(CLI::App& app) override {
    add_choice(app, "--dtype", dtype_, {"fp8", "bf16", "f16"}, "Precision of the products.");
  }

  void add_model_options(CLI::App& app) {
    option_group(app, kCaseOptions);
    add_text(app, "--suite", suite_, kSuite,
             "The experts of eight model families, split over ranks.");
    add_texts(app, "--model", models_, "NAME|FILE.json",
              fmt::format("The experts of this model: one of {}, such as DeepSeek-V3, or a Hugging "
                          "Face config.json. Repeat it for several models.",
                          kSuite));
    add_wholes(app, "--expert-parallel", expert_parallel_, 1, kMostOfAModel,
               with_default("Ranks that share the experts of a model. Repeat it for several.",
                            "all of the suite; 1 for a config.json"));
    add_wholes(app, "--tokens-per-group", tokens_per_group_, 1, kMaxGroupedRows,
               with_default("Tokens of an expert in the mean. Repeat it for several.",
                            fmt::format("all of the suite; {} for a config.json", kUsualTokens)));
  }

  void add_own_options(CLI::App& app, bool timed) override {
    app_ = &app;
    const Fp8GroupedLinearProblem usual;
    add_model_options(app);
    option_group(app, kNumericOptions);
    add_choice(app, "--granularity", layer_.granularity, {"blockwise"},
               "How FP8 scales are shared; there is one way.");
    add_layer_formats(app, layer_, {.tensors = "x, w, dy, y and dx of an FP8 layer"}, usual);
    add_weight_gradient(app, layer_, "the weight gradient", usual.dw_dtype);
    add_flag(app, "--weights-quantized", weights_quantized_,
             "The weights of an FP8 layer are quantised ahead of time.");
    add_scale_options(app, layer_.amax_floor, layer_.pow2_scales);
    add_group_options(app, groups_, "the buffers", kUsualGroups);
    add_whole(app, "--expected-rows", expected_rows_, 0, kMaxGroupedRows,
              with_default("Rows that groups are expected to have together, to choose tiles.",
                           "all rows"));
    if (!timed) add_product_options(app);
    option_group(app, kMachineOptions);
    add_max_multiprocessors(app, layer_.max_multiprocessors);
    add_text(app, "--quantize-backend", data_.quantize_backend, "NAME",
             with_default("Implementation of the casts.", "the first that supports them"));
  }

  void add_product_options(CLI::App& app) {
    option_group(app, "One product instead of a layer");
    add_choice(app, "--over", over_, {"rows", "contraction"},
               "What groups run over: the rows of the result, or the contraction.");
    add_text(app, "--a", a_, "DTYPE[:BLOCK|:mn]",
             "Left operand: e4m3:1x128 has scales per block; bf16:mn is contiguous along the rows "
             "of the result.");
    add_text(app, "--b", b_, "DTYPE[:BLOCK|:mn]", "Right operand, such as e4m3:128x128.");
    add_dtype(app, "--out", out_, kFloats,
              with_default("Data type of the product.", GroupedGemmProblem{}.out_dtype));
    add_flag(app, "--accumulate", accumulate_, "Add the product to its output.");
  }

  void check_layer_options() const {
    std::vector<std::string> own;
    if (weights_quantized_) own.emplace_back("--weights-quantized");
    if (!data_.quantize_backend.empty()) own.emplace_back("--quantize-backend");
    layer_.refuse_without_fp8(dtype_, own);
  }

  void check_product_options() const {
    if (a_.empty() || b_.empty()) {
      refuse_usage(
          "--a and --b name the operands of a product: give both, as --a e4m3:1x128 --b "
          "e4m3:128x128");
    }
    for (const char* option : {"--dtype", "--granularity", "--input", "--format", "--grad-format",
                               "--wgrad-blocks", "--dw", "--accumulate-dw", "--weights-quantized",
                               "--amax-floor", "--pow2-scales", "--quantize-backend"}) {
      if (app_->count(option) > 0)
        refuse_usage("{} goes with a layer, not with --a and --b", option);
    }
  }

  Fp8GroupedLinearProblem layer_on(const ShapeCase& shape, const Groups& groups,
                                   Device device) const {
    Fp8GroupedLinearProblem problem;
    problem.groups = groups.count;
    problem.rows = shape.extents[0];
    problem.n = shape.extents[1];
    problem.k = shape.extents[2];
    layer_.set(problem, dtype_);
    problem.weights_quantized = weights_quantized_;
    problem.tail = groups.tail;
    problem.expected_rows = expected_rows_;
    problem.device = device;
    return problem;
  }

  GroupedGemmProblem product_on(const ShapeCase& shape, const Groups& groups, Device device) const {
    GroupedGemmProblem problem;
    problem.over = over_ == "contraction" ? GroupedOver::contraction : GroupedOver::rows;
    problem.groups = groups.count;
    problem.rows = shape.extents[0];
    problem.n = shape.extents[1];
    problem.k = shape.extents[2];
    problem.a = parse_operand("--a", a_);
    problem.b = parse_operand("--b", b_);
    problem.out_dtype = out_.value_or(problem.out_dtype);
    problem.accumulate = accumulate_;
    problem.tail = groups.tail;
    problem.expected_rows = expected_rows_;
    problem.max_multiprocessors = layer_.max_multiprocessors;
    problem.device = device;
    return problem;
  }

  // A list of sizes has as many groups as sizes.
  Groups chosen_groups() const {
    GroupOptions options = groups_;
    const auto spread = parse_group_spread(options.sizes);
    const bool listed = spread && spread->kind == GroupSpread::Kind::given;
    if (!options.groups && !listed) options.groups = kUsualGroups;
    return wanted_groups(options);
  }

  // The cases of --suite and --model.
  std::vector<GroupedCase> model_cases() const {
    std::vector<std::string> names;
    std::vector<GroupedCase> cases;
    for (const std::string& model : models_) {
      if (!is_model_config(model)) {
        names.push_back(model);
        continue;
      }
      const auto or_one = [](const std::vector<std::int64_t>& given, std::int64_t usual) {
        return given.empty() ? std::vector<std::int64_t>{usual} : given;
      };
      for (GroupedCase& one : grouped_cases(read_model_config(model), or_one(expert_parallel_, 1),
                                            or_one(tokens_per_group_, kUsualTokens))) {
        cases.push_back(std::move(one));
      }
    }
    if (suite_.empty() && names.empty()) return cases;
    const std::vector<GroupedCase> all = load_grouped_suite(suite_.empty() ? kSuite : suite_);
    check_models(all, names);
    for (const GroupedCase& one : all) {
      if (is_listed(names, one.model) && is_listed(expert_parallel_, one.expert_parallel) &&
          is_listed(tokens_per_group_, one.tokens_per_group)) {
        cases.push_back(one);
      }
    }
    if (cases.empty()) {
      refuse_usage("--model, --expert-parallel and --tokens-per-group together leave no case of {}",
                   kSuite);
    }
    return cases;
  }

  // A shape with its groups, and its number in a suite.
  struct GroupedShape {
    ShapeCase shape;
    Groups groups;
    std::string test_id;
  };

  std::vector<GroupedShape> chosen_shapes(Device device) const {
    std::vector<GroupedShape> shapes;
    if (suite_.empty() && models_.empty()) {
      if (!expert_parallel_.empty() || !tokens_per_group_.empty()) {
        refuse_usage("--expert-parallel and --tokens-per-group go with --suite or --model");
      }
      for (ShapeCase& shape : shapes_on(device)) {
        shapes.push_back({std::move(shape), chosen_groups(), ""});
      }
      return shapes;
    }
    if (!common_.shapes.empty() || groups_.groups) {
      refuse_usage(
          "--suite and --model have shapes and groups of their own; {} does not go with "
          "them",
          groups_.groups ? "--groups" : "--shape");
    }
    for (const GroupedCase& one : model_cases()) {
      GroupOptions options = groups_;
      options.groups = one.groups;
      shapes.push_back({{one.model + " " + one.op, {one.rows, one.n, one.k}, {}},
                        wanted_groups(options),
                        one.test_id});
    }
    return shapes;
  }

  std::vector<Case> cases_on(Device device) const override {
    const bool products = !a_.empty() || !b_.empty() || out_ || accumulate_ || !over_.empty();
    products ? check_product_options() : check_layer_options();
    std::vector<Case> cases;
    for (const auto& [shape, groups, test_id] : chosen_shapes(device)) {
      check_fit(groups, shape.extents[0]);
      Case one = products ? product_case(product_on(shape, groups, device), groups)
                          : layer_case(layer_on(shape, groups, device), groups);
      one.name = shape.name;
      one.test_id = test_id;
      one.extents = shape.extents;
      one.grouped_rows = shape.extents[0];
      if (groups.spread.kind == GroupSpread::Kind::given) {
        const std::vector<std::int64_t>& sizes = groups.spread.sizes;
        one.grouped_rows = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      }
      one.device = device;
      one.arguments += groups.arguments();
      one.own_data = [spread = groups](DataOptions data) {
        return with_groups(std::move(data), spread);
      };
      cases.push_back(std::move(one));
    }
    return cases;
  }

  static DataOptions with_groups(DataOptions options, const Groups& groups) {
    options.group_spread = groups.spread;
    return options;
  }

  static Case product_case(const GroupedGemmProblem& problem, const Groups& groups) {
    Case one;
    one.arguments = describe(problem);
    one.check = [=](const DataOptions& data) {
      return check_grouped_gemm(problem, with_groups(data, groups));
    };
    one.implementation = [=](const DataOptions& data) {
      return "gemm=" + plan_grouped_gemm(problem, {data.backend, data.threads}).implementation;
    };
    return one;
  }

  Case layer_case(const Fp8GroupedLinearProblem& problem, const Groups& groups) const {
    using Make =
        std::unique_ptr<bench::Workload> (*)(const Fp8GroupedLinearProblem&, const DataOptions&);
    const Make make = !is_fp8()       ? Make(bench::make_plain_products)
                      : prequantized_ ? Make(bench::make_fp8_products)
                                      : Make(bench::make_workload);
    Case one;
    one.arguments = is_fp8() ? describe(problem) : describe_plain_layer(problem);
    one.check = [=, check = is_fp8() ? check_fp8_grouped_linear : check_plain_layer](
                    const DataOptions& data) { return check(problem, with_groups(data, groups)); };
    one.workload = [=](const DataOptions& data) {
      return make(problem, with_groups(data, groups));
    };
    return one;
  }

  const CLI::App* app_ = nullptr;
  std::string suite_;
  std::vector<std::string> models_;
  std::vector<std::int64_t> expert_parallel_, tokens_per_group_;
  std::string dtype_ = "fp8";  // fp8, bf16, f16
  LayerOptions layer_;
  bool weights_quantized_ = false;
  GroupOptions groups_;
  std::int64_t expected_rows_ = 0;
  bool prequantized_ = false;  // only octet bench
  // Only octet check.
  std::string over_, a_, b_;
  std::optional<Dtype> out_;
  bool accumulate_ = false;
};

}  // namespace

std::unique_ptr<Operator> make_grouped_gemm_operator() { return std::make_unique<GroupedGemm>(); }

}  // namespace octet::tool
