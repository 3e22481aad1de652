// octet_sm90_sweep: times the configurations of the Hopper product against the one the model takes,
// over the three products of the layers of a suite, and prints the lines of cuda_sm90_pinned.cpp.
//
//     octet_sm90_sweep [SUITE]     dense84 where none is named
#include "suites.hpp"

#include "bench/inputs.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/gemm/cuda_sm90_choose.hpp"
#include "ops/gemm/cuda_sm90_wgmma.hpp"

#include <octet/bench.hpp>
#include <octet/octet.hpp>

#include <cstdio>
#include <set>
#include <tuple>

namespace octet::tool {
namespace {

constexpr Device kDevice{DeviceType::cuda, 0};
constexpr int kMultiprocessors = 132;  // of an H200, whose table this makes
constexpr double kWorthATry = 1.25;    // times the clocks the model predicts for its choice
constexpr double kWorthAPin = 1.02;

QuantizedTensor random_operand(std::int64_t rows, std::int64_t cols, BlockShape block,
                               std::uint32_t stream) {
  Tensor input(Dtype::bf16, {rows, cols}, kDevice);
  bench::fill_input(input, {}, stream);
  QuantizedTensor out(rows, cols, Dtype::e4m3, block, kDevice);
  QuantizeProblem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.block = block;
  problem.device = kDevice;
  run(plan_quantize(problem), {input, out, {}});
  cuda::synchronize(kDevice.index);  // the input is released here
  return out;
}

const Sm90GemmConfig& model_choice(const GemmProblem& problem) {
  const Sm90GemmConfig* best = nullptr;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (!sm90_gemm_fits(problem, config)) continue;
    if (best == nullptr || sm90_gemm_clocks(problem, config, kMultiprocessors) <
                               sm90_gemm_clocks(problem, *best, kMultiprocessors)) {
      best = &config;
    }
  }
  return *best;
}

void sweep(bench::DeviceTiming& timing, const GemmProblem& problem) {
  const QuantizedTensor a = random_operand(problem.m, problem.k, problem.a.block, 1);
  const QuantizedTensor b = random_operand(problem.n, problem.k, problem.b.block, 2);
  const Tensor d(problem.out, {problem.m, problem.n}, kDevice);
  const GemmArgs args{a, b, d};
  RunContext context{};
  context.stream = timing.stream();
  const auto task = [&](const Sm90GemmConfig& config) {
    return bench::Task{
        [&, config](std::int64_t) { launch_sm90_gemm(config, problem, args, context); }};
  };
  const Sm90GemmConfig& model = model_choice(problem);
  const double limit = kWorthATry * sm90_gemm_clocks(problem, model, kMultiprocessors);
  const double flops = 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                       static_cast<double>(problem.k);
  bench::Protocol protocol;
  protocol.warmup = 3;
  protocol.seconds = 0.1;
  protocol.settle_seconds = 0;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (!sm90_gemm_fits(problem, config) || config == model) continue;
    if (sm90_gemm_clocks(problem, config, kMultiprocessors) > limit) continue;
    const bench::Comparison result = timing.compare(task(model), task(config), protocol);
    const double tflops = flops / result.peer.median_seconds() / 1e12;
    std::printf("%s {%lld, %lld, %lld, \"%s\", %.0f, %.0f},  // %.3f of %s\n",
                result.ratio * kWorthAPin < 1 ? "PIN" : "   ", static_cast<long long>(problem.m),
                static_cast<long long>(problem.n), static_cast<long long>(problem.k),
                name(config).c_str(), tflops, tflops * result.ratio, 1 / result.ratio,
                name(model).c_str());
    std::fflush(stdout);
  }
}

int sweep_suite(const std::string& suite) {
  bench::DeviceTiming timing(kDevice);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>> done;
  const auto once = [&](std::int64_t m, std::int64_t n, std::int64_t k, BlockShape block) {
    if (!done.insert({m, n, k, block == kBlock1x128}).second) return;
    GemmProblem problem;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.b.block = block;
    problem.out = Dtype::bf16;
    problem.device = kDevice;
    sweep(timing, problem);
  };
  for (const LayerCase& layer : load_suite(suite)) {
    once(layer.m, layer.n, layer.k, kBlock128x128);
    once(layer.m, layer.k, layer.n, kBlock128x128);
    once(layer.n, layer.k, layer.m, kBlock1x128);
  }
  return 0;
}

}  // namespace
}  // namespace octet::tool

int main(int argc, char** argv) {
  try {
    return octet::tool::sweep_suite(argc > 1 ? argv[1] : "dense84");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "octet_sm90_sweep: %s\n", error.what());
    return 1;
  }
}
