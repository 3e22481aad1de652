// The cases of gated-activation: which activations, on which tensors.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/gated_activation/problem.hpp"

namespace octet::tool {
namespace {

class GatedActivation : public ShapeOperator {
 public:
  const char* name() const override { return "gated-activation"; }
  const char* about() const override {
    return "A gated activation, act(gate) * up, with FP8 output if asked.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x512 --fp8 e4m3", "--shape 64x512 --groups 4 --fp8 e4m3"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result =
        probe_rows("gated_activation", gated_activation_forward_implementations(),
                   gated_activation_backward_implementations());
    for (const Dtype dtype : kProbeFloats) {
      for (const Dtype format : kProbeFp8) result.push_back(probe_groups(dtype, format));
    }
    return result;
  }

 private:
  static Support probe_groups(Dtype dtype, Dtype format) {
    GatedActivationProblem problem{kProbeExtent, kProbeExtent, dtype};
    problem.row_weight = true;
    problem.fp8 = Fp8Output{.format = format};
    problem.groups = 2;
    return {"gated_activation", "groups of 1x128 both ways, row weight",
            std::string(octet::name(dtype)), std::string(octet::name(format)),
            both(answers(gated_activation_forward_implementations(), problem),
                 answers(gated_activation_backward_implementations(), problem))};
  }

  const char* shape_help() const override { return "A gate of R rows and C columns."; }

  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_gate_activation(app, activation_);
    add_flag(app, "--row-weight", row_weight_, "Multiply every row by a weight of its own.");
    add_group_options(app, groups_, "the gate");
    add_fp8_options(app, fp8_,
                    "Write y and the gradients as block-scaled FP8 in this format, row-major and "
                    "transposed. The options below need it.");
  }

  std::vector<Case> cases_on(Device device) const override {
    const Groups groups = wanted_groups(groups_);
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      GatedActivationProblem problem;
      problem.rows = shape.extents[0];
      problem.cols = shape.extents[1];
      problem.dtype = dtype();
      problem.activation = chosen_activation(activation_, shape);
      problem.row_weight = row_weight_;
      problem.fp8 = wanted_fp8(fp8_);
      problem.groups = groups.count;
      problem.tail = groups.tail;
      problem.device = device;
      check_fit(groups, problem.rows);
      cases.push_back(group_case(shape, problem, groups, check_gated_activation));
    }
    return cases;
  }

  std::string activation_;
  bool row_weight_ = false;
  GroupOptions groups_;
  Fp8Options fp8_;
};

}  // namespace

std::unique_ptr<Operator> make_gated_activation_operator() {
  return std::make_unique<GatedActivation>();
}

}  // namespace octet::tool
