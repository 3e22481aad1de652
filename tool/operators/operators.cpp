#include "tool/operators/operator.hpp"

namespace octet::tool {

// Each is defined in its operator's file.
std::unique_ptr<Operator> make_gemm_operator();
std::unique_ptr<Operator> make_quantize_operator();
std::unique_ptr<Operator> make_rms_norm_operator();
std::unique_ptr<Operator> make_rope_operator();
std::unique_ptr<Operator> make_rms_norm_rope_operator();
std::unique_ptr<Operator> make_gated_activation_operator();
std::unique_ptr<Operator> make_gated_mlp_operator();

const std::vector<MakeOperator>& operators() {
  static const std::vector<MakeOperator> makers{
      make_gemm_operator,      make_quantize_operator,      make_rms_norm_operator,
      make_rope_operator,      make_rms_norm_rope_operator, make_gated_activation_operator,
      make_gated_mlp_operator,
  };
  return makers;
}

}  // namespace octet::tool
