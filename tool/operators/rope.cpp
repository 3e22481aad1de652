// The cases of rope: which rotations, on which heads.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/rope/problem.hpp"

namespace octet::tool {
namespace {

class Rope : public HeadsOperator {
 public:
  const char* name() const override { return "rope"; }
  const char* about() const override { return "Rotary position embedding of q and k."; }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 2x32x512", "--shape 2x32x512 --kv-heads 2 --style interleaved"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const Dtype dtype : kProbeFloats) {
      RopeProblem problem;
      set_heads(problem, dtype);
      result.push_back({"rope", "none", std::string(octet::name(dtype)), "the same",
                        answers(rope_implementations(), problem)});
    }
    return result;
  }

 private:
  void add_own_options(CLI::App& app, bool) override { add_rope_options(app, rope_); }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      RopeProblem problem;
      apply(rope_, shape, problem);
      problem.dtype = dtype();
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_rope));
    }
    return cases;
  }

  RopeOptions rope_;
};

}  // namespace

std::unique_ptr<Operator> make_rope_operator() { return std::make_unique<Rope>(); }

}  // namespace octet::tool
