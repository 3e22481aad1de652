#include "core/block_scales.hpp"
#include "core/call.hpp"
#include "ops/dequantize/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "dequantize";

}  // namespace

std::span<const DequantizeImplementation> dequantize_implementations() {
  static const std::array<DequantizeImplementation, 3> list{
      kDequantizeCudaSm90Vectors, kDequantizeCpuSimd, kDequantizeCpuReference};
  return list;
}

std::string describe(const DequantizeProblem& problem) {
  return text("dequantize --shape ", problem.rows, "x", problem.cols, " --format ",
              name(problem.format), " --block ", name(problem.block), " --out ",
              name(problem.out_dtype), " --device ", name(problem.device));
}

void check(const DequantizeProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_fp8({kOp, "format"}, problem.format);
  check_float({kOp, "out_dtype"}, problem.out_dtype);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  check_any_block(kOp, "block", problem.block);
  check_device(kOp, problem.device);
}

void check(const DequantizeProblem& problem, const DequantizeArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace) {
  Call call(kOp, problem.device);
  call.reads("input", args.input,
             QuantizedForm{problem.format, problem.rows, problem.cols, problem.block,
                           "[rows, cols]", Pitch::any});
  call.writes("out", args.out,
              MatrixForm{problem.out_dtype, problem.rows, problem.cols, "[rows, cols]"});
  call.check_apart(workspace_bytes, workspace);
}

DequantizePlan plan_dequantize(const DequantizeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(dequantize_implementations(), problem,
                   make_request(kOp, "fp8", describe(problem), options.backend), options);
}

void run(const DequantizePlan& plan, const DequantizeArgs& args, Workspace workspace,
         void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
