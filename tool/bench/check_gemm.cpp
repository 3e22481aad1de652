// octet check gemm: every gate of a layer, or of one product given by its operands.
#include "tool/commands.hpp"
#include "tool/console.hpp"
#include "tool/options/op_options.hpp"
#include "tool/bench/gate_table.hpp"
#include "tool/operators/layer.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>

namespace octet::tool {
namespace {

struct CheckGemmOptions {
  GemmOptions gemm;
  std::string a;  // "e4m3:1x128"; a product where it is given, a layer where not
  std::string b;
  std::optional<Dtype> out;
  bool accumulate = false;
};

// Those of a layer, which a product would leave unread.
constexpr std::array kLayerOptions{"--dtype",       "--granularity",  "--input", "--format",
                                   "--grad-format", "--wgrad-blocks", "--dw",    "--accumulate-dw",
                                   "--amax-floor",  "--pow2-scales"};

void refuse_layer_options(const CLI::App& app) {
  std::vector<std::string> given;
  for (const char* option : kLayerOptions) {
    if (app.count(option) > 0) given.emplace_back(option);
  }
  if (given.empty()) return;
  refuse_usage("{} {} with a layer, not with --a and --b", fmt::join(given, ", "),
               given.size() == 1 ? "goes" : "go");
}

// "e4m3:1x128", "bf16", "bf16:mn"
GemmOperand parse_operand(const std::string& option, const std::string& text) {
  const auto refuse = [&]() {
    refuse_usage("{} must be e4m3|e5m2:1x128|128x128 or bf16|f16|f32[:mn], got \"{}\"", option,
                 text);
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

GemmProblem product_on(const LayerCase& shape, const CheckGemmOptions& options, Device device) {
  GemmProblem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.a = parse_operand("--a", options.a);
  problem.b = parse_operand("--b", options.b);
  problem.out = options.out.value_or(Dtype::bf16);
  problem.accumulate = options.accumulate;
  problem.device = device;
  return problem;
}

// On the device of the options or else on the best whose implementations take it.
GemmProblem product_problem(const LayerCase& shape, const CheckGemmOptions& options) {
  if (options.gemm.device) return product_on(shape, options, *options.gemm.device);
  for (int index = 0; index < cuda_device_count(); ++index) {
    const GemmProblem problem = product_on(shape, options, {DeviceType::cuda, index});
    try {
      plan_gemm(problem, {options.gemm.backend, 0});
      return problem;
    } catch (const Error&) {
      continue;
    }
  }
  return product_on(shape, options, kCpu);
}

int check_products(const CLI::App& app, const CheckGemmOptions& options,
                   const bench::WorkloadOptions& data) {
  if (options.a.empty() || options.b.empty()) {
    refuse_usage(
        "--a and --b name the operands of a product: give both, as --a e4m3:1x128 --b "
        "e4m3:128x128");
  }
  refuse_layer_options(app);
  GateTally tally;
  for (const LayerCase& shape : chosen_cases(options.gemm)) {
    const GemmProblem problem = product_problem(shape, options);
    const std::string command = "octet check " + describe(problem) + data_arguments(data);
    tally.add(command, check_gemm(problem, gate_options(data)));
  }
  return tally.finish();
}

int check_layers(const CheckGemmOptions& options) {
  std::vector<Layer> layers;
  for (const LayerCase& layer_case : chosen_cases(options.gemm)) {
    layers.push_back(make_layer(layer_case, options.gemm));
    make_workload(layers.back(), false);
  }
  GateTally tally;
  for (const Layer& layer : layers) {
    const std::string command =
        "octet check gemm " + layer.arguments() + data_arguments(layer.data);
    tally.add(command, run_gates(layer));
  }
  return tally.finish();
}

int check_gemm_command(const CLI::App& app, const CheckGemmOptions& options) {
  const bool product =
      !options.a.empty() || !options.b.empty() || options.out || options.accumulate;
  if (!product) return check_layers(options);
  const GemmOptions& gemm = options.gemm;
  return check_products(
      app, options,
      {parse_distribution(gemm.distribution), static_cast<std::uint64_t>(gemm.seed),
       static_cast<int>(gemm.threads), gemm.backend, gemm.quantize_backend});
}

}  // namespace

void add_check_gemm(CLI::App& check, Chosen& chosen) {
  CLI::App* app = check.add_subcommand("gemm", "a linear layer, or one product (--a, --b, --out)");
  const auto options = std::make_shared<CheckGemmOptions>();
  add_gemm_options(*app, options->gemm);
  add_text(*app, "--a", options->a, "DTYPE[:BLOCK|:mn]", "left operand of one product");
  add_text(*app, "--b", options->b, "DTYPE[:BLOCK|:mn]", "right operand of one product");
  add_dtype(*app, "--out", options->out, {Dtype::bf16, Dtype::f16, Dtype::f32},
            "of one product; bf16");
  add_flag(*app, "--accumulate", options->accumulate, "add one product to its output");
  choose_when_given(*app, chosen, [app, options] { return check_gemm_command(*app, *options); });
}

}  // namespace octet::tool
