// dequantize, of octet's own layout and of values that begin anywhere.
#include "check/data/random_codes.hpp"
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/reference/decode.hpp"

#include <algorithm>

namespace octet {
namespace {

// Row `row` of the products, which are exact in f64 before they are rounded to f32 and to `out`.
void multiply_row(const QuantizedView& input, std::int64_t row, Dtype out,
                  std::span<double> products) {
  const std::int64_t cols = input.values.cols();
  for (std::int64_t first = 0; first < cols; first += kBlock) {
    const auto depth = static_cast<int>(std::min(kBlock, cols - first));
    decode_panel(input, &row, 1, 1, first, depth, products.data() + first);
  }
  for (double& product : products) product = rounded(rounded(product, Dtype::f32), out);
}

GateReport judge_dequantize(const DequantizeProblem& problem, const DataOptions& options,
                            const DequantizePlan& plan) {
  const WrittenTwice out(problem.out_dtype, problem.rows, problem.cols, options.row_gap,
                         problem.device);
  // The second call has the same values one byte further on.
  const RandomCodes first(problem.rows, problem.cols, problem.format, problem.block, {}, options,
                          problem.device);
  const RandomCodes second(problem.rows, problem.cols, problem.format, problem.block,
                           {false, problem.cols + options.row_gap, 1}, options, problem.device);
  run_once(plan, DequantizeArgs{first.view(), out.view(0)}, problem.device);
  run_once(plan, DequantizeArgs{second.view(), out.view(1)}, problem.device);
  GateReport report;
  out.judge_exact(
      "out",
      [&](std::int64_t row, std::span<double> products) {
        multiply_row(first.on_host(), row, problem.out_dtype, products);
      },
      judge_options(options, problem.device), report);
  return report;
}

}  // namespace

GateReport check_dequantize(const DequantizeProblem& problem, const DataOptions& options) {
  const DequantizePlan plan = plan_dequantize(problem, {options.backend, options.threads});
  return within_memory("dequantize", describe(problem),
                       [&] { return judge_dequantize(problem, options, plan); });
}

}  // namespace octet
