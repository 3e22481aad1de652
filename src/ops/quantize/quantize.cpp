#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "quantize";

}  // namespace

std::span<const QuantizeImplementation> quantize_implementations() {
  static const std::array<QuantizeImplementation, 3> list{kQuantizeCudaSm90Tile, kQuantizeCpuSimd,
                                                          kQuantizeCpuReference};
  return list;
}

std::string describe(const QuantizeProblem& problem) {
  std::string result = text("quantize --shape ", problem.rows, "x", problem.cols, " --dtype ",
                            name(problem.input_dtype), " --format ", name(problem.format),
                            " --block ", problem.block ? name(*problem.block) : "none");
  if (problem.transposed_block) result += " --transposed-block " + name(*problem.transposed_block);
  if (problem.amax_floor != 0) result += " --amax-floor " + exact_text(problem.amax_floor);
  if (problem.pow2_scales) result += " --pow2-scales";
  return result + " --device " + name(problem.device);
}

void check(const QuantizeProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "input_dtype"}, problem.input_dtype);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  check_fp8_output(kOp, options_of(problem));
  check_device(kOp, problem.device);
}

void check(const QuantizeProblem& problem, const QuantizeArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace) {
  Fp8Copies copies{args.out, args.transposed};
  Call call(kOp, problem.device);
  call.reads("input", args.input,
             MatrixForm{problem.input_dtype, problem.rows, problem.cols, "[rows, cols]"});
  write_fp8_copies(call, options_of(problem), copies, problem.rows, problem.cols,
                   {.out = "out", .transposed = "transposed"});
  call.check_apart(workspace_bytes, workspace);
}

QuantizePlan plan_quantize(const QuantizeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(quantize_implementations(), problem,
                   make_request(kOp, "fp8", describe(problem), options.backend), options);
}

void run(const QuantizePlan& plan, const QuantizeArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
