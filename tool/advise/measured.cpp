#include "tool/advise/measured.hpp"

#include "tool/console.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/command_text.hpp"
#include "tool/options/parse.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string_view>

namespace octet::tool {
namespace {

constexpr LayerShape kSample{256, 256, 2048};
constexpr double kSecondsPerTiming = 0.3;  // beside warm-ups of at most a quarter of it

// The case of `octet bench gemm` with these options. Throws what the command would.
struct LayerBench {
  CLI::App app{"", "octet bench gemm"};
  std::unique_ptr<Operator> op;
  Case layer;

  LayerBench(std::vector<std::string> words, const LayerShape& shape, Device device) {
    for (const MakeOperator make : operators()) {
      op = make();
      if (op->name() == std::string_view("gemm")) break;
    }
    op->add_options(app, true);
    op->add_bench_options(app);
    words.insert(words.end(), {"--shape", shape.text(), "--device", octet::name(device)});
    std::reverse(words.begin(), words.end());  // CLI11 reads from the back
    try {
      app.parse(words);
    } catch (const CLI::ParseError& error) {
      throw UsageError(explain(app, error));
    }
    op->check_bench_options();
    layer = op->chosen_cases().front();
  }
};

std::unique_ptr<bench::Workload> workload_of(const LayerBench& bench_of) {
  return bench_of.layer.workload(bench_of.op->data_options());
}

Figure measured(double value) { return {value, Source::measured}; }

// Without casts in turns with the products alone, since the difference of two runs is mostly noise.
void time_layer(const Precision& precision, const LayerShape& shape, Device device,
                std::unique_ptr<bench::Workload> workload, LayerCost& cost) {
  TimingOptions options;
  options.seconds_per_case = kSecondsPerTiming;
  const bench::Protocol protocol = make_protocol(options, device, kSecondsPerTiming);
  if (precision.reads > 0) {
    std::vector<std::string> words = precision.options;
    words.emplace_back("--prequantized");
    const LayerBench products(words, shape, device);
    workload = bench::beside(std::move(workload), workload_of(products));
  }
  bench::DeviceTiming timing(device);
  workload->set_stream(timing.stream());
  workload->allocate(bench::most_calls(protocol));
  bench::Samples times;
  if (const bench::Task products = workload->peer(); !products.empty()) {
    const bench::Comparison both = timing.compare(workload->task(), products, protocol);
    times = both.ours;
    // A ratio is the median over the turns: of the products' time over the layer's.
    double casts = 0;
    for (std::size_t part = 0; part < both.part_ratios.size(); ++part) {
      casts += both.ours.median_seconds(part) * (1 - both.part_ratios[part]);
    }
    if (casts > 0) cost.cast_seconds = measured(casts);  // less is noise
  } else {
    times = timing.measure(workload->task(), protocol);
  }
  cost.forward_seconds = measured(times.median_seconds(0));
  cost.backward_seconds = measured(times.median_seconds(1));
}

// The least of y, dx and dw. G2 is the error of the kernel alone; 16-bit layers have G4.
Figure error_of(const GateReport& report) {
  double least = std::nan("");
  for (const GateResult& gate : report.results) {
    if (gate.gate != "G1" && gate.gate != "G4") continue;
    least = std::fmin(least, gate.snr_db);
  }
  return std::isnan(least) ? Figure{} : measured(least);
}

std::string failed_gate(const GateReport& report) {
  const auto failed = std::find_if(report.results.begin(), report.results.end(),
                                   [](const GateResult& gate) { return !gate.pass; });
  return fmt::format("gate {} of {} failed: {}, wanted {}", failed->gate, failed->tensor,
                     failed->value, failed->bound);
}

}  // namespace

MeasuredLayer measure_layer(const Precision& precision, const LayerShape& shape, Device device) {
  MeasuredLayer result;
  try {
    const LayerBench bench_of(precision.options, shape, device);
    auto workload = workload_of(bench_of);  // refuses what cannot be planned before it is checked
    const auto begin = std::chrono::steady_clock::now();
    const GateReport report = bench_of.layer.check(bench_of.op->data_options());
    result.check_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result.cost.snr_db = error_of(report);
    if (!report.pass()) {
      result.refusal = failed_gate(report);
      return result;
    }
    time_layer(precision, shape, device, std::move(workload), result.cost);
  } catch (const std::exception& error) {
    result.refusal = explain(error);
    std::replace(result.refusal.begin(), result.refusal.end(), '\n', ' ');
  }
  return result;
}

Device best_device(const std::optional<Device>& given) {
  const Precision& fp8 = precisions().at(1);
  const auto same = [](Device device) { return device; };
  return on_best_device(given, same, [&](Device device) {
    const LayerBench bench_of(fp8.options, kSample, device);
    workload_of(bench_of);
  });
}

double expected_seconds(const MeasuredLayer& sample, double times_the_operations) {
  // A warm-up and the least iterations, of the layer and of its products, and all of it again where
  // it was noisy.
  constexpr double kSteps = 16;
  const LayerCost& cost = sample.cost;
  const double step = cost.forward_seconds.value + cost.backward_seconds.value;
  return (sample.check_seconds + kSteps * step) * times_the_operations + 4 * kSecondsPerTiming;
}

LayerShape sample_of(const LayerShape& shape) {
  return {std::min(shape.m, kSample.m), std::min(shape.n, kSample.n), std::min(shape.k, kSample.k)};
}

}  // namespace octet::tool
