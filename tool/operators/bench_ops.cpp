#include "tool/operators/bench_ops.hpp"

#include "tool/bench/bench_step.hpp"

namespace octet::tool {
namespace {

template <std::unique_ptr<StepOp> (*make)()>
BenchOp step_op() {
  return {make()->name(),
          [](CLI::App& bench, Chosen& chosen) { add_bench_step(bench, chosen, make()); },
          [](CLI::App& check, Chosen& chosen) { add_check_step(check, chosen, make()); }};
}

}  // namespace

const std::vector<BenchOp>& bench_ops() {
  static const std::vector<BenchOp> ops{{"gemm", add_bench_gemm, add_check_gemm},
                                        step_op<make_quantize_op>(),
                                        step_op<make_rms_norm_op>(),
                                        step_op<make_rope_op>(),
                                        step_op<make_rms_norm_rope_op>(),
                                        step_op<make_gated_activation_op>(),
                                        step_op<make_gated_mlp_op>()};
  return ops;
}

}  // namespace octet::tool
