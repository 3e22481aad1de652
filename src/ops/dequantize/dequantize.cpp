#include "core/checks.hpp"
#include "ops/dequantize/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "dequantize";

}  // namespace

std::span<const DequantizeImplementation> dequantize_implementations() {
  static const std::array<DequantizeImplementation, 2> list{kDequantizeCpuSimd,
                                                            kDequantizeCpuReference};
  return list;
}

std::string describe(const DequantizeProblem& problem) {
  return text("dequantize --shape ", problem.rows, "x", problem.cols, " --format ",
              name(problem.format), " --block ", name(problem.block), " --out ", name(problem.out),
              " --device ", name(problem.device));
}

void check(const DequantizeProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_fp8({kOp, "format"}, problem.format);
  check_float({kOp, "out"}, problem.out);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  if (!(problem.block == kBlock1x128 || problem.block == kBlock128x1 ||
        problem.block == kBlock128x128)) {
    fail(ErrorCode::unsupported, kOp, ": block must be 1x128, 128x1 or 128x128, got ",
         name(problem.block));
  }
  check_device(kOp, problem.device);
}

void check(const DequantizeProblem& problem, const DequantizeArgs& args) {
  check_quantized({kOp, "input"}, args.input, problem.format, problem.rows, problem.cols,
                  problem.block, problem.device, Pitch::any, "[rows, cols]");
  check_matrix({kOp, "out"}, args.out, problem.out, problem.rows, problem.cols, problem.device,
               "[rows, cols]");
  const QuantizedView out = args.out;
  check_no_overlap(kOp, "out", out, "input", args.input);
}

DequantizePlan plan_dequantize(const DequantizeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(dequantize_implementations(), problem,
                   make_request(kOp, "fp8", describe(problem), options.backend), options);
}

void run(const DequantizePlan& plan, const DequantizeArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
