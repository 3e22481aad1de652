#include "core/block_scales.hpp"
#include "core/call.hpp"
#include "ops/repack/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "repack";

}  // namespace

std::span<const RepackImplementation> repack_implementations() {
  static const std::array<RepackImplementation, 2> list{kRepackCudaSm90Vectors,
                                                        kRepackCpuReference};
  return list;
}

std::string describe(const RepackProblem& problem) {
  return text("repack --shape ", problem.rows, "x", problem.cols, " --format ",
              name(problem.format), " --block ", name(problem.block), " --device ",
              name(problem.device));
}

void check(const RepackProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_fp8({kOp, "format"}, problem.format);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  check_any_block(kOp, "block", problem.block);
  check_device(kOp, problem.device);
}

void check(const RepackProblem& problem, const RepackArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace) {
  Call call(kOp, problem.device);
  call.reads("input", args.input,
             QuantizedForm{problem.format, problem.rows, problem.cols, problem.block,
                           "[rows, cols]", Pitch::any});
  call.writes(
      "out", args.out,
      QuantizedForm{problem.format, problem.rows, problem.cols, problem.block, "[rows, cols]"});
  call.check_apart(workspace_bytes, workspace);
}

RepackPlan plan_repack(const RepackProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(repack_implementations(), problem,
                   make_request(kOp, "fp8", describe(problem), options.backend), options);
}

void run(const RepackPlan& plan, const RepackArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
