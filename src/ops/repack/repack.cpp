#include "core/checks.hpp"
#include "ops/repack/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "repack";

}  // namespace

std::span<const RepackImplementation> repack_implementations() {
  static const std::array<RepackImplementation, 1> list{kRepackCpuReference};
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
  if (!(problem.block == kBlock1x128 || problem.block == kBlock128x1 ||
        problem.block == kBlock128x128)) {
    fail(ErrorCode::unsupported, kOp, ": block must be 1x128, 128x1 or 128x128, got ",
         name(problem.block));
  }
  check_device(kOp, problem.device);
}

void check(const RepackProblem& problem, const RepackArgs& args) {
  check_quantized({kOp, "input"}, args.input, problem.format, problem.rows, problem.cols,
                  problem.block, problem.device, Pitch::any, "[rows, cols]");
  check_quantized({kOp, "out"}, args.out, problem.format, problem.rows, problem.cols, problem.block,
                  problem.device, Pitch::aligned16, "[rows, cols]");
  check_no_overlap(kOp, "out", args.out, "input", args.input);
}

RepackPlan plan_repack(const RepackProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(repack_implementations(), problem,
                   make_request(kOp, "fp8", describe(problem), options.backend), options);
}

void run(const RepackPlan& plan, const RepackArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args);
  check_workspace(kOp, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
