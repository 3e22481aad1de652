// The cases of moe-permute and moe-unpermute: which tokens, with how many rows.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/moe_permute/problem.hpp"
#include "ops/moe_unpermute/problem.hpp"

namespace octet::tool {
namespace {

// What the two have in common.
template <class Problem>
class MoeRows : public ShapeOperator {
 public:
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x3x512", "--shape 64x3x512 --rows 200 --weights"};
  }

 protected:
  MoeRows(const char* weights_help, GateReport (*check)(const Problem&, const DataOptions&))
      : weights_help_(weights_help), check_(check) {}

  template <class ForwardArgs, class BackwardArgs>
  static std::vector<Support> probe(
      const char* op, std::span<const Implementation<Problem, ForwardArgs>> forward,
      std::span<const Implementation<Problem, BackwardArgs>> backward) {
    std::vector<Support> result;
    for (const Dtype dtype : kProbeFloats) {
      Problem problem;
      problem.tokens = problem.cols = kProbeExtent;
      problem.top_k = 8;
      problem.rows = 8 * kProbeExtent;
      problem.dtype = dtype;
      result.push_back({op, "none", std::string(octet::name(dtype)), "the same",
                        both(answers(forward, problem), answers(backward, problem))});
    }
    return result;
  }

 private:
  const char* shape_form() const override { return "TxKxH"; }
  const char* shape_help() const override {
    return "T tokens with K choices of an expert each and H features.";
  }

  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_whole(app, "--rows", rows_, 1, kMaxGroupedRows,
              with_default("Rows of the experts.", "T * K"));
    add_flag(app, "--weights", weights_, weights_help_);
    add_choice(app, "--tail", tail_, {"zero", "untouched"}, "Rows behind those of the experts.");
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      Problem problem;
      problem.tokens = shape.extents[0];
      problem.top_k = shape.extents[1];
      problem.cols = shape.extents[2];
      problem.rows = rows_.value_or(problem.tokens * problem.top_k);
      problem.dtype = dtype();
      problem.weights = weights_;
      if (tail_ == "untouched") problem.tail = GroupTail::untouched;
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_));
    }
    return cases;
  }

  const char* weights_help_;
  GateReport (*check_)(const Problem&, const DataOptions&);
  std::optional<std::int64_t> rows_;
  bool weights_ = false;
  std::string tail_ = "zero";
};

class MoePermute : public MoeRows<MoePermuteProblem> {
 public:
  MoePermute() : MoeRows("Permute a weight per choice too.", check_moe_permute) {}
  const char* name() const override { return "moe-permute"; }
  const char* about() const override { return "Every token copied to the rows of its experts."; }
  std::vector<Support> support() const override {
    return probe("moe_permute", moe_permute_forward_implementations(),
                 moe_permute_backward_implementations());
  }
};

class MoeUnpermute : public MoeRows<MoeUnpermuteProblem> {
 public:
  MoeUnpermute()
      : MoeRows("Multiply every row by the weight of its choice.", check_moe_unpermute) {}
  const char* name() const override { return "moe-unpermute"; }
  const char* about() const override { return "The rows of every token added up."; }
  std::vector<Support> support() const override {
    return probe("moe_unpermute", moe_unpermute_forward_implementations(),
                 moe_unpermute_backward_implementations());
  }
};

}  // namespace

std::unique_ptr<Operator> make_moe_permute_operator() { return std::make_unique<MoePermute>(); }
std::unique_ptr<Operator> make_moe_unpermute_operator() { return std::make_unique<MoeUnpermute>(); }

}  // namespace octet::tool
