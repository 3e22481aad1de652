// The cases of moe-route: which experts are chosen, and how.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/moe_route/problem.hpp"

#include <charconv>

namespace octet::tool {
namespace {

constexpr std::int64_t kUsualTopK = 2;

class MoeRoute : public ShapeOperator {
 public:
  const char* name() const override { return "moe-route"; }
  const char* about() const override {
    return "The experts of every token of a mixture, and their weights.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x12 --top-k 3", "--shape 64x32 --score sigmoid --bias"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const Dtype dtype : kProbeFloats) {
      const MoeRouteProblem problem{
          .tokens = kProbeExtent, .experts = 64, .top_k = 8, .dtype = dtype};
      result.push_back({"moe_route", "none", std::string(octet::name(dtype)), "i32, f32",
                        both(answers(moe_route_forward_implementations(), problem),
                             answers(moe_route_backward_implementations(), problem))});
    }
    return result;
  }

 private:
  const char* shape_form() const override { return "TxE"; }
  const char* shape_help() const override { return "T tokens and E experts."; }

  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_whole(app, "--top-k", top_k_, 1, kMaxTopK,
              with_default("Experts of a token.", "that of the case, or 2"));
    add_choice(app, "--score", score_, {"softmax", "sigmoid"},
               with_default("How logits become scores.", "that of the case, or softmax"));
    add_flag(app, "--bias", bias_, "Add a bias per expert for the choice.");
    add_whole(app, "--expert-groups", expert_groups_, 1, kMaxExperts,
              with_default("Groups of experts; a divisor of E.", "that of the case, or 1"));
    add_whole(app, "--top-groups", top_groups_, 1, kMaxExperts,
              with_default("Groups whose experts may be chosen.", "that of the case, or 1"));
    add_choice(app, "--group-score", group_score_, {"best", "best_two"},
               "Score of a group: its best expert, or the sum of its best two.");
    add_flag(app, "--no-normalize", no_normalize_, "Do not divide the weights by their sum.");
    add_f32(app, "--scale", scale_,
            with_default("Factor of the weights.", "that of the case, or 1"));
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      MoeRouteProblem problem;
      problem.tokens = shape.extents[0];
      problem.experts = shape.extents[1];
      problem.top_k = number_of(top_k_, shape, "top-k").value_or(kUsualTopK);
      problem.dtype = dtype();
      if (text_of(score_, shape, "score") == "sigmoid") problem.score = RouteScore::sigmoid;
      problem.bias = bias_ || !text_of("", shape, "bias").empty();
      problem.expert_groups = number_of(expert_groups_, shape, "expert-groups").value_or(1);
      problem.top_groups = number_of(top_groups_, shape, "top-groups").value_or(1);
      if (group_score_ == "best") problem.group_score = ExpertGroupScore::best;
      problem.normalize = !no_normalize_;
      problem.scale = scale_of(shape);
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_moe_route));
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

  std::optional<std::int64_t> top_k_;
  std::string score_;
  bool bias_ = false;
  std::optional<std::int64_t> expert_groups_;
  std::optional<std::int64_t> top_groups_;
  std::string group_score_ = "best_two";
  bool no_normalize_ = false;
  std::optional<float> scale_;
};

}  // namespace

std::unique_ptr<Operator> make_moe_route_operator() { return std::make_unique<MoeRoute>(); }

}  // namespace octet::tool
