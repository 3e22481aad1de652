#include "core/checks.hpp"
#include "ops/quantize/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "quantize";

void check_block(const char* option, const std::optional<BlockShape>& block) {
  if (!block) return;
  if (!(*block == kBlock1x128 || *block == kBlock128x1 || *block == kBlock128x128)) {
    fail(ErrorCode::unsupported, kOp, ": ", option, " must be 1x128, 128x1 or 128x128, got ",
         name(*block));
  }
}

}  // namespace

std::span<const QuantizeImplementation> quantize_implementations() {
  static const std::array<QuantizeImplementation, 3> list{kQuantizeCudaSm90Tile, kQuantizeCpuSimd,
                                                          kQuantizeCpuReference};
  return list;
}

std::string describe(const QuantizeProblem& problem) {
  std::string result = text("quantize --shape ", problem.rows, "x", problem.cols, " --dtype ",
                            name(problem.input), " --format ", name(problem.format), " --block ",
                            problem.block ? name(*problem.block) : "none");
  if (problem.transposed_block) result += " --transposed-block " + name(*problem.transposed_block);
  if (problem.amax_floor != 0) result += text(" --amax-floor ", problem.amax_floor);
  if (problem.pow2_scales) result += " --pow2-scales";
  return result + " --device " + name(problem.device);
}

void check(const QuantizeProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "input"}, problem.input);
  check_fp8({kOp, "format"}, problem.format);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  if (!problem.block && !problem.transposed_block) {
    refuse_argument(kOp, ": block and transposed_block are both empty: there is nothing to write");
  }
  check_block("block", problem.block);
  check_block("transposed_block", problem.transposed_block);
  check_amax_floor(kOp, problem.amax_floor);
  check_device(kOp, problem.device);
}

void check(const QuantizeProblem& problem, const QuantizeArgs& args) {
  check_matrix({kOp, "input"}, args.input, problem.input, problem.rows, problem.cols,
               problem.device, "[rows, cols]");
  const QuantizedView input = args.input;
  if (problem.block) {
    check_quantized({kOp, "out"}, args.out, problem.format, problem.rows, problem.cols,
                    *problem.block, problem.device, Pitch::aligned16, "[rows, cols]");
    check_no_overlap(kOp, "out", args.out, "input", input);
  }
  if (problem.transposed_block) {
    check_quantized({kOp, "transposed"}, args.transposed, problem.format, problem.cols,
                    problem.rows, *problem.transposed_block, problem.device, Pitch::aligned16,
                    "[cols, rows]");
    check_no_overlap(kOp, "transposed", args.transposed, "input", input);
  }
  if (problem.block && problem.transposed_block) {
    check_no_overlap(kOp, "transposed", args.transposed, "out", args.out);
  }
}

QuantizePlan plan_quantize(const QuantizeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(quantize_implementations(), problem,
                   make_request(kOp, "fp8", describe(problem), options.backend), options);
}

void run(const QuantizePlan& plan, const QuantizeArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  check_workspace_apart(
      kOp, plan.workspace_bytes, workspace,
      {{"input", args.input},
       {"out", plan.problem.block ? args.out : QuantizedView()},
       {"transposed", plan.problem.transposed_block ? args.transposed : QuantizedView()}});
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
