// Which casts, of which tensors.
#include "tool/options/op_options.hpp"
#include "tool/operators/step_op.hpp"

namespace octet::tool {
namespace {

GateReport check_cast(const QuantizeProblem& problem, const GateOptions& options) {
  GateOptions own = options;
  own.quantize_backend = options.backend;
  return check_quantize(problem, own);
}

class QuantizeOp : public StepOp {
 public:
  const char* name() const override { return "quantize"; }
  const char* about() const override { return "block-scaled casts to FP8"; }
  RowKind rows() const override { return RowKind::cast; }

 private:
  void add_own_options(CLI::App& app, bool /*timed*/) override { add_cast_options(app, fp8_); }

  std::vector<StepCase> cases_on(Device device) const override {
    std::vector<Fp8Output> outputs{cast_output(fp8_)};
    if (fp8_.block.empty() && fp8_.transposed_block.empty()) {
      outputs.push_back(outputs[0]);
      outputs[1].block = outputs[1].transposed_block = kBlock128x128;
    }
    std::vector<StepCase> cases;
    for (const Fp8Output& output : outputs) {
      for (const ShapeCase& shape : shapes_on(device)) {
        QuantizeProblem problem;
        problem.rows = shape.extents[0];
        problem.cols = shape.extents[1];
        problem.input = dtype();
        problem.format = output.format;
        problem.block = output.block;
        problem.transposed_block = output.transposed_block;
        problem.amax_floor = output.amax_floor;
        problem.pow2_scales = output.pow2_scales;
        problem.device = device;
        cases.push_back(step_case(shape, problem, check_cast));
      }
    }
    return cases;
  }

  Fp8Options fp8_;
};

}  // namespace

std::unique_ptr<StepOp> make_quantize_op() { return std::make_unique<QuantizeOp>(); }

}  // namespace octet::tool
