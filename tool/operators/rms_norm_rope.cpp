// The cases of rms-norm-rope: which norms with rotation, on which heads.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/rms_norm_rope/problem.hpp"

namespace octet::tool {
namespace {

class RmsNormRope : public HeadsOperator {
 public:
  const char* name() const override { return "rms-norm-rope"; }
  const char* about() const override {
    return "RMSNorm and rotary embedding of q and k in one call.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 2x32x512", "--shape 2x32x512 --norm head"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const NormScope scope : {NormScope::row, NormScope::head}) {
      for (const Dtype dtype : kProbeFloats) {
        RmsNormRopeProblem problem;
        set_heads(problem, dtype);
        problem.norm = scope;
        result.push_back({"rms_norm_rope",
                          scope == NormScope::row ? "none, norm by row" : "none, norm by head",
                          std::string(octet::name(dtype)), "the same",
                          both(answers(rms_norm_rope_forward_implementations(), problem),
                               answers(rms_norm_rope_backward_implementations(), problem))});
      }
    }
    return result;
  }

 private:
  void add_own_options(CLI::App& app, bool timed) override {
    add_rope_options(app, rope_);
    add_norm_options(app, norm_, timed);
    add_choice(app, "--norm", norm_scope_, {"row", "head"},
               with_default("Normalise over all heads of a token (row) or over each head.",
                            "that of the case, or row"));
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      RmsNormRopeProblem problem;
      apply(rope_, shape, problem);
      apply(norm_, problem);
      problem.norm = scope_of(shape);
      problem.dtype = dtype();
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_rms_norm_rope));
    }
    return cases;
  }

  NormScope scope_of(const ShapeCase& shape) const {
    const auto of_case = shape.options.find("norm");
    const bool by_case = norm_scope_.empty() && of_case != shape.options.end();
    return (by_case ? of_case->second : norm_scope_) == "head" ? NormScope::head : NormScope::row;
  }

  RopeOptions rope_;
  NormOptions norm_;
  std::string norm_scope_;
};

}  // namespace

std::unique_ptr<Operator> make_rms_norm_rope_operator() { return std::make_unique<RmsNormRope>(); }

}  // namespace octet::tool
