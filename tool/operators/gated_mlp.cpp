// The cases of gated-mlp: which layers, in which precision.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/gated_activation/problem.hpp"
#include "ops/gated_mlp/state.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"

namespace octet::tool {
namespace {

GatedMlpProblem probe_mlp(std::optional<Granularity> granularity, Dtype dtype) {
  GatedMlpProblem problem;
  problem.m = problem.f = problem.k = kProbeExtent;
  problem.down = true;
  problem.fp8 = granularity.has_value();
  problem.granularity = granularity.value_or(problem.granularity);
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
      const GatedMlpProblem problem = probe_mlp(granularity, dtype);
      const GatedMlpForwardPlan forward = plan_gated_mlp_forward(problem);
      const GatedMlpBackwardPlan backward = plan_gated_mlp_backward(problem);
      result.push_back(
          {"gated_mlp", granularity ? std::string(octet::name(*granularity)) : "none",
           std::string(octet::name(dtype)), granularity ? "e4m3" : "the same",
           mlp_answers(*static_cast<const GatedMlpForwardState*>(forward.state.get()),
                       *static_cast<const GatedMlpBackwardState*>(backward.state.get()))});
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
    add_dtype(app, "--input", input_, kFloats,
              with_default("Data type of the tensors of an FP8 layer.", usual.dtype));
    add_layer_formats(app, formats_, "x, h and the weights", "the gradients", usual.format,
                      usual.grad_format);
    add_dtype(app, "--dw", dw_, kFloats,
              with_default("Data type of the weight gradients.", usual.dw_dtype));
    add_flag(app, "--accumulate-dw", accumulate_dw_,
             "Add the weight gradients to dw instead of overwriting it.");
    option_group(app, "Scales");
    add_choice(
        app, "--granularity", granularity_, {"blockwise", "tensorwise", "rowwise", "mxfp8"},
        "How FP8 scales are shared; all but blockwise cast h and the gradients of gate and up "
        "apart from the activation.");
    add_choice(app, "--wgrad-blocks", wgrad_blocks_, {"1d", "2d"},
               "Scale blocks of x^T and h^T for the weight gradients: 1x128 (1d) or 128x128 (2d).");
    add_scale_options(app, amax_floor_, pow2_scales_);
    add_choice(app, "--mx-scale", mx_scale_, {"floor", "even", "up"},
               "How the scale of an mx block follows from its largest magnitude.");
    add_flag(app, "--fast-accumulation", fast_accumulation_,
             "Leave the sums of tensorwise and rowwise products in the tensor cores.");
    option_group(app, kMachineOptions);
    add_max_multiprocessors(app, max_multiprocessors_);
  }

  void check_options_fit() const {
    if (dtype_ == "fp8") return;
    if (unfused_ || input_ || formats_.is_given() || wgrad_blocks_ != "1d" || amax_floor_ ||
        pow2_scales_ || granularity_ != "blockwise" || mx_scale_ != "floor" || fast_accumulation_) {
      refuse_usage(
          "--unfused, --input, --format, --grad-format, --granularity, --wgrad-blocks, "
          "--amax-floor, --pow2-scales, --mx-scale and --fast-accumulation go with --dtype fp8, "
          "got --dtype {}",
          dtype_);
    }
  }

  std::vector<Case> cases_on(Device device) const override {
    check_options_fit();
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      GatedMlpProblem problem;
      problem.m = shape.extents[0];
      problem.f = shape.extents[1];
      problem.k = shape.extents[2];
      problem.fp8 = dtype_ == "fp8";
      problem.dtype = problem.fp8 ? input_.value_or(problem.dtype) : *parse_dtype(dtype_);
      problem.activation = chosen_activation(activation_, shape);
      problem.down = down_;
      problem.unfused = unfused_;
      formats_.set(problem);
      problem.wgrad_blocks = wgrad_blocks_ == "2d" ? WgradBlocks::square : WgradBlocks::rows;
      problem.granularity = parse_granularity(granularity_).value_or(problem.granularity);
      problem.mx_scale = mx_scale_ == "even" ? MxScale::even
                         : mx_scale_ == "up" ? MxScale::up
                                             : MxScale::floor;
      problem.fast_accumulation = fast_accumulation_;
      problem.amax_floor = amax_floor_.value_or(problem.amax_floor);
      problem.pow2_scales = pow2_scales_;
      problem.dw_dtype = dw_.value_or(problem.dw_dtype);
      problem.accumulate_dw = accumulate_dw_;
      problem.max_multiprocessors = max_multiprocessors_;
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_gated_mlp));
    }
    return cases;
  }

  std::string dtype_ = "fp8";
  std::string activation_;
  std::string wgrad_blocks_ = "1d";
  std::string granularity_ = "blockwise";
  std::string mx_scale_ = "floor";
  bool fast_accumulation_ = false;
  bool down_ = false;
  bool unfused_ = false;
  bool pow2_scales_ = false;
  bool accumulate_dw_ = false;
  std::optional<Dtype> input_, dw_;
  LayerFormats formats_;
  std::optional<float> amax_floor_;
  std::int32_t max_multiprocessors_ = 0;
};

}  // namespace

std::unique_ptr<Operator> make_gated_mlp_operator() { return std::make_unique<GatedMlp>(); }

}  // namespace octet::tool
