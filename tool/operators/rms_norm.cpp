// The cases of rms-norm: which norms, on which tensors.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/rms_norm/problem.hpp"

namespace octet::tool {
namespace {

class RmsNorm : public ShapeOperator {
 public:
  const char* name() const override { return "rms-norm"; }
  const char* about() const override { return "RMSNorm, with a residual and FP8 output if asked."; }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x512", "--shape 64x512 --residual --fp8 e4m3"};
  }

  std::vector<Support> support() const override {
    return probe_rows("rms_norm", rms_norm_forward_implementations(),
                      rms_norm_backward_implementations());
  }

 private:
  void add_own_options(CLI::App& app, bool timed) override {
    add_norm_options(app, norm_, timed);
    add_flag(app, "--residual", residual_, "Normalise x + residual, and write the sum as well.");
    add_fp8_options(app, fp8_,
                    "Write y as block-scaled FP8 in this format, row-major and transposed. The "
                    "options below need it.");
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      RmsNormProblem problem;
      problem.rows = shape.extents[0];
      problem.cols = shape.extents[1];
      problem.dtype = dtype();
      problem.residual = residual_;
      problem.fp8 = wanted_fp8(fp8_);
      problem.device = device;
      apply(norm_, problem);
      cases.push_back(shape_case(shape, problem, check_rms_norm));
    }
    return cases;
  }

  NormOptions norm_;
  bool residual_ = false;
  Fp8Options fp8_;
};

}  // namespace

std::unique_ptr<Operator> make_rms_norm_operator() { return std::make_unique<RmsNorm>(); }

}  // namespace octet::tool
