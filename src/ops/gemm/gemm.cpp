#include "core/call.hpp"
#include "ops/gemm/problem.hpp"

#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "gemm";

void check_operand(std::string_view op, const char* argument, const GemmOperand& operand) {
  if (operand.major != Major::k && operand.major != Major::mn) {
    refuse_argument(op, ": major of ", argument, " must be k or mn, got ",
                    static_cast<std::int32_t>(operand.major));
  }
  if (!is_fp8(operand.dtype)) {
    check_float({op, text("where it is not FP8, ", argument)}, operand.dtype);
    if (!(operand.block == kUnscaled)) {
      refuse_argument(op, ": ", argument, " is ", name(operand.dtype),
                      ", which has no scales, got ", name(operand.block), " blocks");
    }
    return;
  }
  if (operand.major != Major::k) {
    fail(ErrorCode::unsupported, op, ": FP8 operands must be contiguous along the contraction, ",
         argument, " is not; quantize writes a transposed copy");
  }
  if (!(operand.block == kBlock1x128 || operand.block == kBlock128x128 ||
        is_whole_row(operand.block) || is_mx(operand.block))) {
    fail(ErrorCode::unsupported, op, ": blocks of ", argument,
         " must be 1x128, 128x128, 1xall, allxall, 1x32 or 32x32, got ", name(operand.block));
  }
  if (operand.scale_dtype != Dtype::f32 && !is_mx(operand.block)) {
    fail(ErrorCode::unsupported, op, ": scales of ", argument, " must be f32, got ",
         name(operand.scale_dtype));
  }
}

void check_bias(const GemmProblem& problem) {
  if (!problem.bias_dtype) return;
  if (*problem.bias_dtype != Dtype::f32 && *problem.bias_dtype != problem.out_dtype) {
    fail(ErrorCode::unsupported, kOp, ": bias_dtype must be f32 or that of the output, ",
         name(problem.out_dtype), ", got ", name(*problem.bias_dtype));
  }
  if (problem.accumulate) {
    fail(ErrorCode::unsupported, kOp,
         ": a product that is accumulated takes no bias: each call would add it again");
  }
}

}  // namespace

std::span<const GemmImplementation> gemm_implementations() {
  static const std::array<GemmImplementation, 4> list{kGemmCudaSm90Wgmma, kGemmCublasLt,
                                                      kGemmCpuSimd, kGemmCpuReference};
  return list;
}

std::string describe_operand(const GemmOperand& operand) {
  std::string result(name(operand.dtype));
  if (is_fp8(operand.dtype)) result += ":" + name(operand.block);
  if (operand.major == Major::mn) result += ":mn";
  return result;
}

void check_operands(std::string_view op, const GemmOperand& a, const GemmOperand& b) {
  check_operand(op, "a", a);
  check_operand(op, "b", b);
  if (is_fp8(a.dtype) != is_fp8(b.dtype) || (!is_fp8(a.dtype) && a.dtype != b.dtype)) {
    fail(ErrorCode::unsupported, op, ": a and b must both be FP8 or have the same dtype, got ",
         name(a.dtype), " and ", name(b.dtype));
  }
  if (is_whole_row(a.block) != is_whole_row(b.block)) {
    fail(ErrorCode::unsupported, op,
         ": a and b must both have blocks along the contraction or both have none, got ",
         name(a.block), " and ", name(b.block));
  }
  if (is_mx(a.block) != is_mx(b.block)) {
    fail(ErrorCode::unsupported, op,
         ": a and b must both have mx blocks, 1x32 or 32x32, or neither, got ", name(a.block),
         " and ", name(b.block));
  }
  if (a.block == b.block && (a.block == kBlock128x128 || a.block == kBlock32x32)) {
    fail(ErrorCode::unsupported, op, ": a and b have both ", name(a.block),
         " blocks; at least one must have ", is_mx(a.block) ? "1x32" : "1x128");
  }
}

void check_output(std::string_view op, Dtype out_dtype, bool accumulate) {
  check_float({op, "out_dtype"}, out_dtype);
  if (accumulate && out_dtype == Dtype::f16) {
    fail(ErrorCode::unsupported, op, ": accumulate needs an f32 or bf16 output, got f16");
  }
}

void check_no_scales(Argument argument, const GemmOperand& operand, const QuantizedView& view) {
  if (view.scales.data != nullptr) {
    refuse_argument(argument.op, ": ", argument.name, " is ", name(operand.dtype),
                    ", which has no scales, but scales were given");
  }
}

void read_operand(Call& call, const char* argument, const GemmOperand& operand,
                  const QuantizedView& view, std::int64_t rows, std::int64_t k,
                  std::string_view spelling) {
  if (is_fp8(operand.dtype)) {
    call.reads(argument, view, QuantizedForm{operand.dtype, rows, k, operand.block, spelling});
    return;
  }
  check_strided_matrix({call.op(), argument}, view.values, {operand.dtype, rows, k, spelling},
                       call.device());
  check_no_scales({call.op(), argument}, operand, view);
  const int contiguous = operand.major == Major::k ? 1 : 0;
  if (view.values.shape[contiguous] > 1 && view.values.strides[contiguous] != 1) {
    refuse_argument(call.op(), ": ", argument, " must have stride 1 along its ",
                    contiguous == 1 ? "columns" : "rows", " (major ", contiguous == 1 ? "k" : "mn",
                    "), got ", describe(view.values));
  }
  call.reads_checked(argument, view);
}

std::string describe(const GemmProblem& problem) {
  return text("gemm --shape ", problem.m, "x", problem.n, "x", problem.k, " --a ",
              describe_operand(problem.a), " --b ", describe_operand(problem.b), " --out ",
              name(problem.out_dtype), problem.accumulate ? " --accumulate" : "",
              problem.bias_dtype ? text(" --bias ", name(*problem.bias_dtype)) : "",
              problem.fast_accumulation ? " --fast-accumulation" : "",
              problem.max_multiprocessors != 0
                  ? text(" --max-multiprocessors ", problem.max_multiprocessors)
                  : "",
              " --device ", name(problem.device));
}

void check(const GemmProblem& problem) {
  check_extent(kOp, "M", problem.m);
  check_extent(kOp, "N", problem.n);
  check_extent(kOp, "K", problem.k);
  check_operands(kOp, problem.a, problem.b);
  check_output(kOp, problem.out_dtype, problem.accumulate);
  check_bias(problem);
  if (problem.fast_accumulation && !is_whole_row(problem.a.block)) {
    fail(ErrorCode::unsupported, kOp, ": fast_accumulation needs 1xall or allxall blocks");
  }
  check_count(kOp, "max_multiprocessors", problem.max_multiprocessors);
  if (problem.groups != GroupKind::none) {
    fail(ErrorCode::unsupported, kOp, ": groups are not supported by this version of octet");
  }
  if (problem.activation != Activation::none) {
    fail(ErrorCode::unsupported, kOp, ": activation is not supported by this version of octet");
  }
  check_size(kOp, problem.m, problem.k, Dtype::f32);
  check_size(kOp, problem.n, problem.k, Dtype::f32);
  check_size(kOp, problem.m, problem.n, Dtype::f32);
  check_device(kOp, problem.device);
}

void check(const GemmProblem& problem, const GemmArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace) {
  if (args.a.values.rank == 2 && args.b.values.rank == 2 &&
      args.a.values.cols() != args.b.values.cols()) {
    refuse_argument(kOp, ": a and b must have the same K, got a", describe_shape(args.a.values),
                    " and b", describe_shape(args.b.values));
  }
  Call call(kOp, problem.device);
  read_operand(call, "a", problem.a, args.a, problem.m, problem.k, "[M, K]");
  read_operand(call, "b", problem.b, args.b, problem.n, problem.k, "[N, K]");
  if (problem.bias_dtype) {
    call.reads("bias", args.bias, TensorForm(*problem.bias_dtype, {problem.n}, "[N]"));
  } else if (args.bias.data != nullptr || args.bias.rank != 0) {
    refuse_argument(kOp, ": a bias is given, but the problem has no bias_dtype");
  }
  call.writes("d", args.d, MatrixForm{problem.out_dtype, problem.m, problem.n, "[M, N]"});
  call.check_apart(workspace_bytes, workspace);
}

GemmPlan plan_gemm(const GemmProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(gemm_implementations(), problem,
                   make_request(kOp, precision(problem), describe(problem), options.backend),
                   options);
}

void run(const GemmPlan& plan, const GemmArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
