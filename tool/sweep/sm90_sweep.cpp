// octet_sm90_sweep: times the configurations of the Hopper product, and cuBLASLt, against the current choice,
// over the three products of the layers of a suite. Prints the current choice, its rate and that of the
// best other configuration; "replaces" marks shapes where another one is more than 2 % faster.
//
//     octet_sm90_sweep [OPERANDS] [SUITE]          dense84 where none is named
//     octet_sm90_sweep [OPERANDS] MxNxK ...        layers by shape, with every configuration that fits
//
// OPERANDS: blockwise (where none is named), rowwise, tensorwise, fast (rowwise with fast_accumulation), bf16
// or f16.
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
#include <utility>
#include <vector>

namespace octet::tool {
namespace {

constexpr Device kDevice{DeviceType::cuda, 0};
constexpr int kMultiprocessors = 132;  // of an H200
constexpr double kWorthATry = 1.25;    // times the clocks the model predicts for the current choice
constexpr double kWorthAChange = 1.02;

// Random numbers as an operand [rows, k]. Scales of whole rows are random, too: the values are those of 1x128
// blocks, which take as long.
class RandomOperand {
 public:
  RandomOperand(std::int64_t rows, std::int64_t k, const GemmOperand& operand,
                std::uint32_t stream) {
    const bool transposed_input = operand.major == Major::mn;
    const Dtype dtype = is_fp8(operand.dtype) ? Dtype::bf16 : operand.dtype;
    Tensor input(dtype, {transposed_input ? k : rows, transposed_input ? rows : k}, kDevice);
    bench::fill_input(input, {}, stream);
    if (!is_fp8(operand.dtype)) {
      plain_ = std::move(input);
      view_ = transposed_input ? transposed(plain_.view()) : plain_.view();
      return;
    }
    QuantizeProblem problem;
    problem.rows = rows;
    problem.cols = k;
    problem.block = is_whole_row(operand.block) ? kBlock1x128 : operand.block;
    problem.device = kDevice;
    fp8_ = QuantizedTensor(rows, k, operand.dtype, *problem.block, kDevice);
    run(plan_quantize(problem), {input, fp8_, {}});
    view_ = fp8_.view();
    if (is_whole_row(operand.block)) {
      plain_ = Tensor(Dtype::f32, {rows, 1}, kDevice);
      bench::fill_input(plain_, {}, stream + 1);
      view_.scales = plain_.view();
      if (operand.block == kWholeTensor) view_.scales.shape[0] = 1;
      view_.block = operand.block;
    }
    cuda::synchronize(kDevice.index);  // the input is released here
  }

  const QuantizedView& view() const { return view_; }

 private:
  QuantizedTensor fp8_;
  Tensor plain_;
  QuantizedView view_;
};

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
  const RandomOperand a(problem.m, problem.k, problem.a, 1);
  const RandomOperand b(problem.n, problem.k, problem.b, 3);
  const Tensor d(problem.out_dtype, {problem.m, problem.n}, kDevice);
  const GemmArgs args{a.view(), b.view(), d};
  const auto task_of = [&](const GemmPlan& plan) {
    auto memory = std::make_shared<Buffer>(plan.workspace_bytes, kDevice);
    return bench::Task{[&, plan, memory](std::int64_t) {
      run(plan, args, {memory->data(), memory->bytes()}, timing.stream());
    }};
  };
  const auto task = [&](const Sm90GemmConfig& config) {
    return task_of(
        plan_gemm(problem, {.backend = "cuda_sm90_wgmma", .configuration = name(config)}));
  };
  // Rounds of 0.1 s: in shorter ones both run at the clock that their combined power draw allows.
  bench::Protocol protocol;
  protocol.warmup = 3;
  protocol.rounds = 3;
  protocol.seconds = 0.6;

  const Sm90GemmConfig& current = choose_sm90_gemm(problem, kMultiprocessors);
  const auto print = [&](const std::string& other, const bench::Comparison& result) {
    const double tflops =
        bench::gemm_tflops(problem.m, problem.n, problem.k, result.peer.median_seconds());
    std::fprintf(stderr, "%s: %s %.0f, %.3f of %s\n", describe(problem).c_str(), other.c_str(),
                 tflops, 1 / result.ratio, name(current).c_str());
    return tflops;
  };
  try {
    const GemmPlan plan = plan_gemm(problem, {.backend = "cublaslt"});
    print("cublaslt", timing.compare(task(current), task_of(plan), protocol));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  double best_ratio = std::numeric_limits<double>::infinity();
  Rate ours{name(current)};
  Rate best;
  for (const Sm90GemmConfig& config : rivals(problem, current, all)) {
    const bench::Comparison result = timing.compare(task(current), task(config), protocol);
    const double tflops = print(name(config), result);
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

// The operands of a layer's three products, and how they are added up.
struct Operands {
  std::string_view name;
  GemmOperand x, w, w_t, dy_t, x_t;  // dy has x's
  bool fast_accumulation = false;
};

Operands whole_rows(std::string_view name, BlockShape block, bool fast) {
  const GemmOperand operand{Dtype::e4m3, block};
  return {name, operand, operand, operand, operand, operand, fast};
}

Operands plain(std::string_view name, Dtype dtype) {
  const GemmOperand stored{dtype, {}, Major::k};
  const GemmOperand viewed{dtype, {}, Major::mn};
  return {name, stored, stored, viewed, viewed, viewed};
}

std::vector<Operands> all_operands() {
  const GemmOperand rows{Dtype::e4m3, kBlock1x128};
  const GemmOperand squares{Dtype::e4m3, kBlock128x128};
  return {{"blockwise", rows, squares, squares, rows, rows},
          whole_rows("rowwise", kEachRow, false),
          whole_rows("tensorwise", kWholeTensor, false),
          whole_rows("fast", kEachRow, true),
          plain("bf16", Dtype::bf16),
          plain("f16", Dtype::f16)};
}

int sweep_layers(std::vector<std::string> arguments) {
  const std::vector<Operands> known = all_operands();
  auto operands = known.begin();
  if (!arguments.empty()) {
    const auto named = std::ranges::find(known, arguments.front(), &Operands::name);
    if (named != known.end()) {
      operands = named;
      arguments.erase(arguments.begin());
    }
  }
  if (arguments.empty()) arguments = {"dense84"};
  const Layers layers = layers_of(arguments);
  bench::DeviceTiming timing(kDevice);
  std::set<std::string> done;
  const auto once = [&](std::int64_t m, std::int64_t n, std::int64_t k, const GemmOperand& a,
                        const GemmOperand& b) {
    GemmProblem problem;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.a = a;
    problem.b = b;
    problem.out_dtype = is_fp8(a.dtype) ? Dtype::bf16 : a.dtype;
    problem.fast_accumulation = operands->fast_accumulation;
    problem.device = kDevice;
    if (done.insert(describe(problem)).second) sweep(timing, problem, layers.by_shape);
  };
  for (const LayerCase& layer : layers.cases) {
    once(layer.m, layer.n, layer.k, operands->x, operands->w);
    once(layer.m, layer.k, layer.n, operands->x, operands->w_t);
    once(layer.n, layer.k, layer.m, operands->dy_t, operands->x_t);
  }
  return 0;
}

}  // namespace
}  // namespace octet::tool

int main(int argc, char** argv) {
  try {
    return octet::tool::sweep_layers({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "octet_sm90_sweep: %s\n", error.what());
    return 1;
  }
}
