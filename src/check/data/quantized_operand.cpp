#include "check/data/quantized_operand.hpp"

#include "check/judge/judge_quantizer.hpp"
#include "check/judge/trial.hpp"

namespace octet {

QuantizedOperand::QuantizedOperand(const std::string& tensor, const TensorView& input,
                                   Turned turned, const OracleRules& rules,
                                   const DataOptions& options, GateReport& report) {
  const TensorView matrix = turned == Turned::yes ? transposed(input) : input;
  if (input.device.type == DeviceType::cpu) {
    oracle_ = quantize_oracle(matrix, rules, options.threads);
    view_ = oracle_.view();
    return;
  }
  write_on_cuda(input, turned, rules, options);
  report.results.push_back(
      judge_quantizer(tensor, view_, matrix, rules, judge_options(options, input.device)));
}

void QuantizedOperand::write_on_cuda(const TensorView& input, Turned turned,
                                     const OracleRules& rules, const DataOptions& options) {
  const bool is_turned = turned == Turned::yes;
  QuantizeProblem problem;
  problem.rows = input.rows();
  problem.cols = input.cols();
  problem.input = input.dtype;
  problem.format = rules.format;
  problem.amax_floor = rules.amax_floor;
  problem.pow2_scales = rules.pow2_scales;
  problem.device = input.device;
  problem.block.reset();
  (is_turned ? problem.transposed_block : problem.block) = rules.block;
  written_ = QuantizedTensor(is_turned ? input.cols() : input.rows(),
                             is_turned ? input.rows() : input.cols(), rules.format, rules.block,
                             input.device);
  view_ = written_.view();
  QuantizeArgs args{input, {}, {}};
  (is_turned ? args.transposed : args.out) = view_;
  run_once(plan_quantize(problem, {options.quantize_backend, options.threads}), args, input.device);
}

}  // namespace octet
