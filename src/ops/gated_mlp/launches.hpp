// The cost of a sequence of plans: launches, bytes moved, and the largest scratch any of them
// needs, since they run one after the other.
#pragma once

#include <octet/ops/gated_mlp.hpp>
#include <octet/ops/gemm.hpp>
#include <octet/ops/quantize.hpp>

namespace octet {

class Launches {
 public:
  explicit Launches(const Fp8LinearOptions& options) : options_(options) {}

  // Each plans a part and counts it.
  QuantizePlan quantize(const QuantizeProblem& problem);
  GemmPlan multiply(const GemmProblem& problem);
  GatedActivationForwardPlan activate(const GatedActivationProblem& problem);
  GatedActivationBackwardPlan activate_backward(const GatedActivationProblem& problem);

  const GatedMlpCost& cost() const { return cost_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  // "quantize=cpu_simd activation=cpu_simd gemm=cpu_simd", without the parts that do not exist.
  std::string implementations() const;

 private:
  void count(std::int64_t launches, std::int64_t bytes, std::size_t scratch_bytes);
  void count_activation(const GatedActivationProblem& problem, const std::string& implementation,
                        std::size_t workspace_bytes, std::int64_t read, std::int64_t cols);

  Fp8LinearOptions options_;
  GatedMlpCost cost_;
  std::size_t scratch_bytes_ = 0;
  std::string quantize_;
  std::string activation_;
  std::string gemm_;
};

}  // namespace octet
