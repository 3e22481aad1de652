// The cases of linear-cross-entropy: which heads, in which precision.
#include "tool/operators/operator.hpp"
#include "tool/options/layer_options.hpp"

#include "ops/gemm/problem.hpp"
#include "ops/linear_cross_entropy/state.hpp"
#include "ops/quantize/problem.hpp"

namespace octet::tool {
namespace {

LinearCrossEntropyProblem probe_head(bool fp8, Dtype dtype) {
  LinearCrossEntropyProblem problem;
  problem.m = problem.v = problem.k = kProbeExtent;
  problem.fp8 = fp8;
  problem.dtype = dtype;
  if (!fp8) problem.dw_dtype = dtype;
  return problem;
}

// A head is supported if every one of its parts is.
std::vector<std::string> head_answers(const LinearCrossEntropyState& state) {
  std::vector<std::string> result;
  for (const ProbeDevice& probe : probe_devices()) {
    AnswerOfParts parts;
    const auto quantize = [&](const QuantizePlan& plan) {
      parts.add("quantize", answer(quantize_implementations(), plan.problem, probe));
    };
    const auto multiply = [&](const GemmPlan& plan) {
      parts.add("gemm", answer(gemm_implementations(), plan.problem, probe));
    };
    if (state.quantize_x) quantize(*state.quantize_x);
    if (state.quantize_w) quantize(*state.quantize_w);
    if (state.quantize_dlogits) quantize(state.quantize_dlogits->full);
    multiply(state.logits.full);
    multiply(state.dx->full);
    multiply(*state.dw);
    parts.add("loss", answer(loss_rows_implementations(), state.loss_rows.problem, probe));
    result.push_back(parts.text());
  }
  return result;
}

std::vector<Support> probe_linear_cross_entropy() {
  std::vector<Support> result;
  for (const bool fp8 : {true, false}) {
    for (const Dtype dtype : kProbeFloats) {
      const auto plan = plan_linear_cross_entropy_forward(probe_head(fp8, dtype));
      result.push_back(
          {"linear_cross_entropy", fp8 ? "blockwise" : "none", std::string(name(dtype)),
           fp8 ? "e4m3" : "the same",
           head_answers(*static_cast<const LinearCrossEntropyState*>(plan.state.get()))});
    }
  }
  return result;
}

class LinearCrossEntropy : public ShapeOperator {
 public:
  const char* name() const override { return "linear-cross-entropy"; }
  const char* about() const override {
    return "The head of a language model and its loss, in chunks of tokens, with both gradients.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x1000x128", "--shape 64x1000x128 --dtype bf16"};
  }
  RowKind rows() const override { return RowKind::head; }
  std::vector<std::string> chosen_operators() const override {
    return {"gemm", "quantize", "linear_cross_entropy"};
  }

  std::vector<Support> support() const override { return probe_linear_cross_entropy(); }

 private:
  const char* shape_form() const override { return "MxVxK"; }
  const char* shape_help() const override {
    return "M tokens, V words of the vocabulary and K features.";
  }

  void add_dtype_option(CLI::App& app) override {
    add_choice(app, "--dtype", dtype_, {"fp8", "bf16", "f16", "f32"}, "Precision of the products.");
  }

  void add_own_options(CLI::App& app, bool timed) override {
    const LinearCrossEntropyProblem usual;
    add_choice(app, "--reduction", reduction_, {"none", "sum", "mean"},
               "Loss per token, their sum, or their mean.");
    add_dtype(app, "--target", target_, {Dtype::i64, Dtype::i32},
              with_default("Data type of the targets.", usual.target_dtype));
    add_layer_formats(
        app, layer_,
        {.tensors = "the tensors of an FP8 head", .gradients = "the gradients of the logits"},
        usual);
    add_scale_options(app, layer_.amax_floor, layer_.pow2_scales);
    if (!timed) add_flag(app, "--inference", inference_, "The loss only.");
    add_weight_gradient(app, layer_, "the weight gradient", usual.dw_dtype, true,
                        "dw, which must be f32,");
    add_whole(app, "--chunk-rows", chunk_rows_, 1, std::int64_t{1} << 31,
              with_default("Tokens of a chunk, a multiple of 128.",
                           "as many as keep their logits within 512 MiB"));
    option_group(app, kMachineOptions);
    add_max_multiprocessors(app, layer_.max_multiprocessors);
  }

  std::vector<Case> cases_on(Device device) const override {
    layer_.refuse_without_fp8(dtype_);
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      LinearCrossEntropyProblem problem;
      problem.m = shape.extents[0];
      problem.v = shape.extents[1];
      problem.k = shape.extents[2];
      problem.fp8 = dtype_ == "fp8";
      layer_.set(problem, dtype_);
      problem.reduction = reduction_ == "none"  ? LossReduction::none
                          : reduction_ == "sum" ? LossReduction::sum
                                                : LossReduction::mean;
      problem.target_dtype = target_.value_or(problem.target_dtype);
      problem.training = !inference_;
      problem.max_chunk_rows = chunk_rows_;
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_linear_cross_entropy));
    }
    return cases;
  }

  std::string dtype_ = "fp8";
  std::string reduction_ = "mean";
  bool inference_ = false;
  std::int64_t chunk_rows_ = 0;
  std::optional<Dtype> target_;
  LayerOptions layer_;
};

}  // namespace

std::unique_ptr<Operator> make_linear_cross_entropy_operator() {
  return std::make_unique<LinearCrossEntropy>();
}

}  // namespace octet::tool
