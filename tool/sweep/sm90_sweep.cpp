// octet_sm90_sweep: times the configurations of the Hopper product against the current choice, over
// the three products of the layers of a suite. Prints the current choice, its rate and that of the
// best other one; "replaces" marks shapes where another configuration is more than 2 % faster.
//
//     octet_sm90_sweep [SUITE]          dense84 where none is named
//     octet_sm90_sweep MxNxK ...        layers by shape, with every configuration that fits
#include "tool/cases/suites.hpp"
#include "tool/options/parse.hpp"

#include "bench/workloads/tensors.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/gemm/sm90/wgmma.hpp"
#include "ops/gemm/problem.hpp"

#include <octet/bench.hpp>
#include <octet/octet.hpp>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace octet::tool {
namespace {

constexpr Device kDevice{DeviceType::cuda, 0};
constexpr int kMultiprocessors = 132;  // of an H200
constexpr double kWorthATry = 1.25;    // times the clocks the model predicts for the current choice
constexpr double kWorthAChange = 1.02;

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

// The configurations to compare with the current choice: those that the model predicts to be close,
// at least one, or all if `all` is set.
std::vector<Sm90GemmConfig> rivals(const GemmProblem& problem, const Sm90GemmConfig& current,
                                   bool all) {
  std::vector<Sm90GemmConfig> others;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (sm90_gemm_fits(problem, config) && !(config == current)) others.push_back(config);
  }
  const auto clocks = [&](const Sm90GemmConfig& config) {
    return sm90_gemm_clocks(problem, config, kMultiprocessors);
  };
  std::ranges::sort(others, {}, clocks);
  const auto far = std::ranges::find_if(others, [&](const Sm90GemmConfig& config) {
    return !all && clocks(config) > kWorthATry * clocks(current);
  });
  const std::ptrdiff_t near = std::max<std::ptrdiff_t>(far - others.begin(), 1);
  others.resize(std::min(others.size(), static_cast<std::size_t>(near)));
  return others;
}

struct Rate {
  std::string name;
  double tflops = 0;
};

void sweep(bench::DeviceTiming& timing, const GemmProblem& problem, bool all) {
  const QuantizedTensor a = random_operand(problem.m, problem.k, problem.a.block, 1);
  const QuantizedTensor b = random_operand(problem.n, problem.k, problem.b.block, 2);
  const Tensor d(problem.out_dtype, {problem.m, problem.n}, kDevice);
  const GemmArgs args{a, b, d};
  const auto task = [&](const Sm90GemmConfig& config) {
    const GemmPlan plan =
        plan_gemm(problem, {.backend = "cuda_sm90_wgmma", .configuration = name(config)});
    return bench::Task{[&, plan](std::int64_t) { run(plan, args, {}, timing.stream()); }};
  };
  // Rounds of 0.1 s: in shorter ones both run at the clock that their combined power draw allows.
  bench::Protocol protocol;
  protocol.warmup = 3;
  protocol.rounds = 3;
  protocol.seconds = 0.6;

  const Sm90GemmConfig& current = choose_sm90_gemm(problem, kMultiprocessors);
  double best_ratio = std::numeric_limits<double>::infinity();
  Rate ours{name(current)};
  Rate best;
  for (const Sm90GemmConfig& config : rivals(problem, current, all)) {
    const bench::Comparison result = timing.compare(task(current), task(config), protocol);
    const double tflops =
        bench::gemm_tflops(problem.m, problem.n, problem.k, result.peer.median_seconds());
    std::fprintf(stderr, "%s: %s %.0f, %.3f of %s\n", describe(problem).c_str(),
                 name(config).c_str(), tflops, 1 / result.ratio, ours.name.c_str());
    if (result.ratio < best_ratio) {
      best_ratio = result.ratio;
      best = {name(config), tflops};
      ours.tflops = tflops * result.ratio;
    }
  }
  const bool replaced = best_ratio * kWorthAChange < 1;
  if (replaced) std::swap(ours, best);
  std::printf("    {%lld, %lld, %lld, \"%s\", %.0f, %.0f},%s\n", static_cast<long long>(problem.m),
              static_cast<long long>(problem.n), static_cast<long long>(problem.k),
              ours.name.c_str(), ours.tflops, best.tflops,
              replaced ? text("  // replaces ", best.name).c_str() : "");
  std::fflush(stdout);
}

struct Layers {
  std::vector<LayerCase> cases;
  bool by_shape = false;
};

// Layers from a suite, or from shapes.
Layers layers_of(const std::vector<std::string>& arguments) {
  Layers layers;
  for (const std::string& argument : arguments) {
    std::int64_t factors[3];
    layers.by_shape = parse_shape(argument, factors, 3);
    if (!layers.by_shape && arguments.size() > 1) {
      refuse_usage("one suite, or shapes MxNxK, got {} among {} arguments", argument,
                   arguments.size());
    }
    if (!layers.by_shape) return {load_suite(argument)};
    LayerCase layer;
    layer.m = factors[0];
    layer.n = factors[1];
    layer.k = factors[2];
    layers.cases.push_back(layer);
  }
  return layers;
}

int sweep_layers(const std::vector<std::string>& arguments) {
  const Layers layers = layers_of(arguments);
  bench::DeviceTiming timing(kDevice);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>> done;
  const auto once = [&](std::int64_t m, std::int64_t n, std::int64_t k, BlockShape block) {
    if (!done.insert({m, n, k, block == kBlock1x128}).second) return;
    GemmProblem problem;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.b.block = block;
    problem.out_dtype = Dtype::bf16;
    problem.device = kDevice;
    sweep(timing, problem, layers.by_shape);
  };
  for (const LayerCase& layer : layers.cases) {
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
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.empty()) arguments = {"dense84"};
    return octet::tool::sweep_layers(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "octet_sm90_sweep: %s\n", error.what());
    return 1;
  }
}
