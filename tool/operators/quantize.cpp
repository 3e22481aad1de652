// Which casts, of which tensors.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

namespace octet::tool {
namespace {

class Quantize : public ShapeOperator {
 public:
  const char* name() const override { return "quantize"; }
  const char* about() const override { return "block-scaled casts to FP8"; }
  RowKind rows() const override { return RowKind::cast; }

 private:
  void add_own_options(CLI::App& app, bool /*timed*/) override { add_cast_options(app, fp8_); }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Fp8Output> outputs{cast_output(fp8_)};
    if (fp8_.block.empty() && fp8_.transposed_block.empty()) {
      outputs.push_back(outputs[0]);
      outputs[1].block = outputs[1].transposed_block = kBlock128x128;
    }
    std::vector<Case> cases;
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
        cases.push_back(shape_case(shape, problem, check_quantize));
      }
    }
    return cases;
  }

  Fp8Options fp8_;
};

}  // namespace

std::unique_ptr<Operator> make_quantize_operator() { return std::make_unique<Quantize>(); }

}  // namespace octet::tool
