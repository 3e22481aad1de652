// The cases of gated-mlp: which layers, in which precision.
#include "tool/operators/operator.hpp"
#include "tool/options/layer_options.hpp"

#include "ops/gated_activation/problem.hpp"
#include "ops/gated_mlp/state.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

namespace octet::tool {
namespace {

GatedMlpProblem probe_mlp(std::optional<Granularity> granularity, Dtype dtype,
                          const ProbeFormats& formats) {
  GatedMlpProblem problem;
  problem.m = problem.f = problem.k = kProbeExtent;
  problem.down = true;
  problem.fp8 = granularity.has_value();
  problem.granularity = granularity.value_or(problem.granularity);
  problem.format = formats.format;
  problem.grad_format = formats.grad_format;
  problem.dtype = dtype;
  if (!problem.fp8) problem.dw_dtype = dtype;
  return problem;
}

// An MLP is supported if every one of its parts is.
std::vector<std::string> mlp_answers(const GatedMlpForwardState& forward,
                                     const GatedMlpBackwardState& backward) {
  std::vector<std::string> result;
  for (const ProbeDevice& probe : probe_devices()) {
    AnswerOfParts parts;
    for (const auto* plan : {&forward.quantize_x, &forward.quantize_w_gate_up,
                             &forward.quantize_w_down, &backward.quantize_dy}) {
      if (*plan) parts.add("quantize", answer(quantize_implementations(), (*plan)->problem, probe));
    }
    parts.add("gemm", answer(gemm_implementations(), forward.gate_up.problem, probe));
    for (const auto* plan :
         {&forward.down, &backward.dh, &backward.dw_down, &backward.dx, &backward.dw_gate_up}) {
      if (*plan) parts.add("gemm", answer(gemm_implementations(), (*plan)->problem, probe));
    }
    parts.add("activation", answer(gated_activation_forward_implementations(),
                                   forward.activation.problem, probe));
    parts.add("activation", answer(gated_activation_backward_implementations(),
                                   backward.activation.problem, probe));
    result.push_back(parts.text());
  }
  return result;
}

// Without granularity the products are plain.
std::vector<Support> probe_gated_mlp() {
  std::vector<Support> result;
  for (const std::optional<Granularity> granularity :
       {std::optional(Granularity::blockwise), std::optional(Granularity::tensorwise),
        std::optional(Granularity::rowwise), std::optional(Granularity::mxfp8),
        std::optional<Granularity>()}) {
    for (const Dtype dtype : kProbeFloats) {
      for (const ProbeFormats& formats : kProbeFormats) {
        const GatedMlpProblem problem = probe_mlp(granularity, dtype, formats);
        const GatedMlpForwardPlan forward = plan_gated_mlp_forward(problem);
        const GatedMlpBackwardPlan backward = plan_gated_mlp_backward(problem);
        result.push_back(
            {"gated_mlp", granularity ? std::string(octet::name(*granularity)) : "none",
             std::string(octet::name(dtype)), granularity ? formats.name : "the same",
             mlp_answers(*static_cast<const GatedMlpForwardState*>(forward.state.get()),
                         *static_cast<const GatedMlpBackwardState*>(backward.state.get()))});
        if (!granularity) break;
      }
    }
  }
  return result;
}

class GatedMlp : public ShapeOperator {
 public:
  const char* name() const override { return "gated-mlp"; }
  const char* about() const override {
    return "A gated MLP, act(x Wg^T) * (x Wu^T), with the down projection if asked.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x256x128 --down", "--shape 64x256x128 --dtype bf16"};
  }
  RowKind rows() const override { return RowKind::mlp; }
  std::vector<std::string> chosen_operators() const override {
    return {"gemm", "quantize", "gated_activation"};
  }

  std::vector<Support> support() const override { return probe_gated_mlp(); }

 private:
  const char* shape_form() const override { return "MxFxK"; }
  const char* shape_help() const override {
    return "A layer of M tokens, F features between the products and K features of x.";
  }

  void add_dtype_option(CLI::App& app) override {
    add_choice(app, "--dtype", dtype_, {"fp8", "bf16", "f16", "f32"}, "Precision of the products.");
  }

  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_flag(app, "--down", down_, "Include the down projection.");
    add_gate_activation(app, activation_);
    add_flag(app, "--unfused", unfused_,
             "Pass tensors of --input between the operators instead of FP8; for comparison.");
    const GatedMlpProblem usual;
    add_layer_formats(app, layer_,
                      {.tensors = "the tensors of an FP8 layer",
                       .operands = "x, h and the weights",
                       .gradients = "the gradients",
                       .transposed = "x^T and h^T for the weight gradients"},
                      usual);
    add_weight_gradient(app, layer_, "the weight gradients", usual.dw_dtype);
    option_group(app, "Scales");
    add_granularity(app, layer_,
                    "How FP8 scales are shared; all but blockwise cast h and the gradients of gate "
                    "and up apart from the activation.");
    add_scale_options(app, layer_.amax_floor, layer_.pow2_scales);
    option_group(app, kMachineOptions);
    add_max_multiprocessors(app, layer_.max_multiprocessors);
  }

  std::vector<Case> cases_on(Device device) const override {
    layer_.refuse_without_fp8(
        dtype_, unfused_ ? std::vector<std::string>{"--unfused"} : std::vector<std::string>());
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      GatedMlpProblem problem;
      problem.m = shape.extents[0];
      problem.f = shape.extents[1];
      problem.k = shape.extents[2];
      problem.fp8 = dtype_ == "fp8";
      layer_.set(problem, dtype_);
      problem.activation = chosen_activation(activation_, shape);
      problem.down = down_;
      problem.unfused = unfused_;
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_gated_mlp));
    }
    return cases;
  }

  std::string dtype_ = "fp8";
  std::string activation_;
  bool down_ = false;
  bool unfused_ = false;
  LayerOptions layer_;
};

}  // namespace

std::unique_ptr<Operator> make_gated_mlp_operator() { return std::make_unique<GatedMlp>(); }

}  // namespace octet::tool
