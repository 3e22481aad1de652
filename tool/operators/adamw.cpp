// The cases of adamw: which parameters, in which dtypes.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/adamw/problem.hpp"

namespace octet::tool {
namespace {

class AdamW : public ShapeOperator {
 public:
  const char* name() const override { return "adamw"; }
  const char* about() const override {
    return "One step of AdamW over one parameter, which is written in FP8 as well if asked.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x512", "--shape 64x512 --fp8 e4m3"};
  }
  RowKind rows() const override { return RowKind::update; }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const Dtype dtype : kProbeFloats) {
      const AdamWProblem problem{
          .count = kProbeExtent, .dtype = dtype, .grad_dtype = dtype, .moments_dtype = Dtype::f32};
      result.push_back({"adamw", "none", std::string(octet::name(dtype)), "the same",
                        answers(adamw_implementations(), problem)});
    }
    AdamWProblem cast{.count = kProbeExtent * kProbeExtent,
                      .rows = kProbeExtent,
                      .cols = kProbeExtent,
                      .fp8 = Fp8Output{}};
    cast.fp8->block = cast.fp8->transposed_block = kBlock128x128;
    for (const Dtype format : kProbeFp8) {
      cast.fp8->format = format;
      result.push_back({"adamw", "128x128 both ways", "bf16", std::string(octet::name(format)),
                        answers(adamw_implementations(), cast)});
    }
    return result;
  }

 private:
  const char* shape_help() const override { return "A parameter of R rows and C columns."; }

  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_dtype(app, "--grad-dtype", grad_, kFloats,
              with_default("Data type of the gradient.", "that of the parameter"));
    add_dtype(app, "--moments", moments_, {Dtype::bf16, Dtype::f32},
              with_default("Data type of the moments.", "bf16 for bf16, else f32"));
    add_flag(app, "--master", master_, "Keep a master copy of the parameter in f32.");
    add_flag(app, "--grad-scale", grad_scale_, "Multiply the gradient by a scalar.");
    add_fp8_options(app, fp8_,
                    "Write the parameter as block-scaled FP8 in this format as well, row-major and "
                    "transposed. The options below need it.");
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      AdamWProblem problem;
      problem.count = shape.extents[0] * shape.extents[1];
      problem.dtype = dtype();
      problem.grad_dtype = grad_.value_or(dtype());
      problem.moments_dtype = moments_.value_or(dtype() == Dtype::bf16 ? Dtype::bf16 : Dtype::f32);
      problem.master = master_;
      problem.grad_scale = grad_scale_;
      problem.rows = shape.extents[0];
      problem.cols = shape.extents[1];
      problem.fp8 = wanted_fp8(fp8_);
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_adamw));
    }
    return cases;
  }

  std::optional<Dtype> grad_;
  std::optional<Dtype> moments_;
  bool master_ = false;
  bool grad_scale_ = false;
  Fp8Options fp8_;
};

}  // namespace

std::unique_ptr<Operator> make_adamw_operator() { return std::make_unique<AdamW>(); }

}  // namespace octet::tool
