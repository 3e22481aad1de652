#include "tool/operators/layer.hpp"

#include "tool/options/op_options.hpp"

#include <octet/error.hpp>

#include <fmt/format.h>

namespace octet::tool {
namespace {

Dtype plain_dtype(const GemmOptions& options) {
  return options.dtype == "f16" ? Dtype::f16 : Dtype::bf16;
}

Fp8LinearProblem fp8_problem(const LayerCase& layer, const GemmOptions& options, Device device) {
  Fp8LinearProblem problem;
  problem.m = layer.m;
  problem.n = layer.n;
  problem.k = layer.k;
  problem.dtype = options.input.value_or(Dtype::bf16);
  problem.format = options.format.value_or(Dtype::e4m3);
  problem.grad_format = options.grad_format.value_or(Dtype::e4m3);
  problem.dw = options.dw.value_or(Dtype::bf16);
  problem.accumulate_dw = options.accumulate_dw;
  problem.wgrad_blocks = options.wgrad_blocks == "2d" ? WgradBlocks::square : WgradBlocks::rows;
  problem.amax_floor = options.amax_floor.value_or(0);
  problem.pow2_scales = options.pow2_scales;
  problem.device = device;
  return problem;
}

Layer layer_on(const LayerCase& layer, const GemmOptions& options, Device device) {
  Layer result;
  result.layer = layer;
  result.fp8 = options.dtype == "fp8";
  if (result.fp8) {
    result.fp8_problem = fp8_problem(layer, options, device);
  } else {
    const Dtype dtype = plain_dtype(options);
    result.products =
        bench::plain_layer_products({layer.m, layer.n, layer.k}, dtype, options.dw.value_or(dtype),
                                    options.accumulate_dw, device);
  }
  result.data = {parse_distribution(options.distribution), static_cast<std::uint64_t>(options.seed),
                 static_cast<int>(options.threads), options.backend, options.quantize_backend};
  return result;
}

bool can_be_planned(const Layer& layer) {
  try {
    make_workload(layer, false);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_options_fit(const GemmOptions& options) {
  if (options.dtype == "fp8") return;
  if (options.format || options.grad_format || options.input || options.amax_floor ||
      options.pow2_scales || options.wgrad_blocks != "1d" || !options.quantize_backend.empty()) {
    refuse_usage(
        "--input, --format, --grad-format, --wgrad-blocks, --amax-floor, --pow2-scales and "
        "--quantize-backend go with --dtype fp8, got --dtype {}",
        options.dtype);
  }
}

void add_results(GateReport& all, GateReport&& part, const char* tensor) {
  for (GateResult& result : part.results) {
    result.tensor = tensor;
    all.results.push_back(std::move(result));
  }
}

}  // namespace

std::string Layer::arguments() const {
  if (fp8) return describe(fp8_problem).substr(sizeof("gemm ") - 1);
  std::string result =
      fmt::format("--dtype {} --shape {}x{}x{}", name(input()), layer.m, layer.n, layer.k);
  if (products.dw.out != input()) result += fmt::format(" --dw {}", name(products.dw.out));
  if (products.dw.accumulate) result += " --accumulate-dw";
  return result + " --device " + name(device());
}

Layer make_layer(const LayerCase& layer, const GemmOptions& options) {
  check_options_fit(options);
  if (options.device) return layer_on(layer, options, *options.device);
  for (int index = 0; index < cuda_device_count(); ++index) {
    const Layer on_cuda = layer_on(layer, options, {DeviceType::cuda, index});
    if (can_be_planned(on_cuda)) return on_cuda;
  }
  return layer_on(layer, options, kCpu);
}

std::unique_ptr<bench::Workload> make_workload(const Layer& layer, bool prequantized) {
  if (!layer.fp8) return bench::make_plain_products(layer.products, layer.data);
  return prequantized ? bench::make_fp8_products(layer.fp8_problem, layer.data)
                      : bench::make_fp8_layer(layer.fp8_problem, layer.data);
}

GateOptions gate_options(const bench::WorkloadOptions& data) {
  GateOptions options;
  options.distribution = data.distribution;
  options.seed = data.seed;
  options.threads = data.threads;
  options.gemm_backend = data.gemm_backend;
  options.quantize_backend = data.quantize_backend;
  options.backend = data.backend;
  return options;
}

GateReport run_gates(const Layer& layer) {
  const GateOptions options = gate_options(layer.data);
  if (layer.fp8) return check_fp8_linear(layer.fp8_problem, options);
  GateReport report;
  add_results(report, check_gemm(layer.products.forward, options), "y");
  add_results(report, check_gemm(layer.products.dx, options), "dx");
  add_results(report, check_gemm(layer.products.dw, options), "dw");
  return report;
}

std::string data_arguments(const bench::WorkloadOptions& data) {
  std::string result;
  if (!data.gemm_backend.empty()) result += " --backend " + data.gemm_backend;
  if (!data.quantize_backend.empty()) result += " --quantize-backend " + data.quantize_backend;
  if (data.threads != 0) result += fmt::format(" --threads {}", data.threads);
  if (data.seed != 1) result += fmt::format(" --seed {}", data.seed);
  if (data.distribution == Distribution::skewed) result += " --distribution skewed";
  return result;
}

}  // namespace octet::tool
