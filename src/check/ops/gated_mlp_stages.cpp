// The tensors between the products of a gated MLP, made and judged one after another.
#include "check/ops/gated_mlp.hpp"
#include "check/reference/decode.hpp"
#include "core/views.hpp"
#include "ops/gated_mlp/state.hpp"

namespace octet {
namespace {

// Which dimension of an operand is contiguous.
GemmOperand operand_of(const QuantizedView& view) {
  const bool k_major = view.values.strides[1] == 1;
  return {view.values.dtype, view.block, k_major ? Major::k : Major::mn};
}

}  // namespace

std::vector<GateResult> judge_any_product(const std::string& tensor, const ProductClaim& claim,
                                          const JudgeOptions& options) {
  return is_fp8(claim.a.values.dtype) ? judge_kernel(tensor, claim, options)
                                      : judge_float_product(tensor, claim, options);
}

GatedMlpStages::GatedMlpStages(const GatedMlpProblem& problem, const DataOptions& options,
                               const GatedMlpInputs& inputs, const GatedMlpOperands& operands,
                               const GatedMlpOutputs& outputs, GateReport& report)
    : problem_(problem),
      options_(options),
      judge_(judge_options(options, problem.device)),
      report_(report) {
  forward(operands, outputs);
  if (outputs.dx || outputs.dw_gate_up) backward(inputs, operands);
}

void GatedMlpStages::forward(const GatedMlpOperands& operands, const GatedMlpOutputs& outputs) {
  gate_up_ = outputs.gate_up ? outputs.gate_up->view() : multiply(operands.x, operands.w_gate_up);
  add(report_, judge_any_product("gate_up", {gate_up_, operands.x, operands.w_gate_up}, judge_));

  const std::optional<GuardedMatrix>& shown = problem_.down ? outputs.saved_h : outputs.h;
  const TensorView plain = shown ? shown->view() : activate_plain();
  judge_elements_of("h", plain, &GatedActivationReference::y_row);
  h = operand("h", plain, Transpose::no, problem_.format, strip_block(problem_));
  if (problem_.training && problem_.need_dw) {
    h_t = operand("h^T", plain, Transpose::yes, problem_.format, wgrad_block(problem_));
  }
}

void GatedMlpStages::backward(const GatedMlpInputs& inputs, const GatedMlpOperands& operands) {
  dh_ = inputs.dout;
  if (problem_.down) {
    dh_ = multiply(operands.dy, operands.w_down_t);
    add(report_, judge_any_product("dh", {dh_, operands.dy, operands.w_down_t}, judge_));
  }
  const TensorView plain = activate_backward_plain();
  judge_elements_of("dgate", Halves(plain).gate, &GatedActivationReference::dgate_row);
  judge_elements_of("dup", Halves(plain).up, &GatedActivationReference::dup_row);
  if (problem_.need_dx) {
    d_gate_up =
        operand("d_gate_up", plain, Transpose::no, problem_.grad_format, strip_block(problem_));
  }
  if (problem_.need_dw) {
    d_gate_up_t =
        operand("d_gate_up^T", plain, Transpose::yes, problem_.grad_format, strip_block(problem_));
  }
}

void GatedMlpStages::judge_elements_of(const char* name, const TensorView& out, ReferenceOf row) {
  const Halves halves(gate_up_);
  const GatedActivationReference reference(problem_.activation, dh_, halves.gate, halves.up, {},
                                           judged_rows(problem_.m, problem_.f, judge_));
  add(report_, judge_elements(name, {out, rows_of(reference, row)}, judge_));
}

TensorView GatedMlpStages::multiply(const QuantizedView& a, const QuantizedView& b) {
  const bool fp8 = problem_.fp8;
  // The oracle has a layout of its own.
  const QuantizedTensor our_a = fp8 ? in_our_layout(a) : QuantizedTensor();
  const QuantizedTensor our_b = fp8 ? in_our_layout(b) : QuantizedTensor();
  GemmArgs args{fp8 ? our_a.view() : a, fp8 ? our_b.view() : b, {}};
  GemmProblem product;
  product.m = a.values.rows();
  product.n = b.values.rows();
  product.k = a.values.cols();
  product.a = operand_of(args.a);
  product.b = operand_of(args.b);
  product.out_dtype = problem_.dtype;
  product.fast_accumulation = problem_.fast_accumulation;
  product.device = problem_.device;
  tensors_.emplace_back(problem_.dtype, std::initializer_list<std::int64_t>{product.m, product.n},
                        problem_.device);
  args.d = tensors_.back();
  run_once(plan_gemm(product, {options_.backend, options_.threads}), args, problem_.device);
  return args.d;
}

TensorView GatedMlpStages::activate_plain() {
  tensors_.emplace_back(problem_.dtype, std::initializer_list<std::int64_t>{problem_.m, problem_.f},
                        problem_.device);
  GatedActivationForwardArgs args;
  args.gate = Halves(gate_up_).gate;
  args.up = Halves(gate_up_).up;
  args.y = tensors_.back();
  run_once(plan_gated_activation_forward(activation_problem(problem_), {"", options_.threads}),
           args, problem_.device);
  return args.y;
}

TensorView GatedMlpStages::activate_backward_plain() {
  tensors_.emplace_back(problem_.dtype,
                        std::initializer_list<std::int64_t>{problem_.m, 2 * problem_.f},
                        problem_.device);
  const TensorView both = tensors_.back();
  GatedActivationBackwardArgs args;
  args.dy = dh_;
  args.gate = Halves(gate_up_).gate;
  args.up = Halves(gate_up_).up;
  args.dgate = Halves(both).gate;
  args.dup = Halves(both).up;
  run_once(plan_gated_activation_backward(activation_problem(problem_), {"", options_.threads}),
           args, problem_.device);
  return both;
}

QuantizedView GatedMlpStages::operand(const char* name, const TensorView& tensor,
                                      Transpose transpose, Dtype format, BlockShape block) {
  if (!problem_.fp8) return transpose == Transpose::yes ? transposed(tensor) : tensor;
  casts_.push_back(cast(problem_, name, tensor, transpose, format, block, options_, report_));
  return casts_.back().view();
}

}  // namespace octet
