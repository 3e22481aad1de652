#include "c_api/plan.hpp"

#include <cstddef>

namespace octet::c_api {
namespace {

constexpr const char* kOp = "quantize";

static_assert(equal(OCTET_TAIL_ZERO, GroupTail::zero));
static_assert(equal(OCTET_TAIL_UNTOUCHED, GroupTail::untouched));
static_assert(equal(OCTET_MX_FLOOR, MxScale::floor));
static_assert(equal(OCTET_MX_EVEN, MxScale::even));
static_assert(equal(OCTET_MX_UP, MxScale::up));

QuantizeProblem read_problem(const octet_quantize_problem* given) {
  const auto c = read_struct(kOp, "problem", given, offsetof(octet_quantize_problem, source_top_k));
  QuantizeProblem problem;
  problem.rows = c.rows;
  problem.cols = c.cols;
  problem.input_dtype = read_dtype(kOp, "input", c.input_dtype);
  problem.format = read_dtype(kOp, "format", c.format);
  problem.block = read_optional_block(kOp, "out", c.block);
  problem.transposed_block = read_optional_block(kOp, "transposed", c.transposed_block);
  problem.amax_floor = c.amax_floor;
  problem.pow2_scales = read_flag(kOp, "pow2_scales", c.pow2_scales);
  problem.batch = c.batch;
  problem.groups = c.groups;
  problem.source_rows = c.source_rows;
  problem.source_top_k = c.source_top_k;
  problem.tail = static_cast<GroupTail>(c.tail);
  problem.given_scales = read_flag(kOp, "given_scales", c.given_scales);
  problem.fold_mx = read_flag(kOp, "fold_mx", c.fold_mx);
  problem.mx_scale = static_cast<MxScale>(c.mx_scale);
  problem.device = read_device(kOp, "problem", c.device);
  return problem;
}

QuantizeArgs read_args(const QuantizeProblem& problem, const octet_quantize_args* given) {
  const auto c = read_struct(kOp, "args", given, offsetof(octet_quantize_args, table));
  QuantizeArgs args;
  args.input = read_tensor(kOp, "input", c.input);
  if (problem.block) args.out = read_quantized(kOp, "out", c.out);
  if (problem.transposed_block) args.transposed = read_quantized(kOp, "transposed", c.transposed);
  if (problem.groups > 0) args.table = read_tensor(kOp, "table", c.table);
  if (problem.source_rows > 0) args.source = read_tensor(kOp, "source", c.source);
  return args;
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_quantize_plan(const octet_quantize_problem* problem,
                                      const octet_plan_options* options, octet_plan** plan) {
  return plan_op(kOp, kOp, read_problem, octet::plan_quantize, problem, options, plan);
}

octet_status octet_run_quantize(const octet_plan* plan, const octet_quantize_args* args,
                                void* workspace, size_t workspace_bytes, void* stream) {
  return run_op<octet::QuantizePlan>(kOp, read_args, plan, args, workspace, workspace_bytes,
                                     stream);
}

}  // extern "C"
