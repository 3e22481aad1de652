// The cases of moe-mlp: which layers of experts, how they are routed, and how their weights' gradients
// are made.
#include "tool/operators/operator.hpp"
#include "tool/options/layer_options.hpp"

#include "ops/gated_activation/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"
#include "ops/moe_maps/problem.hpp"
#include "ops/moe_mlp/parts.hpp"
#include "ops/moe_permute/problem.hpp"
#include "ops/moe_route/problem.hpp"
#include "ops/moe_unpermute/problem.hpp"
#include "ops/quantize/problem.hpp"

#include <charconv>
#include <limits>

namespace octet::tool {
namespace {

constexpr std::int64_t kUsualExperts = 8;
constexpr std::int64_t kUsualTopK = 2;

// A layer is supported if every one of its parts is.
std::vector<std::string> moe_answers(const MoeMlpForwardState& forward,
                                     const MoeMlpBackwardState& backward) {
  std::vector<std::string> result;
  for (const ProbeDevice& probe : probe_devices()) {
    AnswerOfParts parts;
    parts.add("route", answer(moe_route_forward_implementations(), forward.route->problem, probe));
    parts.add("maps", answer(moe_maps_implementations(), forward.maps.problem, probe));
    parts.add("permute",
              answer(moe_permute_forward_implementations(), forward.row_weight.problem, probe));
    for (const QuantizePlan* plan :
         {&forward.quantize_x, &*forward.quantize_w_gate_up, &backward.quantize_dy}) {
      parts.add("quantize", answer(quantize_implementations(), plan->problem, probe));
    }
    for (const GroupedGemmPlan* plan :
         {&forward.gate_up, &forward.down, &backward.dh, &*backward.dw_down}) {
      parts.add("grouped_gemm", answer(grouped_gemm_implementations(), plan->problem, probe));
    }
    parts.add("activation", answer(gated_activation_forward_implementations(),
                                   forward.activation.problem, probe));
    parts.add("activation", answer(gated_activation_backward_implementations(),
                                   backward.activation.problem, probe));
    parts.add("unpermute",
              answer(moe_unpermute_forward_implementations(), forward.unpermute.problem, probe));
    result.push_back(parts.text());
  }
  return result;
}

class MoeMlpOperator : public ShapeOperator {
 public:
  const char* name() const override { return "moe-mlp"; }
  const char* about() const override {
    return "A layer of experts in FP8, from routing to output.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 96x128x256 --experts 6 --top-k 2", "--shape 96x128x256 --wgrad-blocks 2d"};
  }
  RowKind rows() const override { return RowKind::mlp; }
  std::vector<std::string> chosen_operators() const override {
    return {"grouped_gemm", "quantize",    "gated_activation", "moe_route",
            "moe_maps",     "moe_permute", "moe_unpermute"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const Dtype dtype : kProbeFloats) {
      MoeMlpProblem problem;
      problem.tokens = problem.f = problem.k = kProbeExtent;
      problem.experts = kUsualExperts;
      problem.top_k = kUsualTopK;
      problem.dtype = dtype;
      const MoeMlpForwardPlan forward = plan_moe_mlp_forward(problem);
      const MoeMlpBackwardPlan backward = plan_moe_mlp_backward(problem);
      result.push_back(
          {"moe_mlp", "blockwise", std::string(octet::name(dtype)), "e4m3",
           moe_answers(*static_cast<const MoeMlpForwardState*>(forward.state.get()),
                       *static_cast<const MoeMlpBackwardState*>(backward.state.get()))});
    }
    return result;
  }

 private:
  const char* shape_form() const override { return "TxFxK"; }
  const char* shape_help() const override {
    return "T tokens, F features between the products and K features of x.";
  }

  void add_dtype_option(CLI::App& app) override {
    add_choice(app, "--dtype", dtype_, {"fp8"}, "Precision of the products.");
  }

  void add_own_options(CLI::App& app, bool /*timed*/) override {
    const MoeMlpProblem usual;
    add_gate_activation(app, activation_);
    add_layer_formats(app, layer_,
                      {.tensors = "the tensors",
                       .operands = "x, h and the weights",
                       .gradients = "the gradients",
                       .transposed = "x^T and h^T for the weight gradients"},
                      usual);
    add_scale_options(app, layer_.amax_floor, layer_.pow2_scales);
    add_weight_gradient(app, layer_, "the weight gradients", usual.dw_dtype, false);
    option_group(app, "Routing");
    add_whole(app, "--experts", experts_, 1, kMaxExperts,
              with_default("Experts of the mixture.", "those of the case, or 8"));
    add_whole(app, "--top-k", top_k_, 1, kMaxTopK,
              with_default("Experts of a token.", "that of the case, or 2"));
    add_dtype(app, "--logits", logits_, kFloats,
              with_default("Data type of the logits.", Dtype::f32));
    add_choice(app, "--score", score_, {"softmax", "sigmoid"},
               with_default("How logits become scores.", "that of the case, or softmax"));
    add_flag(app, "--bias", bias_, "Add a bias per expert for the choice.");
    add_whole(app, "--expert-groups", expert_groups_, 1, kMaxExperts,
              with_default("Groups of experts; a divisor of the experts.", "1"));
    add_whole(app, "--top-groups", top_groups_, 1, kMaxExperts,
              with_default("Groups whose experts may be chosen.", "1"));
    add_choice(app, "--group-score", group_score_, {"best", "best_two"},
               "Score of a group: its best expert, or the sum of its best two.");
    add_flag(app, "--no-normalize", no_normalize_, "Do not divide the weights by their sum.");
    add_f32(app, "--scale", scale_, with_default("Factor of the weights.", "1"));
    add_flag(app, "--given-experts", given_, "Experts and weights are given instead of logits.");
    option_group(app, "Experts here");
    add_whole(app, "--first-expert", first_expert_, 0, kMaxExperts - 1,
              with_default("First of the experts that are here.", "0"));
    add_whole(app, "--local-experts", local_experts_, 1, kMaxExperts,
              with_default("Experts that are here.", "all"));
    add_whole(app, "--rows", rows_, 1, kMaxGroupedRows,
              with_default("Rows of the buffers.", "one for every choice"));
    add_whole(app, "--capacity", capacity_, 1, kMaxGroupedRows,
              with_default("Tokens of an expert at most.", "any number"));
    option_group(app, kMachineOptions);
    add_max_multiprocessors(app, layer_.max_multiprocessors);
  }

  std::optional<MoeRouting> routing_of(const ShapeCase& shape) const {
    if (given_) return std::nullopt;
    MoeRouting routing;
    routing.dtype = logits_.value_or(routing.dtype);
    if (text_of(score_, shape, "score") == "sigmoid") routing.score = RouteScore::sigmoid;
    routing.bias = bias_ || !text_of("", shape, "bias").empty();
    routing.expert_groups = number_of(expert_groups_, shape, "expert-groups").value_or(1);
    routing.top_groups = number_of(top_groups_, shape, "top-groups").value_or(1);
    if (group_score_ == "best") routing.group_score = ExpertGroupScore::best;
    routing.normalize = !no_normalize_;
    routing.scale = scale_of(shape);
    return routing;
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      MoeMlpProblem problem;
      problem.tokens = shape.extents[0];
      problem.f = shape.extents[1];
      problem.k = shape.extents[2];
      problem.experts = number_of(experts_, shape, "experts").value_or(kUsualExperts);
      problem.top_k = number_of(top_k_, shape, "top-k").value_or(kUsualTopK);
      problem.routing = routing_of(shape);
      problem.first_expert = first_expert_.value_or(0);
      problem.local_experts = local_experts_.value_or(0);
      problem.rows = rows_.value_or(0);
      problem.capacity = capacity_.value_or(0);
      layer_.set(problem, dtype_);
      problem.activation = chosen_activation(activation_, shape);
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_moe_mlp));
    }
    return cases;
  }

  static std::string text_of(const std::string& given, const ShapeCase& shape,
                             const std::string& option) {
    const auto of_case = shape.options.find(option);
    return given.empty() && of_case != shape.options.end() ? of_case->second : given;
  }
  float scale_of(const ShapeCase& shape) const {
    if (scale_) return *scale_;
    const std::string text = text_of("", shape, "scale");
    float scale = 1;
    std::from_chars(text.data(), text.data() + text.size(), scale);
    return scale;
  }

  std::string dtype_ = "fp8", score_, group_score_ = "best_two", activation_;
  bool bias_ = false, no_normalize_ = false, given_ = false;
  std::optional<std::int64_t> experts_, top_k_, expert_groups_, top_groups_, first_expert_;
  std::optional<std::int64_t> local_experts_, rows_, capacity_;
  std::optional<float> scale_;
  std::optional<Dtype> logits_;
  LayerOptions layer_;
};

}  // namespace

std::unique_ptr<Operator> make_moe_mlp_operator() { return std::make_unique<MoeMlpOperator>(); }

}  // namespace octet::tool
