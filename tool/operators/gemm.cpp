// The cases of gemm: linear layers by precision and, for octet check, single products by their
// operands.
#include "tool/cases/models.hpp"
#include "tool/cases/random_layers.hpp"
#include "tool/cases/suites.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/layer_options.hpp"
#include "tool/options/parse.hpp"

#include "ops/fp8_linear/parts.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <limits>

namespace octet::tool {

std::vector<Support> probe_products();  // gemm_support.cpp

namespace {

// Options of a layer, which have no meaning for a product.
constexpr std::array kLayerOptions{
    "--dtype",        "--granularity", "--input",           "--format",     "--grad-format",
    "--wgrad-blocks", "--dw",          "--accumulate-dw",   "--amax-floor", "--pow2-scales",
    "--dbias",        "--mx-scale",    "--quantize-backend"};

// Options that name layers, which --random draws.
constexpr std::array kLayerLists{"--shape", "--model", "--mbs", "--seq", "--suite"};

constexpr double kCpuSecondsOfAShape = 5;  // from the command line
constexpr const char* kUsualSuite = "quick";
constexpr const char* kModelSuite = "dense84";  // with --model, --mbs or --seq

LayerCase case_of_shape(const std::string& text, std::size_t number) {
  std::int64_t shape[3] = {0, 0, 0};
  if (!parse_shape(text, shape, 3)) {
    refuse_usage("--shape must be MxNxK, three whole numbers between 1 and {}, got \"{}\"",
                 std::numeric_limits<std::int64_t>::max(), text);
  }
  LayerCase layer;
  layer.test_id = std::to_string(number);
  layer.op = "shape";
  layer.m = shape[0];
  layer.n = shape[1];
  layer.k = shape[2];
  return layer;
}

// Checks the three products of a layer with plain operands, each by itself.
GateReport check_plain_layer(const Fp8LinearProblem& layer, const DataOptions& options) {
  const LinearProducts products = plain_products(layer);
  GateReport all;
  const auto add = [&](const GemmProblem& product, const char* tensor) {
    for (GateResult& result : check_gemm(product, options).results) {
      result.tensor = tensor;
      all.results.push_back(std::move(result));
    }
  };
  add(products.y, "y");
  add(products.dx, "dx");
  add(products.dw, "dw");
  return all;
}

std::string describe_plain_layer(const Fp8LinearProblem& layer) {
  std::string result =
      fmt::format("gemm --dtype {} --shape {}x{}x{}", name(layer.dtype), layer.m, layer.n, layer.k);
  if (layer.dw_dtype != layer.dtype) result += fmt::format(" --dw {}", name(layer.dw_dtype));
  if (layer.accumulate_dw) result += " --accumulate-dw";
  if (layer.bias_dtype) result += fmt::format(" --bias {}", name(*layer.bias_dtype));
  if (layer.max_multiprocessors != 0) {
    result += fmt::format(" --max-multiprocessors {}", layer.max_multiprocessors);
  }
  return result + " --device " + name(layer.device);
}

class Gemm : public Operator {
 public:
  const char* name() const override { return "gemm"; }
  const char* about() const override {
    return "Linear layers in FP8 or 16 bits, forward and backward.";
  }
  std::array<const char*, 2> examples(bool timed) const override {
    return {"--shape 512x1024x768", timed ? "--model Llama-3.1-8B --mbs 1"
                                          : "--shape 64x256x128 --a e4m3:1x128 --b e4m3:128x128"};
  }
  RowKind rows() const override { return RowKind::layer; }
  std::vector<std::string> chosen_operators() const override { return {"gemm", "quantize"}; }
  // Sixteen cases of a suite with their gates fit in three minutes. A shape from the command line
  // may take longer.
  double cpu_seconds() const override {
    return common_.shapes.empty() ? kCpuSeconds : kCpuSecondsOfAShape;
  }
  std::string cpu_seconds_text() const override {
    return fmt::format("{}, or {} for a --shape", kCpuSeconds, kCpuSecondsOfAShape);
  }

  void add_options(CLI::App& app, bool timed) override {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    app_ = &app;
    const Fp8LinearProblem usual;
    option_group(app, kCaseOptions);
    add_texts(app, "--shape", common_.shapes, "MxNxK",
              "A layer of M tokens, N output features and K input features. Repeat it for several "
              "shapes.");
    add_texts(app, "--model", models_, "NAME|FILE.json",
              "The layers of this model: one of the suite, such as Llama-3.1-8B, or a Hugging Face "
              "config.json. Repeat it for several models.");
    add_wholes(app, "--mbs", mbs_, 1, kMost,
               with_default("Micro-batch size, in sequences. Repeat it for several sizes.",
                            "all of the suite; 1 for a config.json"));
    add_whole(app, "--seq", sequence_, 1, kMost,
              with_default("Tokens per sequence: M is --mbs times --seq.",
                           fmt::format("those of the suite; for a config.json its "
                                       "max_position_embeddings, at most {}",
                                       kLongestSequence)));
    add_text(
        app, "--suite", suite_, fmt::format("{}|{}|FILE.csv", kUsualSuite, kModelSuite),
        with_default("A list of layers, built in or from a file.",
                     fmt::format("{}; {} with --model, --mbs or --seq", kUsualSuite, kModelSuite)));
    add_whole(
        app, "--random", random_, 1, kMostRandomLayers,
        "Draw this many layers at random: 1 to 32768 rows, sizes of real models or shares of them, "
        "a fifth odd. --seed selects the draw; a longer one begins with the same layers.");
    option_group(app, kNumericOptions);
    add_choice(app, "--dtype", dtype_, {"fp8", "bf16", "f16", "f32"}, "Precision of the products.");
    add_granularity(
        app, layer_,
        "How FP8 scales are shared: blocks of 128, one per tensor, one per row of every "
        "operand, or mx blocks of 32 folded to 128.");
    add_layer_formats(app, layer_, {.tensors = "x, w, dy, y and dx of an FP8 layer"}, usual);
    add_weight_gradient(app, layer_, "the weight gradient", usual.dw_dtype);
    add_dtype(app, "--bias", bias_, kFloats,
              with_default("Data type of a bias that is added to the output.", "no bias"));
    add_dtype(app, "--dbias", dbias_, kFloats,
              with_default("Data type of the gradient of a bias, the column sums of dy.",
                           "it is not computed"));
    add_scale_options(app, layer_.amax_floor, layer_.pow2_scales);
    if (!timed) add_product_options(app);
    option_group(app, kMachineOptions);
    add_max_multiprocessors(app, layer_.max_multiprocessors);
    add_device(app, common_.device);
    add_text(app, "--backend", data_.backend, "NAME",
             with_default("Implementation of the products; octet ops lists them.",
                          "the first that supports them"));
    add_text(app, "--quantize-backend", data_.quantize_backend, "NAME",
             with_default("Implementation of the casts.", "the first that supports them"));
    add_data_options(app, data_);
    add_op_examples(app, timed);
  }

  void add_bench_options(CLI::App& app) override {
    option_group(app, "Timing");
    add_flag(app, "--prequantized", prequantized_,
             "Time only the products; the operands are quantised beforehand.");
    // openblas: sgemm of the same products, on the CPU. cublaslt: the same layer with cuBLASLt's
    // products or, with --prequantized, only its products.
    add_choice(app, "--baseline", baseline_, {"openblas", "cublaslt"},
               "Also time this library, interleaved, and report its time over octet's: openblas on "
               "the CPU, cublaslt on a GPU.");
  }

  std::string bench_arguments() const override {
    return std::string(prequantized_ ? " --prequantized" : "") +
           (baseline_.empty() ? "" : " --baseline " + baseline_);
  }

  void check_bench_options() const override {
    if (prequantized_ && !is_fp8()) {
      refuse_usage("--prequantized goes with --dtype fp8, got --dtype {}", dtype_);
    }
    if (prequantized_ && dbias_) {
      refuse_usage("--prequantized times the products alone, --dbias is not one of them");
    }
  }

  std::string baseline() const override { return baseline_; }

  void check_baseline(Device device) const override {
    const bool on_cpu = device.type == DeviceType::cpu;
    if (on_cpu != (baseline_ == "openblas")) {
      refuse_usage("--baseline {} runs on {}, the layer on {}; give --device or another baseline",
                   baseline_, on_cpu ? "a GPU" : "the CPU", octet::name(device));
    }
  }

  // Each case runs on the best device for it.
  std::vector<Case> chosen_cases() const override {
    const bool products = !a_.empty() || !b_.empty() || out_ || accumulate_;
    if (products) check_product_options();
    const std::vector<LayerCase> layers = chosen_layers();
    if (!products) check_layer_options();
    std::vector<Case> cases;
    cases.reserve(layers.size());
    for (const LayerCase& layer : layers) {
      cases.push_back(products ? product_case(layer) : layer_case(layer));
    }
    return cases;
  }

  std::vector<Support> support() const override { return probe_products(); }

 private:
  bool is_fp8() const { return dtype_ == "fp8"; }

  // The layers that --shape, --suite, --model, --mbs and --seq select, or those of --random; the quick
  // suite by default.
  std::vector<LayerCase> chosen_layers() const {
    if (random_) return drawn_layers(*random_);
    std::vector<LayerCase> cases;
    for (const std::string& shape : common_.shapes) {
      cases.push_back(case_of_shape(shape, cases.size() + 1));
    }
    std::vector<std::string> names, configs;
    for (const std::string& model : models_) {
      (is_model_config(model) ? configs : names).push_back(model);
    }
    if (!configs.empty() && !suite_.empty()) {
      refuse_usage("--model {} has layers of its own, --suite {} is a list of layers; give one",
                   configs[0], suite_);
    }
    const bool filtered = !names.empty() || (configs.empty() && (!mbs_.empty() || sequence_));
    if (!suite_.empty() || filtered || (cases.empty() && configs.empty())) {
      add_suite_layers(!suite_.empty() ? suite_
                       : filtered      ? kModelSuite
                                       : kUsualSuite,
                       names, cases);
    }
    for (const std::string& path : configs) add_model_layers(path, cases);
    return cases;
  }

  std::vector<LayerCase> drawn_layers(std::int64_t count) const {
    std::vector<std::string> given;
    for (const char* option : kLayerLists) {
      if (app_->count(option) > 0) given.emplace_back(option);
    }
    if (!given.empty()) {
      refuse_usage("--random {} draws the layers, {} {} others: give one of them", count,
                   fmt::join(given, " and "), given.size() == 1 ? "names" : "name");
    }
    return random_layers(data_.seed, count);
  }

  void add_suite_layers(const std::string& suite, const std::vector<std::string>& models,
                        std::vector<LayerCase>& cases) const {
    std::vector<LayerCase> selected = select_cases(load_suite(suite), models, mbs_);
    if (selected.empty()) {
      refuse_usage("--model and --mbs together leave no case of suite {}", suite);
    }
    for (LayerCase& layer : selected) {
      if (sequence_) layer.m = micro_batch_tokens(layer.mbs, *sequence_);
    }
    cases.insert(cases.end(), selected.begin(), selected.end());
  }

  void add_model_layers(const std::string& path, std::vector<LayerCase>& cases) const {
    Model model = read_model_config(path);
    model.sequence = sequence_.value_or(model.sequence);
    std::vector<LayerCase> layers =
        layer_cases(model, mbs_.empty() ? std::vector<std::int64_t>{1} : mbs_);
    number_cases(layers, cases.size() + 1);
    cases.insert(cases.end(), layers.begin(), layers.end());
  }

  void check_layer_options() const {
    std::vector<std::string> own;
    if (dbias_) own.emplace_back("--dbias");
    if (!data_.quantize_backend.empty()) own.emplace_back("--quantize-backend");
    layer_.refuse_without_fp8(dtype_, own);
  }

  Fp8LinearProblem problem_on(const LayerCase& layer, Device device) const {
    Fp8LinearProblem problem;
    problem.m = layer.m;
    problem.n = layer.n;
    problem.k = layer.k;
    layer_.set(problem, dtype_);
    problem.bias_dtype = bias_;
    problem.dbias_dtype = dbias_;
    problem.device = device;
    return problem;
  }

  Case layer_case(const LayerCase& layer) const {
    return on_best_device(
        common_.device, [&](Device device) { return layer_on(layer, device); },
        [&](const Case& one) { one.workload(data_options()); });
  }

  Case layer_on(const LayerCase& layer, Device device) const {
    using Make = std::unique_ptr<bench::Workload> (*)(const Fp8LinearProblem&, const DataOptions&);
    const Make make = !is_fp8()       ? Make(bench::make_plain_products)
                      : prequantized_ ? Make(bench::make_fp8_products)
                                      : Make(bench::make_workload);
    const Fp8LinearProblem problem = problem_on(layer, device);
    Case one;
    one.name = layer.name();
    one.extents = {layer.m, layer.n, layer.k};
    one.arguments = is_fp8() ? describe(problem) : describe_plain_layer(problem);
    one.device = device;
    one.check = [problem, check = is_fp8() ? check_fp8_linear : check_plain_layer](
                    const DataOptions& data) { return check(problem, data); };
    one.workload = [problem, make](const DataOptions& data) { return make(problem, data); };
    if (problem.fast_accumulation && device.type == DeviceType::cpu) {
      one.note = "--fast-accumulation changes nothing on a CPU";
    }
    one.test_id = layer.test_id;
    one.mbs = layer.mbs;
    one.f16_snr_db = [problem](const DataOptions& data) {
      return bench::f16_product_snr_db(problem, data);
    };
    one.baseline = [problem, make, baseline = baseline_](DataOptions data) {
      if (baseline == "openblas") return bench::make_openblas_products(problem, data);
      data.backend = baseline;
      return make(problem, data);
    };
    return one;
  }

  void add_product_options(CLI::App& app) {
    option_group(app, "One product instead of a layer");
    add_text(app, "--a", a_, "DTYPE[:BLOCK|:mn]",
             "Left operand: e4m3:1x128 has scales per block, bf16:mn is contiguous along M.");
    add_text(app, "--b", b_, "DTYPE[:BLOCK|:mn]",
             "Right operand, such as e4m3:128x128; :mn is contiguous along N.");
    add_dtype(app, "--out", out_, kFloats,
              with_default("Data type of the product.", GemmProblem{}.out_dtype));
    add_flag(app, "--accumulate", accumulate_, "Add the product to its output.");
  }

  void check_product_options() const {
    if (a_.empty() || b_.empty()) {
      refuse_usage(
          "--a and --b name the operands of a product: give both, as --a e4m3:1x128 --b "
          "e4m3:128x128");
    }
    std::vector<std::string> given;
    for (const char* option : kLayerOptions) {
      if (app_->count(option) > 0) given.emplace_back(option);
    }
    if (given.empty()) return;
    refuse_usage("{} {} with a layer, not with --a and --b", fmt::join(given, ", "),
                 given.size() == 1 ? "goes" : "go");
  }

  Case product_case(const LayerCase& shape) const {
    const auto product_on = [&](Device device) {
      GemmProblem problem;
      problem.m = shape.m;
      problem.n = shape.n;
      problem.k = shape.k;
      problem.a = parse_operand("--a", a_);
      problem.b = parse_operand("--b", b_);
      problem.out_dtype = out_.value_or(problem.out_dtype);
      problem.accumulate = accumulate_;
      problem.bias_dtype = bias_;
      problem.fast_accumulation = layer_.fast_accumulation;
      problem.max_multiprocessors = layer_.max_multiprocessors;
      problem.device = device;
      return problem;
    };
    const GemmProblem problem =
        on_best_device(common_.device, product_on, [&](const GemmProblem& made) {
          plan_gemm(made, {data_.backend, 0});
        });
    Case one;
    one.name = shape.name();
    one.extents = {shape.m, shape.n, shape.k};
    one.arguments = describe(problem);
    one.device = problem.device;
    one.check = [problem](const DataOptions& data) { return check_gemm(problem, data); };
    one.implementation = [problem](const DataOptions& data) {
      return "gemm=" + plan_gemm(problem, {data.backend, data.threads}).implementation;
    };
    return one;
  }

  const CLI::App* app_ = nullptr;
  std::string dtype_ = "fp8";
  std::vector<std::string> models_;
  std::vector<std::int64_t> mbs_;
  std::optional<std::int64_t> sequence_;
  std::string suite_;
  std::optional<std::int64_t> random_;
  std::optional<Dtype> bias_, dbias_;
  LayerOptions layer_;
  // Only octet bench.
  bool prequantized_ = false;
  std::string baseline_;
  // Only octet check, such as "e4m3:1x128". If any is given, a product is checked, else a layer.
  std::string a_, b_;
  std::optional<Dtype> out_;
  bool accumulate_ = false;
};

}  // namespace

std::unique_ptr<Operator> make_gemm_operator() { return std::make_unique<Gemm>(); }

}  // namespace octet::tool
